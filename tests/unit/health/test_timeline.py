"""The check `timeline`: its length, what keeps archives from shortening it, and the commands that end that."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudi_ops.health.check import TABLE
from hudi_ops.health.checks import clean_lag, files_kept
from hudi_ops.health.checks.timeline import CHECK, TimelineFacts
from hudi_ops.health.look import Look
from hudi_ops.storage.open import open_storage
from hudi_ops.table.table import Table
from hudi_ops.testing.faults import Crash, FaultyStorage
from tests.fault_plans import DiesBefore
from tests.tables import BY_HAND, rows, table_of
from tests.unit.health.bench import facts_of, judged, mend, value_of
from tests.unit.health.kept_tables import Kept, kept_table
from tests.unit.health.states_timeline import long_table, timeline_missed


def test_an_archive_mends_a_long_timeline(tmp_path: Path) -> None:
    path = timeline_missed(tmp_path)
    missed = judged(path, CHECK)
    assert value_of(missed, "ratio") == 13 / 4
    assert missed.commands == (("archive", TABLE),)
    assert Table.open(path).archive.explain().measures == {"timeline.ratio": 13 / 4}
    mend(path, missed)
    assert value_of(judged(path, CHECK), "ratio") == 3 / 4
    assert Table.open(path).archive.run().measures == {}


def test_all_that_stops_archives_is_ended_in_order(tmp_path: Path) -> None:
    table = kept_table(tmp_path, metadata=True, table_type="MERGE_ON_READ")
    table.write(0)
    saved = table.write(0)
    table.table().savepoints.create(saved)
    table.write(0, 1)
    planned = table.table().compaction.plan(threshold=1).instant
    for _ in range(3):
        table.write(0, 1)
    hold = table.table().holds.take(table.write(0), seconds=500 * 3600)
    table.table().clean.run(policy="commits", retain=2)
    for _ in range(8):
        table.write(1, operation="insert_overwrite")
    table.table().indexing.drop()
    table.table().indexing.run(partitions=["files"])
    missed = judged(table.path, CHECK)
    assert missed.commands == (
        ("savepoint", "delete", TABLE, saved),
        ("hold", "release", TABLE, hold.id),
        ("compact", TABLE, "execute", "--instant", planned),
        ("clean", TABLE),
        ("metadata", "compact", TABLE),
        ("archive", TABLE),
    )
    assert f"savepoint of {saved}" in missed.note
    mend(table.path, missed)
    assert not judged(table.path, CHECK).is_missed


def replaced(table: Kept) -> None:
    table.write(0)
    table.write(0, operation="insert_overwrite")


def cleaned(table: Kept) -> None:
    for _ in range(4):
        table.write(0)
    table.table().clean.run()


def pending(table: Kept) -> None:
    table.write(0)
    table.begin()


def undone(table: Kept) -> None:
    table.write(0)
    dying = FaultyStorage(open_storage(table.path), DiesBefore("put_if_absent:.hoodie/.commit_log/0"))
    with pytest.raises(Crash):
        table_of(dying, table.clock, "dead", upkeep=BY_HAND).ingest(rows(("k0", "p0", 700, 700, None)))
    (dead,) = (one.time for one in table.table()._session.loader.load().timeline.pending)
    table.date_back(dead)
    table.clock.advance_ms(200_000)


STOPS = {
    "replaced": (replaced, "of a group that it replaced exists", "clean"),
    "clean": (cleaned, "the next clean begins there", "clean"),
    "before_pending": (pending, "a completed write before it must stay", "recover"),
    "left": (undone, "looks once more for files of the undone instant", "recover"),
}


@pytest.mark.parametrize("rule", STOPS)
def test_what_stops_archives_is_ended_first(rule: str, tmp_path: Path) -> None:
    stop, why, command = STOPS[rule]
    table = kept_table(tmp_path)
    stop(table)
    for _ in range(10):
        table.write(1)
    facts = facts_of(table.path, CHECK)
    assert isinstance(facts, TimelineFacts)
    assert [one.rule for one in facts.blocks] == [rule]
    missed = judged(table.path, CHECK)
    assert why in missed.note
    assert [words[0] for words in missed.commands] == [command, "archive"]
    mend(table.path, missed)
    assert not judged(table.path, CHECK).is_missed


def test_archives_that_are_not_due_read_nothing(tmp_path: Path) -> None:
    table = long_table(tmp_path, writes=3)
    fresh = judged(table.path, CHECK)
    assert (value_of(fresh, "ratio"), fresh.is_missed, fresh.note, fresh.commands) == (1.0, False, "", ())


def test_the_calls_do_not_grow_with_the_timeline(tmp_path: Path) -> None:
    table = kept_table(tmp_path, metadata=True)

    def added() -> list[str]:
        """Calls of the three checks, once state and view are loaded."""
        storage = FaultyStorage(open_storage(table.path))
        look = Look.at(table_of(storage, table.clock, "looker")._session)
        before = len(look.slices.files) and len(storage.history)
        for check in (CHECK, clean_lag.CHECK, files_kept.CHECK):
            check.measure(look)
        return list(storage.history[before:])

    def go_on() -> None:
        for _ in range(3):
            undone(table)
            table.write(0, operation="insert_overwrite")
            table.table().clean.run(max_files=1)
        for _ in range(3):
            table.write(1)

    go_on()
    few = added()
    for _ in range(2):
        go_on()
    assert len(added()) <= len(few) <= 14, (few, added())
