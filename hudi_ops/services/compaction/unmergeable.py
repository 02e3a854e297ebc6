"""Find the file groups whose log files this version cannot merge, so that no plan names them.

Only headers of blocks are read, and only of log files that no writer of ours made: ours hold whole rows and deletes alone.

Source: docs/format.md §9.8.
"""

from __future__ import annotations

from collections.abc import Sequence

from hudi_ops.commit.session import Session
from hudi_ops.errors import Corrupt, NotFound, Unsupported
from hudi_ops.files.log.log_file import LogFileReader
from hudi_ops.files.log.visible_blocks import BlockInstants, visible_blocks
from hudi_ops.services.base.choice import Candidate
from hudi_ops.timeline.log.commit_log import Pointer
from hudi_ops.timeline.state import TableState


def unmergeable(session: Session, state: TableState, candidates: Sequence[Candidate]) -> dict[tuple[str, str], str]:
    """Return the file groups that an execution would refuse, with the reason.

    Args:
        session: the table.
        state: decides which blocks count.
        candidates: file groups with their log files in the order in which they are merged.

    Returns:
        The reason by partition path and file id; groups that can be merged are left out.
    """
    ours = _ours(session, state, {log.instant for one in candidates for log in one.logs})
    foreign = [one for one in candidates if any(log.instant not in ours for log in one.logs)]
    instants = BlockInstants.of(state.config, state.timeline)

    def reason(one: Candidate) -> str:
        try:
            # All log files of the group: a rollback block of one takes back blocks of another.
            blocks = [block for log in one.logs for block in LogFileReader(session.ctx.storage, log.path).blocks]
            visible_blocks(blocks, instants, one.partition_path or ".", state.config.name)
        except (Corrupt, NotFound) as error:
            return error.what
        except Unsupported as error:
            return error.found or error.what
        return ""

    reasons = zip(foreign, session.ctx.local_engine.map(reason, foreign), strict=True)
    return {one.key: found for one, found in reasons if found}


def _ours(session: Session, state: TableState, writers: set[str]) -> set[str]:
    """Return the writers whose commits stand in the commit log."""
    found = set()
    for time in writers:
        instant = state.timeline.find(time)
        metadata = session.commits.metadata(state.timeline, instant) if instant and instant.is_completed else None
        if metadata is not None and Pointer.decode(metadata.extra) is not None:
            found.add(time)
    return found
