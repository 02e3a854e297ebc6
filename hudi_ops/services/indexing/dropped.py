"""Find indexes that another program dropped since they were built, and its write.

Apache Hudi drops an index that the options of its writer do not name: it deletes the files of the index before the write. So the
first of its writes without records of the index dropped it. A build does not repeat itself after that: both would go on for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hudi_ops.commit.session import Session
from hudi_ops.errors import HudiOpsError
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Log, read_slot
from hudi_ops.timeline.log.entries import Properties
from hudi_ops.timeline.state import TableState


def dropped_indexes(session: Session, state: TableState, names: Collection[str]) -> dict[str, str]:
    """Return which of these indexes another program dropped, with its write in words.

    Args:
        session: of this process.
        state: whose settings name none of `names`.
        names: indexes that the settings do not name.

    Reads each PROPERTIES entry of the commit log down to the newest that concerns an index, and for a dropped one the commits of
    foreign writers since.
    """
    built = _built(session, state.log, names) if names else {}
    return {name: _words(_first_without(session, state, name, at)) for name, at in built.items()}


def _words(write: Instant | None) -> str:
    if write is None:
        return "another program dropped it"
    return f"another program dropped it: {write.action} {write.time} is its first write without the index"


def _built(session: Session, log: Log, names: Collection[str]) -> dict[str, str]:
    """Return indexes that this library built and did not drop, with the instant of each build."""
    found, unknown = {}, set(names)
    for entry in _entries(session, log):
        for name in sorted(unknown & {*entry.adds, *entry.announces, *entry.drops}):
            unknown.discard(name)
            if name not in entry.drops:
                found[name] = entry.built_at
        # A metadata table that is dropped whole is removed from the settings.
        if not unknown or entry.remove:
            break
    return found


def _entries(session: Session, log: Log) -> Iterator[Properties]:
    """Yield the PROPERTIES entries of a log, the newest first."""
    slot, entry = log.properties_slot, log.properties
    while True:
        yield entry
        below = entry.properties_slot
        found = read_slot(session.ctx.storage, below) if 0 <= below < slot else None
        if not isinstance(found, Properties):
            return
        slot, entry = below, found


def _first_without(session: Session, state: TableState, name: str, built_at: str) -> Instant | None:
    """Return the first write of a foreign writer without records of an index.

    Only writes since the index was built count. None: there is none on the timeline.
    """
    own = load_metadata_timeline(session.ctx.storage)
    for write in sorted(state.timeline.completed_writes, key=lambda one: one.completion_time):
        if write.time <= built_at or write.time in state.log.instants:
            continue
        said = session.commits.metadata(state.timeline, write)
        is_ours = said is not None and POINTER_KEY in said.extra
        if not is_ours and name not in _partitions_written(session, own, write):
            return write
    return None


def _partitions_written(session: Session, own: Timeline, write: Instant) -> frozenset[str]:
    """Return the partitions of the metadata table to which an instant wrote."""
    delta = own.find(write.time, "deltacommit")
    if delta is None or not delta.is_completed:
        return frozenset()
    path = own.path(delta.file_name)
    try:
        said = CommitMetadata.from_bytes(session.ctx.storage.get(path), path)
    except HudiOpsError:
        return frozenset()
    return frozenset(stat.partition_path for stat in said.stats)
