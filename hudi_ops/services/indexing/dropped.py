"""Find indexes that another program dropped, and the write that dropped each.

A writer of Apache Hudi drops the indexes that its options do not name. It deletes their files before it writes, so its write is the
first one without records of the index. This library does not build such an index again by itself: that writer would drop it again.
"""

from __future__ import annotations

from collections.abc import Collection

from hudi_ops.commit.session import Session
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.builds.announced import built_indexes
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import POINTER_KEY
from hudi_ops.timeline.log.entries import Properties
from hudi_ops.timeline.state import TableState


def dropped_indexes(session: Session, state: TableState, names: Collection[str]) -> dict[str, str]:
    """Return the indexes that another program dropped, and a sentence that names its write.

    PROPERTIES entries are read from the newest down to those that concern the indexes, and for a dropped index the commits of
    foreign writers since its build.

    Args:
        session: of this process.
        state: whose settings do not name `names`.
        names: indexes to look for.

    Raises:
        Corrupt: a commit of the metadata table cannot be read.
        NotFound: it was archived at this moment.
    """
    built = built_indexes(session.ctx.storage, state.log, names) if names else {}
    return {name: _sentence(_first_without(session, state, name, entry)) for name, entry in built.items()}


def _sentence(write: Instant | None) -> str:
    if write is None:
        return "another program dropped it"
    return f"another program dropped it: {write.action} {write.time} is its first write without the index"


def _first_without(session: Session, state: TableState, name: str, built: Properties) -> Instant | None:
    """Return the first foreign write without records of an index; None: the timeline has none.

    Only writes that were requested after the build completed are judged. Earlier ones may not have known the index.
    """
    own = load_metadata_timeline(session.ctx.storage)
    plan = state.timeline.find(built.plan, "indexing") if built.plan else None
    since = (plan.completion_time if plan is not None else "") or built.built_at
    for write in sorted(state.timeline.completed_writes, key=lambda one: one.completion_time):
        if write.time <= since or write.time in state.log.instants:
            continue
        said = session.commits.metadata(state.timeline, write)
        is_ours = said is not None and POINTER_KEY in said.extra
        if not is_ours and name not in _partitions_written(session, own, write):
            return write
    return None


def _partitions_written(session: Session, own: Timeline, write: Instant) -> frozenset[str]:
    """Return the partitions of the metadata table to which a write added records."""
    delta = own.find(write.time, "deltacommit")
    if delta is None or not delta.is_completed:
        return frozenset()
    path = own.path(delta.file_name)
    return frozenset(
        stat.partition_path for stat in CommitMetadata.from_bytes(session.ctx.storage.get(path), path).stats
    )
