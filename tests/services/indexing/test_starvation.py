"""Index builds beside writers that commit without pause: they end within two rounds after the announcement, and no write fails.

The writers are threads, each with a session of its own, upon local disk and upon a store where each call takes long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hudi_ops.services.indexing.filling import catch_up
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table
from hudi_ops.verify import verify_table
from tests.bounds import bound
from tests.tables import SCHEMA, by_key, rows

pytestmark = pytest.mark.full("starts, kills or measures processes")

EVERY = ("bloom_filters", "column_stats", "files", "partition_stats", "record_index")
WRITERS = 8
PARTITIONS = 4
CALL_S = bound(0.03, 0.03, 0.1)
"""Time of a call to the slow store: that of object stores, and in the soak of a far one."""


class Slow:
    """A storage each of whose calls takes long."""

    def __init__(self, storage: Storage, call_s: float) -> None:
        self._storage = storage
        self._call_s = call_s

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._storage, name)
        if not callable(found) or name in {"close", "uri"}:
            return found

        def call(*given: Any, **options: Any) -> Any:
            time.sleep(self._call_s)
            return found(*given, **options)

        return call


@dataclass
class Fleet:
    """Writers without pause; `acknowledged` are the values of their keys."""

    open_table: Callable[[], Table]
    acknowledged: dict[str, int] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)

    def begin(self) -> None:
        """Start all writers."""
        self.threads = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]
        for thread in self.threads:
            thread.start()

    def end(self) -> None:
        """Stop all writers."""
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def _write(self, number: int) -> None:
        turn = 0
        try:
            table = self.open_table()
            while not self.stop.is_set():
                turn += 1
                key = f"w{number}-{turn % 5}"
                table.ingest(rows((key, f"p{number % PARTITIONS}", turn, turn, None)))
                self.acknowledged[key] = turn
        except BaseException as error:
            self.errors.append(error)


def rounds_after_announcement(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the rounds of catch-up."""
    counted: list[int] = []
    add = catch_up.CatchUp.add

    def counting(self: catch_up.CatchUp) -> None:
        counted.append(1)
        add(self)

    monkeypatch.setattr(catch_up.CatchUp, "add", counting)
    return counted


def build_beside(fleet: Fleet, open_table: Callable[[], Table], seconds: float) -> int:
    """Let the writers begin, build every index, and let them go on; return the commits during the build."""
    fleet.begin()
    try:
        deadline = time.monotonic() + 60
        while len(fleet.acknowledged) < WRITERS and not fleet.errors and time.monotonic() < deadline:
            time.sleep(0.05)
        before = sum(fleet.acknowledged.values())
        assert {*open_table().indexing.run(partitions=EVERY).partitions} == {*EVERY}
        during = sum(fleet.acknowledged.values()) - before
        time.sleep(seconds)
    finally:
        fleet.end()
    assert fleet.errors == []
    return during


def made_at(path: Path, table_type: str, number: int) -> None:
    """Make a table with so many rows, which has no metadata table."""
    table = Table.create(
        path,
        name="busy",
        schema=SCHEMA,
        record_key="id",
        partition_by="part",
        ordering="ts",
        table_type=table_type,
        buckets=2,
        metadata=False,
    )
    table.ingest(rows(*((f"k{at}", f"p{at % PARTITIONS}", at, 0, None) for at in range(number))))


def check(open_table: Callable[[], Table], storage: Storage, fleet: Fleet) -> None:
    """What was acknowledged is there, and every index equals the files."""
    found = by_key(open_table())
    assert {key: found[key] for key in fleet.acknowledged} == fleet.acknowledged
    assert verify_table(storage, deep=True, index=True).errors == ()


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_every_index_is_listed_within_two_rounds_beside_eight_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_type: str
) -> None:
    path = tmp_path / "table"
    made_at(path, table_type, bound(1_000, 4_000, 200_000))

    def open_table() -> Table:
        return Table.open(path)

    counted = rounds_after_announcement(monkeypatch)
    fleet = Fleet(open_table)
    during = build_beside(fleet, open_table, 0.5)
    print(f"{table_type}: {during} commits during the build, {len(counted)} rounds after its announcement")
    assert during >= WRITERS, "the writers did not write during the build"
    assert len(counted) <= 2
    check(open_table, LocalStorage(path), fleet)


def test_every_index_is_listed_within_two_rounds_upon_a_slow_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table"
    made_at(path, "mor", 400)

    def open_table() -> Table:
        table = Table.open(path)
        ctx = replace(table.context, storage=Slow(table.context.storage, CALL_S))
        return Table(ctx)

    counted = rounds_after_announcement(monkeypatch)
    fleet = Fleet(open_table)
    during = build_beside(fleet, open_table, 0.0)
    print(f"slow store: {during} commits during the build, {len(counted)} rounds after its announcement")
    assert during >= 1, "the writers did not write during the build"
    assert len(counted) <= 2
    check(lambda: Table.open(path), LocalStorage(path), fleet)
