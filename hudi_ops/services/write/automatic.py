"""Clean and archive a table after a commit, where the table or the settings ask for it.

Source: docs/protocol.md §25.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from hudi_ops.commit.retry import retried
from hudi_ops.commit.session import Session
from hudi_ops.config.requests import ArchiveRequest, CleanRequest
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import Busy, Conflict, HudiOpsError
from hudi_ops.services.archive.result import ArchiveResult
from hudi_ops.services.archive.run import archive
from hudi_ops.services.base.execute import plan_and_execute
from hudi_ops.services.base.service import Execution
from hudi_ops.services.clean.result import CleanOutcome
from hudi_ops.services.clean.service import CLEAN
from hudi_ops.services.write.ingest import IngestResult
from hudi_ops.services.write.remove import RemovalResult
from hudi_ops.timeline.log.commit_log import POINTER_KEY, read_slot
from hudi_ops.timeline.log.entries import Properties
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

R = TypeVar("R", IngestResult, RemovalResult)

EVERY = 10
"""Completed writes between two cleans of a table, and commits of a session between two tries of one service."""

FILES_MAX = 1_000
"""Files that one automatic clean deletes; the next one deletes the others."""


def written(session: Session, attempt: Callable[[float], R]) -> R:
    """Write with retries; then clean and archive the table, where that is automatic and due.

    Args:
        session: of this process.
        attempt: one try of the write; receives the start time of the first.

    Raises:
        Conflict: all tries of the write lost. An error of a clean or an archive is a line of the result, and logged.
    """
    result = retried(session, attempt)
    if result.instant is None:
        return result
    lines = keep_small(session)
    return replace(result, automatic=lines) if lines else result


def keep_small(session: Session) -> tuple[str, ...]:
    """Clean and archive a table, as far as that is automatic and due.

    Returns:
        A line for each service that changed something, or failed.
    """
    try:
        wanted = session.upkeep.automatic(recorded_services(session))
        due = [name for name in wanted if session.waits_for(name)]
        if not due:
            return ()
        state = session.loader.resume()
        explicit = {name for name in due if getattr(session.upkeep, name).automatic}
        lines = []
        for name in due:
            if not _IS_DUE[name](session, state):
                continue
            if name not in explicit and has_foreign_writes(session, state):
                # Apache Hudi's writers clean and archive by settings of their own.
                session.waits[name] = EVERY
                continue
            session.waits[name] = EVERY
            lines.append(_tried(session, name))
            state = session.loader.load()
    except HudiOpsError as error:
        logger.warning("no automatic clean or archive after this commit: %s", error)
        return (f"no automatic clean or archive: {error.what}",)
    return tuple(line for line in lines if line)


def recorded_services(session: Session) -> tuple[str, ...]:
    """Return the services that the table's creation recorded as automatic.

    Adopted tables and those of earlier releases record none.
    """
    if session.automatic is None:
        first = read_slot(session.ctx.storage, 0)
        session.automatic = first.automatic if isinstance(first, Properties) else ()
    return session.automatic


def has_foreign_writes(session: Session, state: TableState) -> bool:
    """Return whether a completed write on the timeline has no slot of the commit log."""
    for one in state.timeline.newest_first:
        metadata = session.commits.metadata(state.timeline, one)
        if metadata is not None and POINTER_KEY not in metadata.extra:
            return True
    return False


def _tried(session: Session, name: str) -> str:
    try:
        return _WORK[name](session)
    except (Busy, Conflict) as error:
        logger.info("automatic %s waits: %s", name, error)
        return ""
    except HudiOpsError as error:
        logger.warning("automatic %s failed: %s", name, error)
        return f"automatic {name} failed: {error.what}; run `hudi-ops {name}` to see why"


def _is_clean_due(session: Session, state: TableState) -> bool:
    """Return whether enough writes completed since the last clean."""
    writes = state.timeline.completed_writes
    last = max((one.time for one in state.timeline if one.action == "clean" and one.is_completed), default="")
    retained = session.upkeep.clean.completed(CleanRequest())
    kept = (retained.retain or EVERY) if retained.policy == "commits" else 0
    return len(writes) > kept and sum(one.time > last for one in writes) >= EVERY


def _is_archive_due(session: Session, state: TableState) -> bool:
    return len(state.timeline.completed_writes) > session.upkeep.archive.keep_max


def _clean(session: Session) -> str:
    request = session.upkeep.clean.completed(CleanRequest(max_files=FILES_MAX))
    done: CleanOutcome = plan_and_execute(session, CLEAN, request, Execution(engine=LocalEngine.name))
    if done.completion_time is None or not done.deleted:
        return ""
    return f"clean {done.instant}: {done.deleted:,} old files deleted, {done.bytes_deleted:,} bytes"


def _archive(session: Session) -> str:
    request = session.upkeep.archive.completed(ArchiveRequest())
    done: ArchiveResult = archive(session, request, batches=1)
    return f"archive: {done.instants:,} instants left the timeline" if done.instants else ""


_IS_DUE: dict[str, Callable[[Session, TableState], bool]] = {"clean": _is_clean_due, "archive": _is_archive_due}
_WORK: dict[str, Callable[[Session], str]] = {"clean": _clean, "archive": _archive}
