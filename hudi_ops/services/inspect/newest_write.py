"""Find the newest write that brought rows into a table."""

from __future__ import annotations

from collections.abc import Collection

from hudi_ops.commit.session import Session
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import REWRITING_ACTIONS
from hudi_ops.timeline.state import TableState

COMMITS_READ = 2
"""Most commits whose metadata is read; the state of a table has read the newest one."""

_REWRITING = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})


def newest_ingestion(session: Session, state: TableState, with_files: Collection[str]) -> Instant | None:
    """Return the last completed write that added or changed rows; None: there is none.

    Services are known by their pending words, and otherwise by the metadata of the newest `COMMITS_READ` candidates; so are writes
    without new rows (an alter, a delete, the first commit). Of older candidates the newest with files is returned unread.

    Args:
        session: of this process.
        state: of the table.
        with_files: instants of the table's files.

    Raises:
        Corrupt: the metadata of a candidate cannot be read.
    """
    writes = [one for one in state.timeline.newest_first if one.action not in REWRITING_ACTIONS]
    for write in writes[:COMMITS_READ]:
        metadata = session.commits.metadata(state.timeline, write)
        if metadata is None or metadata.is_merge or metadata.operation in _REWRITING:
            continue
        numbers = metadata.numbers
        if numbers.total("num_inserts") + numbers.total("num_update_writes") > 0:
            return write
    return next((write for write in writes[COMMITS_READ:] if write.time in with_files), None)
