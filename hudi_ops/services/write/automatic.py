"""Clean and archive a table after a commit, where the table or the settings ask for it.

Source: docs/protocol §25.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from hudi_ops.commit.holds import is_begun
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_write
from hudi_ops.config.requests import ArchiveRequest, CleanRequest
from hudi_ops.config.upkeep_settings import AUTOMATIC, UpkeepSettings
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import Conflict, HudiOpsError, InvalidRequest, Unsupported
from hudi_ops.index.ring_files import seal_rings
from hudi_ops.services.archive.result import ArchiveResult
from hudi_ops.services.archive.rules import stopped_by_timeline
from hudi_ops.services.archive.run import archive
from hudi_ops.services.base.execute import plan_and_execute
from hudi_ops.services.base.service import Execution
from hudi_ops.services.clean.earlier import RETAIN_KEY
from hudi_ops.services.clean.policy import Policy
from hudi_ops.services.clean.result import CleanOutcome
from hudi_ops.services.clean.service import CLEAN
from hudi_ops.services.indexing.drop import drop_if_behind
from hudi_ops.services.write.ingest import IngestResult
from hudi_ops.services.write.remove import RemovalResult
from hudi_ops.services.write.retry import retried
from hudi_ops.timeline.content.plans import CleanPlan, CleanResult, read_plan, read_result
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import Log, automatic_of
from hudi_ops.timeline.log.head import newest_log
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

R = TypeVar("R", IngestResult, RemovalResult)

EVERY = 10
"""Completed writes between two cleans of a table, and commits of a session between two tries of one service."""

FILES_MAX = 1_000
"""Most files that one automatic clean deletes, or twice the files of the newest write if that is more; the next clean goes on."""


def written(session: Session, attempt: Callable[[float], R]) -> R:
    """Write with retries; then clean and archive the table, where that is automatic and due.

    A metadata table that lacks writes of other programs is dropped.

    Args:
        session: of this process.
        attempt: one try of the write; receives the start time of the first.

    Raises:
        Conflict: all tries of the write lost. An error of a clean or an archive is a line of the result, and logged.
    """
    result = retried(session, attempt)
    if result.instant is None:
        return result
    lines = tuple(line for line in (drop_if_behind(session, result.instant), *keep_small(session)) if line)
    return replace(result, automatic=lines) if lines else result


def keep_small(session: Session) -> tuple[str, ...]:
    """Clean and archive a table, as far as that is automatic and due.

    Returns:
        A line for each service that changed something, failed or cannot go on.
    """
    lines = []
    try:
        turns = [name for name in AUTOMATIC if session.memory.is_turn_of(name)]
        state = session.loader.resume()
        if len(state.timeline.completed_writes) < EVERY:
            return ()  # a clean is due after ten writes, and an archive waits as long: a young table pays no call
        _seal_rings(session, state)
        recorded = recorded_services(session, state.log)
        settings = session.upkeep.upon(recorded)
        wanted = settings.automatic(recorded)
        for name in turns:
            if name not in wanted or not _IS_DUE[name](session, state, settings):
                continue
            session.memory.waits[name] = EVERY
            is_chosen = getattr(session.upkeep, name).automatic or name in (state.log.properties.upkeep or ())
            if not is_chosen and has_foreign_write(session.commits, state):
                continue  # Apache Hudi's writers clean and archive by settings of their own
            lines.append(_tried(session, name, settings, state))
            state = session.loader.load()
    except Exception as error:
        # The commit stands: an error would make callers write it again.
        logger.exception("no automatic clean or archive after this commit")
        lines.append(f"no automatic clean or archive: {error}")
    return tuple(line for line in lines if line)


def _seal_rings(session: Session, state: TableState) -> None:
    """Put the `.commit` files of rings that others may archive (docs/protocol §27)."""
    old = state.timeline.newest_first[EVERY:] if state.log.properties.facts.has_ring else ()
    made = {write.time for write in old if write.kind == "replacecommit"} - session.memory.sealed_rings
    if made and has_foreign_write(session.commits, state):
        seal_rings(session.ctx.storage, made)
        session.memory.sealed_rings |= made


def _log_of_table(session: Session) -> Log | None:
    """Return the log of a table that this session has not read; None: it has none."""
    try:
        return session.loader.load().log
    except (InvalidRequest, Unsupported):
        return newest_log(session.ctx.storage)  # it can be adopted, but not with the caller's facts


def recorded_services(session: Session, log: Log | None = None) -> Mapping[str, Mapping[str, str | int]]:
    """Return the services that the table records as automatic, with what each keeps.

    Adopted tables record none before `alter`. A table that was dropped and made anew has another record.

    Args:
        session: of the table.
        log: as it is now; None: it is read.
    """
    storage = session.ctx.storage
    log = log or session.loader.known_log or _log_of_table(session)
    found = (log.table_id, log.properties_slot) if log is not None else ("", -1)
    if session.memory.automatic is None or session.memory.automatic[0] != found:
        session.memory.automatic = found, automatic_of(storage, log)
    return session.memory.automatic[1]


def _tried(session: Session, name: str, settings: UpkeepSettings, state: TableState) -> str:
    try:
        return _WORK[name](session, settings, state)
    except Conflict as error:
        logger.info("automatic %s waits: %s", name, error)
        return ""
    except HudiOpsError as error:
        logger.warning("no automatic %s: %s", name, error)
        return f"no automatic {name}: {error.what}; next: {error.next_step or f'run `hudi-ops {name} TABLE`'}"


def _is_clean_due(session: Session, state: TableState, settings: UpkeepSettings) -> bool:
    """Return whether ten writes completed since the last clean, or it left files over."""
    writes = state.timeline.completed_writes
    cleans = [one for one in state.timeline if one.action == "clean" and one.is_completed]
    last = cleans[-1].time if cleans else ""
    policy = Policy.of(settings.clean.completed(CleanRequest()))
    if len(writes) <= (policy.retain if policy.name == "commits" else 0):
        return False
    return sum(one.time > last for one in writes) >= EVERY or (bool(cleans) and _was_full(session, state, cleans[-1]))


def _was_full(session: Session, state: TableState, clean: Instant) -> bool:
    """Return whether a clean deleted `FILES_MAX` files or more, so that some may be left."""
    if session.memory.counted_clean[0] != clean.time:
        done = read_result(session.ctx.storage, state.timeline, clean)
        files = sum(map(len, done.files.values())) if isinstance(done, CleanResult) else 0
        session.memory.counted_clean = (clean.time, files)
    return session.memory.counted_clean[1] >= FILES_MAX


def _is_archive_due(session: Session, state: TableState, settings: UpkeepSettings) -> bool:
    return len(state.timeline.completed_writes) > kept_by_archive(state, settings, session.ctx.clock.now_ms())[1]


def kept_by_archive(state: TableState, settings: UpkeepSettings, now_ms: int) -> tuple[int, int]:
    """Return how many writes an archive keeps, and the number above which it begins.

    The writes that the policy of cleans retains at a time, in ms since 1970, stay on the timeline, and one more.
    """
    writes = state.timeline.completed_writes
    policy = Policy.of(settings.clean.completed(CleanRequest()))
    earliest = policy.wanted(state, now_ms)
    promised = sum(one.time >= earliest for one in writes) if policy.has_earliest else 0
    least = max(settings.archive.keep_min, promised + 1)
    return least, max(settings.archive.keep_max, least + EVERY if least > settings.archive.keep_min else 0)


def _clean(session: Session, settings: UpkeepSettings, state: TableState) -> str:
    request = settings.clean.completed(CleanRequest(max_files=_files_max(session, state)))
    left = _foreign_plan(session, state, Policy.of(request))
    if left is not None:
        return (
            f"no automatic clean: {left} is planned; next: `hudi-ops clean TABLE execute --instant {left}`, or rollback"
        )
    done: CleanOutcome = plan_and_execute(session, CLEAN, request, Execution(engine=LocalEngine.name))
    said = [f"overdue plan {instant} cancelled" for instant in done.ended_first.cancelled]
    if done.deleted >= FILES_MAX:
        session.memory.waits["clean"] = 0
    if done.completion_time is not None and done.deleted:
        said.append(f"clean {done.instant}: {done.deleted:,} old files deleted, {done.bytes_deleted:,} bytes")
    return "; ".join(said)


def _files_max(session: Session, state: TableState) -> int:
    """Return how many files one clean deletes.

    The number is above that of files which one write supersedes: otherwise each write would add to the old files.
    """
    newest = session.commits.metadata(state.timeline, state.timeline.newest_first[0])
    return max(FILES_MAX, 2 * len(newest.stats)) if newest is not None else FILES_MAX


def _foreign_plan(session: Session, state: TableState, policy: Policy) -> str | None:
    """Return a pending clean that this policy would not have made, and that was not begun.

    A person may have left it for review. It deletes more than the policy allows, or follows another policy.
    """
    for one in state.timeline.pending:
        if one.action != "clean" or is_begun(session, state, one):
            continue
        plan = read_plan(session.ctx.storage, state.timeline, one)
        if not isinstance(plan, CleanPlan) or plan.policy != policy.hudi_name:
            return one.time
        retained = plan.extra.get(RETAIN_KEY, "")
        if policy.has_earliest:
            fits = plan.earliest_retained <= policy.wanted(state, session.ctx.clock.now_ms())
        else:
            fits = retained.isdecimal() and int(retained) >= policy.retain
        if not fits:
            return one.time
    return None


def _archive(session: Session, settings: UpkeepSettings, state: TableState) -> str:
    least, most = kept_by_archive(state, settings, session.ctx.clock.now_ms())
    instants, stopped = 0, stopped_by_timeline(state.timeline, least)
    if not stopped:
        done: ArchiveResult = archive(session, ArchiveRequest(keep_min=least, keep_max=most), batches=1)
        instants, stopped = done.instants, done.stopped_by
    if not instants and len(state.timeline.completed_writes) > 2 * most and stopped:
        return f"nothing can be archived: {stopped}"
    return f"archive: {instants:,} instants left the timeline" if instants else ""


_IS_DUE: dict[str, Callable[[Session, TableState, UpkeepSettings], bool]] = {
    "clean": _is_clean_due,
    "archive": _is_archive_due,
}
_WORK: dict[str, Callable[[Session, UpkeepSettings, TableState], str]] = {"clean": _clean, "archive": _archive}
