"""Tables for the tests of index builds, and what must hold after one was removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hudi_ops.commit.undo.cancel import CancelReason
from hudi_ops.config.requests import IndexRequest
from hudi_ops.config.table import INDEX_DEFINITIONS_PATH
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.metadata.records.partitions import FOLDER, TIMELINE_FOLDER
from hudi_ops.services.base.plan import plan
from hudi_ops.services.base.service import Execution
from hudi_ops.services.cancel.abort import CancelResult, cancel
from hudi_ops.services.indexing.result import IndexResult
from hudi_ops.services.indexing.run import BuildResult, build_metadata, execute_build
from hudi_ops.services.indexing.service import INDEXING
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault
from hudi_ops.timeline.builds import checkpoint as build_checkpoint
from hudi_ops.timeline.settings.properties_file import load_config
from tests.protocol.metadata_table import table_of

KEYS = ("bloom_filters", "record_index")
EVERY = ("bloom_filters", "column_stats", "files", "partition_stats", "record_index")


class At:
    """Makes a move right before the operation of a number, and lets it go on."""

    def __init__(self, number: int, move: Callable[[], object]) -> None:
        self._number = number
        self._move = move
        self.fired = False

    def fault_at(self, number: int, point: str) -> Fault | None:
        if number == self._number and not self.fired:
            self.fired = True
            self._move()
        return None


def plan_build(storage: Storage, clock: ManualClock, names: Sequence[str] = KEYS) -> str:
    """Publish the plan of a build; return its instant."""
    planned = plan(table_of(storage, clock, "planner")._session, INDEXING, IndexRequest(partitions=tuple(names)))
    assert planned.instant is not None, planned.note
    return planned.instant


def execute(storage: Storage, clock: ManualClock, instant: str | None = None, actor: str = "executor") -> IndexResult:
    """Execute a plan, by default the oldest one."""
    return execute_build(table_of(storage, clock, actor)._session, instant, Execution("local"))


def build(storage: Storage, clock: ManualClock, names: Sequence[str] = KEYS, actor: str = "builder") -> BuildResult:
    """Plan a build and execute it."""
    return build_metadata(table_of(storage, clock, actor)._session, names)


def cancel_build(storage: Storage, clock: ManualClock, instant: str, actor: str = "canceller") -> CancelResult:
    """Cancel a build; its executor ends by itself."""
    return cancel(table_of(storage, clock, actor)._session, instant, CancelReason("asked for", "request"))


def metadata_state(storage: MemoryStorage) -> tuple[object, ...]:
    """What a removed build must leave as it was: names, folders with their files, instants, definitions, checkpoints."""
    config = load_config(storage)
    names = tuple(name for name in storage.list_folder(FOLDER).folders if not name.startswith("."))
    files = tuple(sorted(info.path for name in names for info in storage.list(f"{FOLDER}/{name}")))
    instants = tuple(sorted(info.name for info in storage.list_folder(TIMELINE_FOLDER).files))
    defined = tuple(load_index_definitions(storage)) if storage.head(INDEX_DEFINITIONS_PATH) is not None else ()
    left = tuple(info.path for info in storage.list(build_checkpoint.FOLDER))
    return (config.metadata_partitions, config.metadata_partitions_inflight, files, instants, defined, left)
