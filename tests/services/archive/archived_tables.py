"""Tables with more writes than archiving keeps, and what must be so after it."""

from __future__ import annotations

from functools import cache

from hudi_ops.config.requests import ArchiveRequest
from hudi_ops.services.archive.result import ArchiveResult
from hudi_ops.services.archive.run import archive
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.content.archived import ArchivedInstant, load_history
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from tests.definitions import Definition
from tests.protocol.log_actors import session_of, timeline_of
from tests.tables import NOW_MS, by_key, made, rows, table_of

HISTORY = ".hoodie/timeline/history"
METADATA_HISTORY = ".hoodie/metadata/.hoodie/timeline/history"
REQUEST = ArchiveRequest(keep_min=3, keep_max=4)
ALL_BUT_ONE = ArchiveRequest(keep_min=1, keep_max=1)
MODEL = {f"k{n}": n for n in range(8)}


@cache
def _long(definition: Definition, writes: int) -> MemoryStorage:
    batches = (rows((f"k{n % 4}", f"p{n % 2}", n, n, None), ("k9", "p1", n, n, None)) for n in range(writes))
    return made(definition, *batches, after=3)


def long_table(definition: Definition, writes: int = 9) -> tuple[MemoryStorage, ManualClock]:
    """A table after its empty first commit and so many ingests, and the clock."""
    clock = ManualClock(NOW_MS, tick_ms=1)
    return _long(definition, writes).copy(clock), clock


def archived(
    storage: Storage, clock: ManualClock, actor: str = "archiver", request: ArchiveRequest = REQUEST
) -> ArchiveResult:
    """Archive once, in a process of its own."""
    return archive(session_of(storage, clock, actor), request)


def history_of(storage: Storage) -> tuple[ArchivedInstant, ...]:
    """What the history keeps, with its bytes."""
    return load_history(storage, load_config(storage), with_content=True).instants


def assert_whole(storage: MemoryStorage, clock: ManualClock, model: dict[str, int], story: str = "") -> None:
    """The rows are those of the model in each listing, and nothing is damaged."""
    reader = table_of(storage, clock, "reader")
    assert by_key(reader) == model, story
    assert by_key(reader, listing="storage") == model, story
    report = verify_table(storage, deep=True, index=True)
    assert not report.findings, (story, report.findings)


def known_times(storage: MemoryStorage) -> list[str]:
    """Request times of the completed writes on the timeline and in the history, each once."""
    on_timeline = {one.time for one in timeline_of(storage).completed_writes}
    return sorted(on_timeline | {one.time for one in history_of(storage)})


def write(table: Table, value: int, key: str = "k0") -> str:
    instant = table.ingest(rows((key, "p0", value, value, None))).instant
    assert instant is not None
    return instant


def settle(storage: MemoryStorage, clock: ManualClock, value: int) -> dict[str, int]:
    """Let writes complete that archiving can keep, and a clean after them; return the rows."""
    table = table_of(storage, clock, "writer", metadata_compact_after=1)
    for number in range(3):
        write(table, value + number)
    table.clean.run(policy="versions", retain=1)
    write(table, value + 3)
    return {**MODEL, "k0": value + 3}
