"""Drop a metadata table that lacks completed writes: readers would miss their rows.

A writer of Apache Hudi with `hoodie.metadata.enable=false` and `hoodie.metadata.auto.delete.partitions=false` leaves it listed. Its
readers and the `hudi` package trust what is listed.

Source: docs/format §9.6.
"""

from __future__ import annotations

import logging

from hudi_ops.commit.session import Session
from hudi_ops.errors import HudiOpsError
from hudi_ops.metadata.reader.instants import MetadataInstants, load_metadata_timeline
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.metadata.records.partitions import is_secondary
from hudi_ops.services.indexing.drop import drop_metadata
from hudi_ops.services.indexing.secondary import with_columns
from hudi_ops.timeline.active import Timeline

logger = logging.getLogger(__name__)

_WHY = (
    "a writer of Apache Hudi had the metadata table off: give it hoodie.metadata.enable=true, or let "
    "hoodie.metadata.auto.delete.partitions be true"
)


def drop_if_behind(session: Session, written: str) -> str:
    """Drop the metadata table if it lacks completed writes; return what was done.

    Empty: it lacks none.

    Call it after a write has completed: a failure here does not undo the write. Without a gap it costs no storage call.

    Args:
        session: of this process; its last write listed the metadata table's timeline.
        written: instant of that write, whose delta the listing lacks.
    """
    own = session.memory.metadata_timeline
    try:
        state = session.loader.resume()
        if own is None or not state.config.metadata_partitions or not _gap(session, own, state.timeline, written):
            return ""
        # Both timelines are read again: other writes may have completed since.
        state = session.loader.load()
        lost = _gap(session, load_metadata_timeline(session.ctx.storage), state.timeline, written)
        if not lost or not state.config.metadata_partitions:
            return ""
        what = f"the metadata table lacks {len(lost)} completed writes, the first {lost[0]} ({_WHY})"
        if state.log.properties.facts.index == "record_index":
            return _warned(f"{what}; next: `hudi-ops index TABLE run --rebuild`, until which reads list storage")
        columns = {
            name: index.source_fields[0]
            for name, index in load_index_definitions(session.ctx.storage).items()
            if is_secondary(name) and index.source_fields
        }
        names = " ".join(with_columns(drop_metadata(session).dropped, columns))
        return _warned(
            f"{what}; it was dropped, and reads list storage; `hudi-ops index TABLE run {names}` builds it again"
        )
    except HudiOpsError as error:
        return _warned(
            f"the metadata table lacks completed writes, and was not dropped: {error.what}; {error.next_step}"
        )


def _gap(session: Session, own: Timeline, data: Timeline, written: str) -> list[str]:
    return [time for time in MetadataInstants(own, data, session.commits.archived).missing if time != written]


def _warned(line: str) -> str:
    logger.warning("%s", line)
    return line
