"""Crash an ingest that lengthens a chain of ledgers; lose one of its links: no source file is taken twice, and none is left out."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from hudi_ops.errors import Corrupt, NotFound
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault
from hudi_ops.timeline.content.ledger_chain import FOLDER, built_upon
from hudi_ops.verify import verify_table
from tests.definitions import create_table
from tests.protocol.sweep import CRASHES, fault_sweep
from tests.tables import DEFINITION, NOW_MS, START_MS, table_of


def put_file(source: Path, number: int) -> None:
    source.mkdir(exist_ok=True)
    place = source / f"{number}.csv"
    place.write_text(f"id,part,value,ts,_hoodie_is_deleted\nk{number},p,{number},{number},false\n")
    os.utime(place, (1_700_000_000, 1_700_000_000))


def made_of(source: Path, files: int) -> MemoryStorage:
    """A table that took so many files, each with a commit."""
    clock = ManualClock(START_MS, tick_ms=1)
    storage = MemoryStorage("chained", clock)
    table = table_of(storage, clock, "creator")
    create_table(table._session, DEFINITION)
    for number in range(files):
        put_file(source, number)
        table.ingest_folder(str(source), "bulk_insert")
    return storage


def keys(table: Table) -> Counter[str]:
    return Counter(table.read(["id"])["id"].to_pylist())


def newest(storage: MemoryStorage) -> str:
    return storage.list(FOLDER)[-1].path


@pytest.mark.parametrize("fault", CRASHES)
def test_a_crash_between_ledger_and_commit_takes_each_file_once(tmp_path: Path, fault: Fault) -> None:
    source = tmp_path / "source"
    base = made_of(source, 9)
    assert built_upon(base, newest(base)), "the next ledger builds upon others"
    put_file(source, 9)

    def run(storage, clock):
        assert table_of(storage, clock, "writer").ingest_folder(str(source), "bulk_insert").files == 1

    for left in fault_sweep(base, run, fault, "an ingest that lengthens a chain", points=20):
        resumed = Table(left.resume())
        resumed.ingest_folder(str(source), "bulk_insert")
        put_file(source, 10)
        resumed.ingest_folder(str(source), "bulk_insert")
        (source / "10.csv").unlink()
        assert keys(resumed) == Counter(f"k{number}" for number in range(11)), left.story


def test_a_lost_ledger_takes_no_file_again(tmp_path: Path) -> None:
    source = tmp_path / "source"
    base = made_of(source, 12)
    chain = [*built_upon(base, newest(base)), newest(base)]
    assert len(chain) > 2
    for path in chain:
        storage = base.copy()
        storage.delete(path)
        table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "writer")
        with pytest.raises((Corrupt, NotFound), match=path):
            table.ingest_folder(str(source), "bulk_insert")
        assert keys(table) == Counter(f"k{number}" for number in range(12))
        found = [one.invariant for one in verify_table(storage, clock=ManualClock(NOW_MS, tick_ms=1)).findings]
        assert found == ["ledger-missing" if path == newest(base) else "ledger-broken"], path
