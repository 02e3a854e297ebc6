"""Return a table to a savepoint (docs/protocol §23).

One RESTORE names every later write, then their files are deleted. If the process dies after that slot, the same call by any
process finds the pending restore and finishes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hudi_ops.commit.checks import pending_restore
from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.decide.completion import Body, complete_action
from hudi_ops.commit.decide.takeover import refuse_leased, take_over
from hudi_ops.commit.owned.kinds import Reason, Removal
from hudi_ops.commit.owned.remove import remove
from hudi_ops.commit.recover.recover import finish_unfinished, recover
from hudi_ops.commit.recover.rollback import roll_back
from hudi_ops.commit.recover.rollback_bodies import absolute_path
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.attempt_status import refuse_taken_over
from hudi_ops.concurrency.foreign.foreign_instants import is_dead
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.engine.progress import Progress, Tally
from hudi_ops.errors import Busy, InvalidRequest
from hudi_ops.services.archive.take_out import take_out
from hudi_ops.services.base.execute import execute
from hudi_ops.services.base.publish import free_instant
from hudi_ops.services.base.result import Result
from hudi_ops.services.base.service import Execution
from hudi_ops.services.clean.service import CLEAN
from hudi_ops.services.indexing.drop import drop_metadata
from hudi_ops.services.indexing.end_builds import end_builds
from hudi_ops.services.indexing.rebuild import dropped_before
from hudi_ops.services.indexing.run import build_indexes
from hudi_ops.services.restore.survey import (
    Survey,
    in_the_way,
    plans_above,
    refuse_below_boundary,
    refuse_lost_files,
    refuse_others,
    savepoint_to_restore,
    survey,
    targets_of_restore,
)
from hudi_ops.storage.claim import ensure
from hudi_ops.timeline.content.plans import RestorePlan, read_plan
from hudi_ops.timeline.content.restore_bytes import Undone, encode_restore, encode_restore_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import mark_cancelled, refuse_uncancelled
from hudi_ops.timeline.log.entries import Entry, Restore
from hudi_ops.timeline.names import State, inflight_name, ms_of_instant
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RestoreResult(Result):
    """Result of a restore; `instant` is None in a dry run, and where there was nothing to undo.

    `undone` are the request times of the undone writes, newest completion first; `files` and `bytes` are those deleted, `cancelled`
    the plans taken off the timeline, `rebuilt` the partitions of the metadata table built anew.
    """

    table: str
    savepoint: str
    instant: str | None
    undone: tuple[str, ...]
    files: int = 0
    bytes: int = 0
    cancelled: tuple[str, ...] = ()
    rebuilt: tuple[str, ...] = ()
    dry_run: bool = False
    note: str = ""
    seconds: float = 0.0


def restore_table(
    session: Session,
    savepoint: str | None = None,
    *,
    dry_run: bool = False,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> RestoreResult:
    """Undo every write above a savepoint; finish a restore that another process left.

    Args:
        savepoint: instant of the savepoint; None: the only one, or that of the pending restore.
        dry_run: return what would be undone; change nothing.
        progress: called after each deleted file.

    Raises:
        InvalidRequest: there is no such savepoint, a newer one protects a write, its write is archived, or another restore is
            pending.
        Busy: a write, clean, rollback or index build is under way, a plan above the savepoint has a live executor, or the lock is
            held.
        Corrupt: a file of the savepoint is lost.
        Unsupported: the table cannot be written.
        OutcomeUnknown: storage did not say whether it was decided; the same call settles that.
    """
    started_s = session.ctx.clock.monotonic_s()
    state = session.loader.load() if dry_run else finish_unfinished(session)
    refuse_unwritable(state.config)
    chosen = _pending(session, state, savepoint)
    if dry_run:
        return _preview(session, state, savepoint if chosen is None else chosen)
    cancelled: tuple[str, ...] = ()
    if chosen is None:
        chosen = savepoint_to_restore(state, savepoint)
        recover(session)
        _finish_cleans(session)
        # Its metadata table is dropped and built again.
        ended = end_builds(session, None, f"restore to savepoint {chosen}")
        cancelled = (*ended, *_cancel_plans(session, chosen))
        if not _publish(session, chosen):
            rebuilt = _build(session)
            state = session.loader.load()
            note = "no write completed after the savepoint"
            return RestoreResult(state.config.name, chosen, None, (), cancelled=cancelled, rebuilt=rebuilt, note=note)
    result = _execute(session, chosen, progress)
    rebuilt = _build(session)
    session.memory.is_clean = False  # the next write looks for leftovers of the undone ones
    seconds = round(session.ctx.clock.monotonic_s() - started_s, 3)
    return replace(result, cancelled=cancelled, rebuilt=rebuilt, seconds=seconds)


def _pending(session: Session, state: TableState, savepoint: str | None) -> str | None:
    """Return the savepoint of the pending restore, or None without one.

    Raises:
        InvalidRequest: it restores another savepoint, or Apache Hudi began it.
    """
    time = pending_restore(state)
    if not time:
        return None
    entry = _entry_of(state, time)
    if entry is None:
        raise InvalidRequest(
            "Apache Hudi began a restore of this table",
            table=state.config.name,
            instant=time,
            expected="no pending restore, or one of hudi-ops",
            found=f"restore {time}, without a slot in the commit log",
            next_step="finish it with Apache Hudi: call rollback_to_savepoint again",
        )
    if savepoint not in {None, entry.savepoint}:
        raise InvalidRequest(
            "the table is being restored to another savepoint",
            table=state.config.name,
            instant=time,
            expected=f"savepoint {entry.savepoint}",
            found=str(savepoint),
            next_step=f"finish that restore first: `hudi-ops restore TABLE {entry.savepoint}`",
        )
    return entry.savepoint


def _entry_of(state: TableState, restore: str) -> Restore | None:
    """Return the RESTORE of a pending restore; the log is loaded from a commit below it."""
    entries = (entry for _, entry in state.log.since(state.log.base - 1))
    return next((one for one in entries if isinstance(one, Restore) and one.instant == restore), None)


def _preview(session: Session, state: TableState, savepoint: str | None) -> RestoreResult:
    chosen = savepoint_to_restore(state, savepoint)
    refuse_below_boundary(state, chosen)
    targets = targets_of_restore(state, chosen)
    found = survey(session, state)
    refuse_lost_files(session, state, chosen, found)
    files = found.files_of(targets)
    plans = plans_above(state, chosen)
    others = [str(one) for one in in_the_way(state, chosen) if one not in plans]
    return RestoreResult(
        state.config.name,
        chosen,
        None,
        tuple(one.time for one in targets),
        len(files),
        sum(file.size_bytes for file in files),
        tuple(one.time for one in plans),
        state.config.all_metadata_partitions,
        dry_run=True,
        note=f"pending now: {', '.join(others)}" if others else "",
    )


def _finish_cleans(session: Session) -> None:
    """Execute the pending cleans, as they may not be cancelled; none names a savepoint's file.

    Raises:
        Busy: one of them has a live executor.
        InvalidRequest: Apache Hudi began one of them.
    """
    for one in session.loader.load().timeline.pending:
        if one.action == CLEAN.action:
            execute(session, CLEAN, one.time, Execution())


def _cancel_plans(session: Session, savepoint: str) -> tuple[str, ...]:
    """Cancel the plans above a savepoint and take them off the timeline; return their instants.

    Raises:
        Busy: one of them has a live executor.
    """
    state = session.loader.load()
    plans = plans_above(state, savepoint)
    for plan in plans:
        refuse_leased(session, state, read_lease(session.ctx.storage, plan.time), plan.time)
    for plan in plans:
        _cancel(session, state, plan, savepoint)
    return tuple(plan.time for plan in plans)


def _cancel(session: Session, state: TableState, plan: Instant, savepoint: str) -> None:
    def is_idle() -> bool:
        return read_lease(session.ctx.storage, plan.time) is None or is_dead(session.ctx, plan.time)

    if cancel_write(session, plan.time, f"the table is restored to savepoint {savepoint}", is_idle):
        roll_back(session, plan)
        return
    raise Busy(
        f"{plan.action} {plan.time} was begun by another process",
        table=state.config.name,
        instant=plan.time,
        expected="a plan without an executor",
        next_step="wait until it has completed, then run the same call again",
        other=plan.time,
    )


def _publish(session: Session, savepoint: str) -> bool:
    """Decide the restore; return False if no write completed above the savepoint.

    Raises:
        InvalidRequest: the savepoint is gone, or a newer one was made.
        Busy: something is pending that a restore can neither undo nor leave.
    """
    leases: list[str] = []
    begun = session.loader.load()
    refuse_lost_files(session, begun, savepoint, survey(session, begun))

    def prepare(state: TableState, slot: int) -> Entry | None:
        savepoint_to_restore(state, savepoint)
        refuse_below_boundary(state, savepoint)
        refuse_others(session, state, savepoint)
        targets = targets_of_restore(state, savepoint)
        if not targets:
            return None
        instant = free_instant(session, state, leases)
        return Restore(
            **session.entry(state, f"restore {instant}"),
            instant=instant,
            savepoint=savepoint,
            undone=tuple(one.time for one in targets),
            payload=session.put_payload(instant, slot, encode_restore_plan(savepoint, targets)),
        )

    try:
        decided = session.decide(prepare, f"restore savepoint {savepoint}")
    except (Busy, InvalidRequest):
        for instant in leases:
            session.drop_refused_payloads(instant)
            session.drop_name(instant)
        raise
    for instant in leases:
        session.drop_lost_payloads(instant, decided, alone=True)
        session.drop_name(instant)
    return decided is not None


def _execute(session: Session, savepoint: str, progress: Callable[[Progress], None]) -> RestoreResult:
    """Execute the pending restore.

    Raises:
        Busy: another process executes it.
        Cancelled: another process took it over.
    """
    state = session.loader.load()
    time = pending_restore(state)
    found = state.timeline.find(time, "restore") if time else None
    plan = read_plan(session.ctx.storage, state.timeline, found) if found is not None else None
    attempt = take_over(session, time, "restore") if isinstance(plan, RestorePlan) else None
    if attempt is None or not isinstance(plan, RestorePlan):
        return RestoreResult(state.config.name, savepoint, None, (), note="another process finished this restore")
    ensure(session.ctx.storage, state.timeline.path(inflight_name(time, "restore")), b"")
    with session.keep(time, "execute", epoch=attempt.epoch, leased_s=attempt.leased_s) as monitor:
        partitions = state.config.all_metadata_partitions
        if partitions:
            drop_metadata(session, to_build=partitions)
        if state.config.layout == 2:
            take_out(session, state.config.history_folder, frozenset(plan.targets))
        targets = _targets_left(session.loader.load(), plan)
        files = survey(session, state)
        found_files = files.files_of(targets)
        tally = Tally(progress, "files", len(found_files), sum(file.size_bytes for file in found_files))
        undone = _delete_undone(session, state, targets, files, monitor.check, tally)
        _complete(session, attempt, undone)
    session.release(time)
    logger.warning("restored the table to savepoint %s: %s writes undone", savepoint, len(plan.targets))
    size = sum(file.size_bytes for file in found_files)
    return RestoreResult(state.config.name, savepoint, time, plan.targets, len(found_files), size)


def _targets_left(state: TableState, plan: RestorePlan) -> list[Instant]:
    """Return the writes of a restore's plan, newest completion first.

    Those that an earlier executor took off the timeline are among them: its death may have left files.
    """
    action = state.config.completed_write_action
    return [state.timeline.find(time) or Instant(time, action, State.REQUESTED) for time in plan.targets]


def _delete_undone(
    session: Session,
    state: TableState,
    targets: Sequence[Instant],
    files: Survey,
    check: Callable[[], None],
    tally: Tally,
) -> list[Undone]:
    """Delete the writes one after another (docs/protocol §23); return the deleted files of each.

    A write's completed file goes first, so that readers take its data files for uncommitted ones; its inflight and requested
    file go last. `check` may raise.
    """
    undone, deleted = list[Undone](), set[str]()
    for target in targets:
        check()
        mark_cancelled(session.ctx.storage, target.time, refuse_uncancelled(session.ctx.storage, state, target.time))
        own = [file for file in files.by_writer.get(target.time, ()) if file.path not in deleted]
        removal = Removal(session, state, target, Reason.RESTORED, [file.path for file in own], is_foreign=True)
        remove(removal, check=check)
        by_partition: dict[str, list[str]] = {}
        for file in own:
            deleted.add(file.path)
            tally.add(file.size_bytes)
            by_partition.setdefault(file.partition_path, []).append(absolute_path(session.ctx.storage, file.path))
        undone.append(Undone(target, by_partition))
    return undone


def _complete(session: Session, attempt: Attempt, undone: Sequence[Undone]) -> None:
    def check(state: TableState) -> bool:
        found = state.timeline.find(attempt.instant, "restore")
        if found is None or found.is_completed or state.log.fate(attempt.instant) is not None:
            return False
        refuse_taken_over(attempt, state)
        return True

    def make(state: TableState, completion: str) -> bytes:
        return encode_restore(attempt.instant, ms_of_instant(completion) - ms_of_instant(attempt.instant), undone)

    complete_action(session, attempt, Body(make), check)


def _build(session: Session) -> tuple[str, ...]:
    """Build the partitions of the metadata table that a restore dropped; return their names."""
    if not dropped_before(session.loader.load()):
        return ()
    return build_indexes(session).partitions
