"""A sort clustering beside steady ingestion, on a local disk: most groups complete, no write fails, every row is there once.

The writer commits five times a second, each time to one of a hundred plan groups.
"""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.verify import verify_table
from tests.bounds import bound
from tests.tables import VERSIONED, by_key, of_schema

PARTITIONS = 100
COMMIT_EVERY_S = 0.2


def batch(keys: range, version: int) -> pa.Table:
    return of_schema(VERSIONED, [(f"k{n:05d}", f"p{n % PARTITIONS:02d}", n * version % 997, version) for n in keys])


class Writer(threading.Thread):
    """Commits one key at a time until it is told to stop; `model` has what was acknowledged."""

    def __init__(self, path: Path, model: dict[str, int], number: int) -> None:
        super().__init__()
        self.model, self.commits = model, 0
        self.error: Exception | None = None
        self.has_begun = threading.Event()
        self._first_version = 1_000 * (number + 1)
        self._path, self._dice, self._stop_now = path, random.Random(number), threading.Event()

    def run(self) -> None:
        """Write, and keep the first error."""
        try:
            table = Table.open(str(self._path))
            while not self._stop_now.wait(COMMIT_EVERY_S):
                key = self._dice.randrange(len(self.model))
                rows = batch(range(key, key + 1), self._first_version + self.commits)
                done = table.ingest(rows)
                assert done.ended_plans == ()
                self.model[rows["id"][0].as_py()] = rows["value"][0].as_py()
                self.commits += 1
                if self.commits >= 2:
                    self.has_begun.set()
            table.close()
        except Exception as error:
            self.error = error
            self.has_begun.set()

    def stop(self) -> None:
        """End, and raise what went wrong."""
        self._stop_now.set()
        self.join()
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    "kind", [pytest.param("cow", marks=pytest.mark.full("repeats what quick proves with a like case")), "mor"]
)
def test_most_groups_complete_beside_five_commits_a_second(tmp_path: Path, kind: str) -> None:
    rows_each = bound(20, 50, 2_000)
    path, count = tmp_path / "table", rows_each * PARTITIONS
    settings = {"clean": {"automatic": False}, "archive": {"automatic": False}}
    table = Table.create(
        str(path), name="steady", record_key=["id"], schema=VERSIONED, partition_by=["part"], ordering="ts",
        table_type=kind, index="bloom", metadata=True, **settings,
    )  # fmt: skip
    table.ingest(batch(range(count), 1))
    model = {f"k{n:05d}": n % 997 for n in range(count)}
    for number in range(bound(1, 1, 5)):
        planned = table.clustering.plan(sort_by=["value"], rewrite=True)
        writer = Writer(path, model, number)
        writer.start()
        assert writer.has_begun.wait(60), "the writer committed nothing"
        done = table.clustering.execute(engine="local")
        writer.stop()
        assert planned.counts["planned"] == done.replaced + done.left_out
        assert writer.commits >= 2
        assert done.left_out <= writer.commits + 1
        assert done.groups >= PARTITIONS / 2, (done, writer.commits)
        assert by_key(table) == model
    assert verify_table(table.context.storage, deep=True, index=True).findings == ()
