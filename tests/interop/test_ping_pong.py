"""Apache Hudi and we write one table in turn, with the same bucket index, against a dict: nothing is lost, nothing doubled.

Rounds are random but seeded; `--soak` plays more of them, and more seeds. After every round both programs and the `hudi` package
must read the model's rows, and the meta columns of all three must agree.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows
from tests.interop.our_rows import SCHEMAS, Row, as_table, row
from tests.property.table_model import Shape, TableModel

HudiRsReader = Callable[..., pa.Table]

SOAK = bool(os.environ.get("HUDI_OPS_SOAK"))
ROUNDS, SOAK_ROUNDS = 10, 20
SEEDS = range(12 if SOAK else 1)
SCHEMA = SCHEMAS["parquet"]
NUMBERS = range(120)
SHAPE = Shape(("id",), ("month",), "seq", 3)

OURS = (
    *("upsert", "upsert", "upsert", "insert", "bulk_insert", "delete"),
    *("insert_overwrite", "insert_overwrite_table", "delete_partition"),
)
# Not its bulk_insert: into a bucket that has a file group it makes a second one, in tables of its own too.
THEIRS = ("upsert", "upsert", "upsert", "insert", "delete", "insert_overwrite", "delete_partition")


class Game:
    """One table, its model, and the dice."""

    def __init__(self, path: Path, seed: int, apache_hudi: HudiPeer) -> None:
        self.path = path
        self.dice = random.Random(seed)
        self.apache_hudi = apache_hudi
        self.model = TableModel(SHAPE)
        self.played: list[str] = []

    def begin(self, *, ours: bool) -> Table:
        """The table, made by one of the two, with some rows written by its maker."""
        rows = [row(n, 0, 0) for n in range(0, len(NUMBERS), 3)]
        self.model.apply("upsert", rows, "first")
        if ours:
            table = Table.create(
                str(self.path),
                name="ping_pong",
                record_key=SHAPE.keys,
                schema=SCHEMA,
                partition_by=SHAPE.partitions,
                ordering=SHAPE.ordering,
                buckets=SHAPE.buckets,
                metadata=False,
            )
            table.ingest(as_table(rows, SCHEMA))
            return table
        self.apache_hudi.write(
            self.path,
            as_table(rows, SCHEMA),
            mode="overwrite",
            buckets=SHAPE.buckets,
            options={
                "hoodie.table.name": "ping_pong",
                "hoodie.datasource.write.recordkey.field": "id",
                "hoodie.datasource.write.partitionpath.field": "month",
                "hoodie.datasource.write.precombine.field": "seq",
                "hoodie.datasource.write.hive_style_partitioning": "true",
            },
        )
        return Table.open(str(self.path), buckets=SHAPE.buckets)

    def turn(self, table: Table, time: int, *, ours: bool) -> None:
        """One random write by one of the two, and by the model."""
        operation = self.dice.choice(OURS if ours else THEIRS)
        if operation == "delete_partition" and not self.model.rows:
            operation = "upsert"  # there is none to delete
        rows = self.rows(operation, time)
        self.played.append(f"{'we' if ours else 'they'} {operation} {len(rows)}")
        months = sorted({one["month"] for one in rows})
        if operation in {"insert_overwrite", "delete_partition"}:
            self.drop(months)
        elif operation == "insert_overwrite_table":
            self.model.rows.clear()
        if operation == "delete_partition":
            paths = [f"month={month}" for month in months]
            if ours:
                table.delete_partition(paths)
            else:
                self.apache_hudi.write(
                    self.path,
                    as_table(rows, SCHEMA),
                    operation,
                    buckets=SHAPE.buckets,
                    options={"hoodie.datasource.write.partitions.to.delete": ",".join(paths)},
                )
            return
        self.model.apply("delete" if operation == "delete" else "upsert", rows, str(time))
        if ours:
            table.ingest(as_table(rows, SCHEMA), operation)
        else:
            self.apache_hudi.write(self.path, as_table(rows, SCHEMA), operation, buckets=SHAPE.buckets)

    def rows(self, operation: str, time: int) -> list[Row]:
        """Rows that fit the operation: new keys for inserts, keys of any age for the rest."""
        held = {one["id"] for _, one in self.model.rows.values()}
        if operation in {"insert", "bulk_insert"}:
            free = [n for n in NUMBERS if row(n, 0, 0)["id"] not in held]
            return [row(n, time, time) for n in self.dice.sample(free, min(len(free), 9))]
        if operation == "delete_partition":
            month = self.dice.choice(sorted({identity[0] for identity in self.model.rows}))
            return [next(row(n, time, time) for n in NUMBERS if row(n, 0, 0)["month"] == month)]
        chosen = self.dice.sample(NUMBERS, self.dice.randint(1, 25))
        if operation != "upsert":
            return [row(n, time, time) for n in chosen]
        # Some late, some deleting.
        return [
            row(n, time, self.dice.choice((time, time, time, 1)), deleted=self.dice.choice((None, None, None, True)))
            for n in chosen
        ]

    def drop(self, months: Sequence[int]) -> None:
        """The model without the rows of some partitions."""
        for identity in [one for one in self.model.rows if one[0] in months]:
            del self.model.rows[identity]

    def check(self, table: Table, *readers: Callable[..., pa.Table]) -> None:
        """Everybody reads the model's rows."""
        said = f"after {'; '.join(self.played)}"
        ours = table.read()
        assert ours.num_rows == len(self.model.rows), said
        assert_same_rows(ours, as_table((one for _, one in self.model.rows.values()), SCHEMA))
        for read in readers:
            assert_same_rows(read(self.path), ours, with_meta=True)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("we_begin", [True, False], ids=["we begin", "they begin"])
def test_the_table_stays_one(
    we_begin: bool, seed: int, tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: HudiRsReader
) -> None:
    game = Game(tmp_path / "table", seed * 2 + we_begin, apache_hudi)
    table = game.begin(ours=we_begin)
    for number in range(1, (SOAK_ROUNDS if SOAK else ROUNDS) + 1):
        game.turn(table, number * 10, ours=(number % 2 == 0) == we_begin)
        game.check(table, apache_hudi.read, hudi_rs)
    assert {play.split()[0] for play in game.played} == {"we", "they"}
    report = verify_table(table.context.storage, deep=True)
    assert report.ok, [str(finding) for finding in report.findings]
