"""Choose the partitions of a metadata table to rebuild, and those to drop before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hudi_ops.commit.session import Session
from hudi_ops.errors import Cancelled, HudiOpsError
from hudi_ops.metadata.reader.instants import MetadataInstants, load_metadata_timeline
from hudi_ops.metadata.records.partitions import MetadataPartition, is_secondary
from hudi_ops.services.indexing.wanted import partition_named
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import TableState


def partitions_to_rebuild(
    session: Session, state: TableState, names: Sequence[str] | None
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return the partitions to build (None: the defaults), and those to drop first, sorted.

    A call rebuilds the named partitions (None: all) and those that depend on them; all partitions, if the metadata table lacks
    completed writes or its timeline, which no single partition can repair; and partitions that an earlier call dropped and did not
    build. Since the table can be written, it has only partitions that this library keeps up to date.

    Raises:
        InvalidRequest: an unknown partition.
    """
    held = set(state.config.all_metadata_partitions)
    left = set(dropped_before(state))
    if names is None and not held | left:
        return None, ()
    wanted = held if names is None else {str(partition_named(name, state.config.name)) for name in names}
    if names is None and state.log.properties.facts.index == "record_index":
        wanted = wanted | {MetadataPartition.RECORD_INDEX}  # a writer of Apache Hudi may have dropped it
    if MetadataPartition.FILES in wanted or _is_behind(session, state):
        wanted = wanted | held
    else:
        if MetadataPartition.COLUMN_STATS in wanted:
            wanted = wanted | (held & {MetadataPartition.PARTITION_STATS})
        if MetadataPartition.RECORD_INDEX in wanted:
            wanted = wanted | {name for name in held if is_secondary(name)}
    return tuple(sorted(wanted | left)), tuple(sorted(wanted & held))


def dropped_before(state: TableState) -> tuple[str, ...]:
    """Return the partitions that an earlier rebuild dropped and did not build, sorted.

    The slot that decided the drop names them, so they survive the death of its process.
    """
    return tuple(sorted(set(state.log.properties.to_build) - set(state.config.metadata_partitions)))


@contextmanager
def errors_name_dropped(session: Session, dropped: Sequence[str]) -> Iterator[None]:
    """Add to an error of a build the dropped partitions that it leaves unbuilt.

    Raises:
        HudiOpsError: the build failed.
    """
    try:
        yield
    except HudiOpsError as error:
        if dropped:
            _name_dropped(session, error, dropped)
        raise


def _name_dropped(session: Session, error: HudiOpsError, dropped: Sequence[str]) -> None:
    try:
        config = load_config(session.ctx.storage)
    except HudiOpsError:
        return
    gone = sorted(set(dropped) - set(config.all_metadata_partitions))
    if gone:
        left = ", ".join(config.all_metadata_partitions)
        now = f"the metadata table has only {left} now" if left else "the table has no metadata table now"
        error.what += f"; {now}: the rebuild dropped {', '.join(gone)}, and has not built them"
        restores = f"`hudi-ops index {config.name} run` builds {', '.join(gone)} again; until then readers do without"
        before = "" if isinstance(error, Cancelled) or not error.next_step else f"{error.next_step}; then "
        error.next_step = before + restores
        error.details["dropped"] = gone


def _is_behind(session: Session, state: TableState) -> bool:
    """Return whether readers ignore the metadata table because it lacks completed writes."""
    if not state.config.metadata_partitions:
        return False
    own = load_metadata_timeline(session.ctx.storage)  # after the table's
    return not own.completed_writes or bool(MetadataInstants(own, state.timeline, session.commits.archived).missing)
