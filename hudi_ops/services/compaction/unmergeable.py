"""Find file groups whose log files this version cannot merge, so that no plan names them.

Only block headers are read, and only of log files of foreign writers: ours hold whole rows and deletes alone.

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
    """Return the file groups that an execution would refuse, with the reason, by their keys."""
    ours = _ours(session, state, {log.instant for group in candidates for log in group.logs})
    foreign = [group for group in candidates if any(log.instant not in ours for log in group.logs)]
    instants = BlockInstants.of(state.config, state.timeline)

    def reason(group: Candidate) -> str:
        try:
            # All log files of the group: a rollback block in one file takes back blocks of another.
            blocks = [block for log in group.logs for block in LogFileReader(session.ctx.storage, log.path).blocks]
            visible_blocks(blocks, instants, group.partition_path or ".", state.config.name)
        except (Corrupt, NotFound) as error:
            return error.what
        except Unsupported as error:
            return error.found or error.what
        return ""

    reasons = zip(foreign, session.ctx.local_engine.map(reason, foreign), strict=True)
    return {group.key: found for group, found in reasons if found}


def _ours(session: Session, state: TableState, writers: set[str]) -> set[str]:
    """Return the writers whose commits are in the commit log."""
    found = set()
    for time in writers:
        instant = state.timeline.find(time)
        metadata = session.commits.metadata(state.timeline, instant) if instant and instant.is_completed else None
        if metadata is not None and Pointer.decode(metadata.extra) is not None:
            found.add(time)
    return found
