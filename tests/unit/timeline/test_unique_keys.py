"""When a record index may be asked where a key lies: only if nothing may have put a key into a second file group since a count."""

from __future__ import annotations

import pytest

from hudi_ops.config.table import TableFacts
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Pointer
from hudi_ops.timeline.log.entries import Properties
from hudi_ops.timeline.log.unique_keys import WRITES_MAX, why_doubtful
from hudi_ops.timeline.names import State, completed_name
from hudi_ops.timeline.state import CommitReader

FOLDER = ".hoodie/timeline"


def at(number: int) -> str:
    return f"2026010100{number // 60:02d}{number % 60:02d}000"


def history(*writes: tuple[str, int | None], first: int = 1) -> tuple[CommitReader, Timeline]:
    """Completed writes as (operation, inserts); `None` for inserts: of ours, whose pointers say if a key may be doubled."""
    storage = MemoryStorage()
    instants = []
    for number, (operation, inserts) in enumerate(writes, first):
        time, completed = at(2 * number), at(2 * number + 1)
        name = completed_name(time, "commit", completed)
        stats = (
            ()
            if inserts is None
            else (WriteStat(file_id="f", path=f"p/f_{time}.parquet", partition_path="p", num_inserts=inserts),)
        )
        pointer = Pointer("t", number, 0, -1, "", may_double=operation == "BULK_INSERT", shared=True).encode()
        extra = {POINTER_KEY: pointer} if inserts is None else {}
        storage.put(f"{FOLDER}/{name}", CommitMetadata(operation=operation, stats=stats, extra=extra).to_bytes())
        instants.append(Instant(time, "commit", State.COMPLETED, completed, name))
    return CommitReader(storage), Timeline(FOLDER, 2, tuple(instants))


def count(doubled: int, until: str) -> Properties:
    facts = TableFacts(index="record_index", buckets=0, hash_fields=("id",))
    return Properties(
        table_id="t",
        decision_id="adopt t",
        owner="",
        at_ms=0,
        properties_slot=-1,
        archive_slot=-1,
        facts=facts,
        doubled_keys=doubled,
        counted_until=until,
        settings={},
    )


@pytest.mark.parametrize(
    ("writes", "counted", "why"),
    [
        ([], count(0, ""), ""),
        ([], None, "no count shows"),
        ([("UPSERT", None)], None, ""),
        ([("BULK_INSERT", None)], None, "BULK_INSERT"),
        ([("BULK_INSERT", None), ("UPSERT", None)], None, ""),
        ([("INSERT", 3)], count(0, at(3)), ""),
        ([("INSERT", 3)], count(2, at(3)), "2 record keys"),
        ([("INSERT", 3), ("INSERT", 3)], count(0, at(3)), "INSERT"),
        ([("INSERT", 3), ("UPSERT", 0), ("DELETE", 0), ("COMPACT", 0)], count(0, at(3)), ""),
        ([("INSERT", 3), ("UPSERT", 1)], count(0, at(3)), "UPSERT"),
        ([("UPSERT", None), ("INSERT", 3)], None, "INSERT"),
    ],
)
def test_what_was_written_since_the_count_decides(
    writes: list[tuple[str, int | None]], counted: Properties | None, why: str
) -> None:
    found = why_doubtful(*history(*writes), lambda: counted)
    assert (found == "") == (why == ""), found
    assert why in found


def test_a_count_whose_newest_write_was_archived_is_not_believed() -> None:
    """What was archived after the count may have doubled a key."""
    reader, timeline = history(("INSERT", 3), ("UPSERT", 0))
    assert why_doubtful(reader, timeline, lambda: count(0, at(3))) == ""
    left = Timeline(FOLDER, 2, timeline.completed_writes[1:])
    assert "no count shows" in why_doubtful(reader, left, lambda: count(0, at(3)))


def test_a_count_whose_newest_write_was_restored_away_is_not_believed() -> None:
    """A delete may have removed the doubled rows, and they are back."""
    reader, timeline = history(("INSERT", 3), ("DELETE", 0))
    assert why_doubtful(reader, timeline, lambda: count(0, at(5))) == ""
    left = Timeline(FOLDER, 2, timeline.completed_writes[:1])
    assert "INSERT" in why_doubtful(reader, left, lambda: count(0, at(5)))


def test_after_many_writes_of_another_program_nothing_is_believed() -> None:
    writes = [("UPSERT", 0)] * (WRITES_MAX + 1)
    assert why_doubtful(*history(*writes), lambda: count(0, at(3))) != ""
