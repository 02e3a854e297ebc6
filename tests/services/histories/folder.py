"""Compare the whole folder of a table with what its promised instants need: nothing is missing, and nothing else is left."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from hudi_ops.commit.holds import FOLDER as HOLDS
from hudi_ops.config.table import INDEX_DEFINITIONS_PATH
from hudi_ops.files.names import data_path, parse_data_file
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.reader.listing import open_listing
from hudi_ops.metadata.records.partitions import FOLDER, HISTORY_FOLDER, TIMELINE_FOLDER
from hudi_ops.metadata.writer.begin import PROPERTIES_PATH
from hudi_ops.read.plan import plan_read, request_of
from hudi_ops.services.archive.manifests import current
from hudi_ops.services.archive.prune import ledgers_kept, payloads_kept
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.cancel.aborted_history import FOLDER as ABORTED, load_aborted
from hudi_ops.timeline.content.archived import VERSION_FILE, load_history_of, manifest_parts
from hudi_ops.timeline.content.plans import Savepoint as SavepointFile, read_result
from hudi_ops.timeline.log.cancelled import MARKS
from hudi_ops.timeline.log.commit_log import FOLDER as LOG
from hudi_ops.timeline.log.entries import Cancel, Complete, Plan, Restore, Savepoint
from hudi_ops.timeline.names import State, aborted_name, parse_file_name, swept_name
from hudi_ops.view.columns.slices import visible_slices
from tests.protocol.log_actors import timeline_of, whole_log
from tests.services.clean.cleaned import data_files


def assert_needed(table: Table, promised: Iterable[str]) -> None:
    """Compare the folder of a table that was recovered, cleaned and archived; `promised` are instants that must be readable."""
    storage = table._session.ctx.storage
    assert isinstance(storage, MemoryStorage)
    wanted = sorted(promised)
    needed = set(chain(read_files(storage, None), *(read_files(storage, time) for time in wanted)))
    found = data_files(storage)
    needed |= named_by_savepoints(storage)
    assert not needed - found, f"missing: {sorted(needed - found)}"
    rest = found - needed - newest_before(table, wanted)
    assert not rest, f"data files that no promised instant needs: {sorted(rest)}"
    others = {info.path for info in storage.list("") if info.path.startswith(".hoodie/")}
    left = others - known_notes(table, storage)
    assert not left, f"other files that are left: {sorted(left)}"


def read_files(storage: MemoryStorage, instant: str | None) -> frozenset[str]:
    """Return the files that a read as of an instant opens."""
    found: set[str | None] = set()
    for task in plan_read(storage, request_of(None, None, instant, None)).tasks:
        found |= {getattr(task, "path", None) or getattr(task, "base", None)}
        found |= {path for path, _ in getattr(task, "logs", ())}
    return frozenset(path for path in found if path)


def named_by_savepoints(storage: MemoryStorage) -> set[str]:
    """Return the files that savepoints name; those below a compaction that completed later are read no more."""
    timeline = timeline_of(storage)
    found = (read_result(storage, timeline, one) for one in timeline if one.kind == "savepoint")
    return {
        data_path(partition, name)
        for said in found
        if isinstance(said, SavepointFile)
        for partition, names in said.files.items()
        for name in names
    }


def newest_before(table: Table, promised: list[str]) -> set[str]:
    """Return the files of the newest slices before each promised instant: a clean keeps these of its earliest one."""
    session = table._session
    state = session.loader.load()
    listed = {
        path: list(files) for path, files in open_listing(session.ctx.storage, state.config, None).walk().files.items()
    }
    found = set()
    for time in promised:
        before = str(int(time) - 1)
        for slice_ in visible_slices(state.config, state.timeline, session.commits, listed, before):
            found |= {file.path for file in (slice_.base, *slice_.logs) if file is not None}
    return found


def known_notes(table: Table, storage: MemoryStorage) -> set[str]:
    """Return the files below `.hoodie` that may be there."""
    session = table._session
    state = session.loader.load()
    assert not state.timeline.pending, [str(one) for one in state.timeline.pending]
    entries = whole_log(storage).entries
    named = chain.from_iterable(entry.notes for entry in entries if isinstance(entry, Complete | Plan | Savepoint))
    kept = payloads_kept(session, state) | {path for path in named if path.split("/")[3] > state.log.boundary}
    cancelled = {entry.instant for entry in entries if isinstance(entry, Cancel)}
    cancelled |= set(chain.from_iterable(entry.undone for entry in entries if isinstance(entry, Restore)))
    known = {".hoodie/hoodie.properties", *kept, *ledgers_kept(session, state)}
    known |= {f"{MARKS}/{instant}" for instant in cancelled}
    known |= records_of_aborted(storage, state.timeline, cancelled)
    for info in storage.list(".hoodie"):
        file = parse_file_name(info.name, 2) if info.path.startswith(f"{state.timeline.folder}/") else None
        is_slot = info.path.startswith(f"{LOG}/0") and info.name.endswith(".json")
        if is_slot or (
            file is not None and state.timeline.find(file.time) is not None and file.time > state.log.boundary
        ):
            known.add(info.path)
    known |= history_files(storage, state.config.history_folder)
    if state.config.all_metadata_partitions:
        known |= metadata_files(storage)
    live = {hold.id for hold in table.holds.list() if hold.until_ms > session.ctx.clock.now_ms()}
    return known | {f"{HOLDS}/{hold}.json" for hold in live}


def records_of_aborted(storage: MemoryStorage, timeline: Timeline, cancelled: set[str]) -> set[str]:
    """Return the files of the records of aborted plans: old ones are in one file of their history, others on the timeline."""
    plans = timeline.aborted
    assert all(one.time >= timeline.start and {*one.states} == {State.ABORTED, State.SWEPT} for one in plans)
    recorded = [*(one.time for one in plans), *(one.instant for one in load_aborted(storage))]
    assert len(recorded) == len({*recorded})
    assert {*recorded} <= cancelled
    archived = {info.path for info in storage.list(ABORTED)}
    assert len(archived) <= 1
    names = (name(one.time, one.action) for one in plans for name in (aborted_name, swept_name))
    return archived | {timeline.path(name) for name in names}


def history_files(storage: MemoryStorage, folder: str) -> set[str]:
    """Return the files of a history: the version, the newest manifests, and what these name."""
    now = current(storage, folder)
    found = {f"{folder}/{VERSION_FILE}"}
    for number in range(now.number, 0, -1):
        path = f"{folder}/manifest_{number}"
        if storage.head(path) is not None:
            found |= {path} | {f"{folder}/{part.name}" for part in manifest_parts(storage, path)}
    return found


def metadata_files(storage: MemoryStorage) -> set[str]:
    """Return the files of the metadata table that may be there: its instants are completed, on its timeline or in its history."""
    own = load_metadata_timeline(storage)
    assert not own.pending, f"pending in the metadata table: {[str(one) for one in own.pending]}"
    archived = {one.time for one in load_history_of(storage, HISTORY_FOLDER)}
    known = {PROPERTIES_PATH, INDEX_DEFINITIONS_PATH} | history_files(storage, HISTORY_FOLDER)
    for info in storage.list(FOLDER):
        name = parse_data_file(info.name)
        is_known = name is not None and (own.find(name.instant) is not None or name.instant in archived)
        is_own = info.path.startswith(f"{TIMELINE_FOLDER}/") and not info.path.startswith(f"{HISTORY_FOLDER}/")
        if is_known or is_own or info.name == ".hoodie_partition_metadata":
            known.add(info.path)
    return known
