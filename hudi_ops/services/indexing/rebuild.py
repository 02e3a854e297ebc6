"""Choice of the partitions of a metadata table that are rebuilt or dropped."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_ops.commit.session import Session
from hudi_ops.metadata.reader.instants import MetadataInstants, load_metadata_timeline
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.services.indexing.reserve import partition_named
from hudi_ops.timeline.state import TableState


def partitions_to_rebuild(
    session: Session, state: TableState, names: Sequence[str] | None
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return the partitions that a call rebuilds.

    That is what it names, or else all there is; what cannot stay without what it names; all of a metadata table that lacks
    completed writes or its timeline, which no partition alone puts right; and what an earlier call dropped and did not build.

    Args:
        session: the table.
        state: of a table that can be written: it has no other partitions than we keep.
        names: of partitions; None: all.

    Returns:
        Names of what to build, None for what tables have by default; and of what to drop before, sorted both.

    Raises:
        InvalidRequest: an unknown partition.
    """
    held = set(state.config.all_metadata_partitions)
    left = set(state.log.properties.to_build) - held
    if names is None and not held | left:
        return None, ()
    wanted = held if names is None else {str(partition_named(name, state.config.name)) for name in names}
    if names is None and state.log.properties.facts.index == "record_index":
        wanted = wanted | {MetadataPartition.RECORD_INDEX}  # a writer of Apache Hudi may have dropped it
    if MetadataPartition.FILES in wanted or _is_behind(session, state):
        wanted = wanted | held
    elif MetadataPartition.COLUMN_STATS in wanted:
        wanted = wanted | (held & {MetadataPartition.PARTITION_STATS})
    return tuple(sorted(wanted | left)), tuple(sorted(wanted & held))


def _is_behind(session: Session, state: TableState) -> bool:
    """Return whether readers ignore the metadata table because it lacks completed writes."""
    if not state.config.metadata_partitions:
        return False
    own = load_metadata_timeline(session.ctx.storage)
    return not own.completed_writes or bool(MetadataInstants(own, state.timeline, session.commits.archived).missing)
