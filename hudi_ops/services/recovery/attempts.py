"""Roll back one pending write of a dead writer, or recover a table, on a user's request."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from hudi_ops.commit.checks import was_completed
from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.owned.find import files_of
from hudi_ops.commit.recover.foreign_rollbacks import (
    AbandonedRollback,
    abandoned_rollbacks,
    finish_abandoned,
    refuse_other_kinds,
)
from hudi_ops.commit.recover.recover import finish_unfinished, recover
from hudi_ops.commit.recover.rollback import RolledBackWrite, roll_back
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.concurrency.foreign.foreign_instants import is_dead, may_be_foreign
from hudi_ops.concurrency.lease.lease import Lease, read_lease
from hudi_ops.errors import Busy, Conflict, Corrupt, InvalidRequest, Unsupported
from hudi_ops.index.resizes import is_resize
from hudi_ops.services.base.result import Result
from hudi_ops.services.indexing.drop import finish_drop
from hudi_ops.timeline.content.plans import read_plan
from hudi_ops.timeline.content.rollbacks import rollback_of
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import SERVICE_ACTIONS, WRITE_ACTIONS, State
from hudi_ops.timeline.state import TableState

_LIST = "copy an instant from `hudi-ops timeline`"


_REMOVABLE = frozenset({"clean"})
"""Services whose plans are removed by hand, as long as no executor began them; plans of other services are cancelled."""


@dataclass(frozen=True)
class RollbackResult(Result):
    """Result of a rollback, with the files that the write announced; `rollback` None: dry run."""

    table: str
    instant: str
    action: str
    owner: str
    rollback: str | None
    files: tuple[str, ...]
    dry_run: bool = False
    note: str = ""


@dataclass(frozen=True)
class Left:
    """Pending instant that a recovery left alone; `state` is `requested` or `inflight`."""

    instant: str
    action: str
    state: str
    reason: str


@dataclass(frozen=True)
class RecoverResult(Result):
    """Result of a recovery: writes that it rolled back, and pending instants that it left alone.

    `metadata_files` counts the files of a dropped metadata table that it deleted.
    """

    table: str
    rolled_back: tuple[RolledBackWrite, ...]
    left: tuple[Left, ...]
    metadata_files: int = 0


def recover_table(session: Session, *, abandoned: bool = False) -> RecoverResult:
    """Finish decided instants and dropped metadata tables, and roll back dead writers.

    Args:
        abandoned: finish pending rollbacks of Apache Hudi, too: the caller states that its programs have ended. Pending writes
            without a heartbeat and without a rollback stay: they are rolled back one by one (`rollback_write`).

    Raises:
        Unsupported: the table cannot be written.
        Busy: the table lock is held.
    """
    refuse_unwritable(session.loader.load().config)
    undone = recover(session)
    state = session.loader.load()
    refused: dict[str, str] = {}
    for begun in abandoned_rollbacks(session, state) if abandoned else ():
        try:
            undone.append(finish_abandoned(session, state, begun))
        except (InvalidRequest, Unsupported, Busy, Conflict) as error:
            refused[begun.rollback.time] = error.what
    state = session.loader.load() if abandoned else state
    left = (
        Left(
            instant.time,
            instant.action,
            instant.state.name.lower(),
            refused.get(instant.time) or _why_left(session, state, instant),
        )
        for instant in state.timeline.pending
    )
    return RecoverResult(state.config.name, tuple(undone), tuple(left), finish_drop(session))


def rollback_write(session: Session, instant: str, *, abandoned: bool = False, dry_run: bool = False) -> RollbackResult:
    """Roll back a pending write whose writer is dead.

    With `abandoned`, a rollback that Apache Hudi has begun is finished.

    Args:
        abandoned: the caller states that a writer without a heartbeat has ended: a single writer of Apache Hudi has none.
        dry_run: list the files that would be deleted; change nothing.

    Raises:
        InvalidRequest: no such instant, a completed one, or one without a heartbeat and without `abandoned`.
        Unsupported: a pending service other than a clean, or the table cannot be written.
        Busy: its writer is alive, or another process is rolling it back.
        Conflict: it completed before it was cancelled.
    """
    state = session.loader.load() if dry_run else finish_unfinished(session)
    refuse_unwritable(state.config)
    found = state.timeline.find(instant)
    begun = list(abandoned_rollbacks(session, state, instant))
    if found is not None:
        _refuse_other_kinds(session, state, found)
    if begun:
        return _finish(session, state, begun, abandoned=abandoned, dry_run=dry_run)
    if found is None:
        return _absent(session, state, instant)
    lease = read_lease(session.ctx.storage, instant)
    cancelled = session.was_cancelled(state, instant)
    is_plan = found.action in _REMOVABLE and State.INFLIGHT not in found.states
    if not cancelled and not (is_plan and lease is None):  # such a plan was not begun
        refuse_alive(session, state, lease, instant, abandoned=abandoned)
    owner = _owner(lease)
    if dry_run:
        paths = files_of(session, state, instant, foreign=may_be_foreign(lease, found))
        return RollbackResult(state.config.name, instant, found.kind, owner, None, tuple(paths), dry_run=True)
    still = partial(is_dead, session.ctx, instant, had_lease=lease is not None)
    if not cancel_write(session, instant, "asked for by hand", still):
        raise Conflict(
            "the write completed, or its writer is alive again",
            table=state.config.name,
            instant=instant,
            next_step="see `hudi-ops timeline`",
        )
    undone = roll_back(session, found)
    if undone is None:
        raise Busy(
            "another process is rolling it back, or the plan of a pending rollback cannot be read",
            table=state.config.name,
            instant=instant,
            next_step="see `hudi-ops timeline` and `hudi-ops verify`",
        )
    return RollbackResult(state.config.name, instant, undone.action, owner, undone.rollback, undone.files)


def refuse_alive(session: Session, state: TableState, lease: Lease | None, instant: str, *, abandoned: bool) -> None:
    """Refuse to roll back a writer that is or may be alive.

    Raises:
        Busy: its heartbeat is young.
        InvalidRequest: it has no heartbeat, and the caller did not state that it has ended.
    """
    if lease is None:
        if abandoned:
            return
        raise InvalidRequest(
            "this write has no heartbeat, so its writer may be alive",
            table=state.config.name,
            instant=instant,
            expected="a heartbeat that stopped, or the statement that its writer has ended",
            found="no heartbeat",
            next_step="once its writer has surely ended, run the same call with --abandoned",
        )
    if not is_dead(session.ctx, instant):
        raise Busy(
            f"{_owner(lease)} is writing",
            table=state.config.name,
            instant=instant,
            expected="a writer whose heartbeat stopped",
            found=f"a beat {max(0, session.ctx.clock.now_ms() - lease.beaten_ms) / 1000:.0f} s ago",
            next_step="stop that process, or wait until it has ended",
        )


def _finish(
    session: Session, state: TableState, begun: Sequence[AbandonedRollback], *, abandoned: bool, dry_run: bool
) -> RollbackResult:
    """Finish every rollback that Apache Hudi has begun for the write.

    Raises:
        InvalidRequest: `abandoned` is not set.
    """
    first, name = begun[0], state.config.name
    lease = read_lease(session.ctx.storage, first.target.time)
    if not abandoned:
        raise InvalidRequest(
            f"Apache Hudi has begun to undo this write (rollback {first.rollback.time}), and may be running",
            table=name,
            instant=first.target.time,
            expected="a finished rollback, or the statement that its program has ended",
            found=str(first.rollback),
            next_step="a write of Apache Hudi finishes it; once its programs have surely ended, run the same call with --abandoned",
        )
    refuse_other_kinds(state, first)
    if dry_run:
        paths = files_of(session, state, first.target.time, foreign=True, plan=first.plan)
        return RollbackResult(
            name, first.target.time, first.target.kind, _owner(lease), None, tuple(paths), dry_run=True
        )
    undone = [finish_abandoned(session, state, rollback) for rollback in begun]
    files = sorted({path for rollback in undone for path in rollback.files})
    return RollbackResult(name, first.target.time, first.target.kind, _owner(lease), undone[0].rollback, tuple(files))


def _refuse_other_kinds(session: Session, state: TableState, found: Instant) -> None:
    if found.is_completed:
        raise InvalidRequest(
            f"this {found.kind} is completed: its rows are in the table",
            table=state.config.name,
            instant=found.time,
            expected="a pending write",
            found=str(found),
            next_step="`hudi-ops read --as-of` shows an earlier state; `hudi-ops restore TABLE` returns the table to a savepoint",
        )
    if found.action in SERVICE_ACTIONS - _REMOVABLE:
        raise Unsupported(
            f"a pending {found.action} is a plan, which is cancelled and not rolled back",
            table=state.config.name,
            instant=found.time,
            expected="a pending write",
            found=str(found),
            next_step=f"`hudi-ops cancel TABLE {found.time}` ends it for good; --force where it was not planned as cancellable",
        )
    if found.action not in WRITE_ACTIONS and not (found.action in _REMOVABLE and state.config.layout == 2):
        raise Unsupported(
            f"a pending {found.action} is not rolled back by hand",
            table=state.config.name,
            instant=found.time,
            expected="a pending write",
            found=str(found),
            next_step=_finished_by(session, state, found)
            or "`hudi-ops recover` finishes rollbacks of hudi-ops; Apache Hudi finishes or rolls back its own services",
        )


def _absent(session: Session, state: TableState, instant: str) -> RollbackResult:
    """Return the result for an instant that was rolled back before and left the timeline.

    Raises:
        InvalidRequest: it was completed and archived, or never existed.
    """
    done = rollback_of(session.ctx.storage, state.timeline, instant)
    if done is not None or session.was_cancelled(state, instant):
        note = "it was rolled back before"
        if done is not None:
            note = f"rollback {done.time} undid it before"
        if done is not None and not done.is_completed:
            note = f"rollback {done.time} of it is pending; once its process has ended, `hudi-ops recover` finishes it"
        return RollbackResult(state.config.name, instant, "", "", done.time if done else None, (), note=note)
    is_completed = was_completed(session, state, instant)
    raise InvalidRequest(
        "this instant was completed and archived" if is_completed else "no such instant",
        table=state.config.name,
        instant=instant,
        expected="a pending write",
        found="an archived instant" if is_completed else "no instant of that time on the timeline",
        next_step="it cannot be undone" if is_completed else _LIST,
    )


def _why_left(session: Session, state: TableState, instant: Instant) -> str:
    lease = read_lease(session.ctx.storage, instant.time)
    if lease is not None and not lease.is_dead(session.ctx.clock):
        return f"{_owner(lease)} is working on it"
    if finished := _finished_by(session, state, instant):
        begun = "begun and not completed" if lease is not None or State.INFLIGHT in instant.states else "planned"
        return f"a {instant.action} that is {begun}: {finished}"
    if instant.kind == "rollback" and lease is None:
        return "a rollback of Apache Hudi, which its next write finishes; without one, `hudi-ops recover TABLE --abandoned`"
    if instant.action not in WRITE_ACTIONS:
        return f"a pending {instant.action}, which its program finishes or rolls back"
    if lease is None:
        return "no heartbeat: its writer may be alive; if it is gone, `hudi-ops rollback TABLE INSTANT --abandoned`"
    return "another process is rolling it back"


def _finished_by(session: Session, state: TableState, instant: Instant) -> str:
    """Return the command that finishes a pending service, or an empty text."""
    command = {"compaction": "compact", "clustering": "cluster", "clean": "clean"}.get(instant.action)
    if instant.action == "clustering":
        with suppress(Corrupt):
            command = "resize" if is_resize(read_plan(session.ctx.storage, state.timeline, instant)) else command
    if command is not None:
        return f"`hudi-ops {command} TABLE execute --instant {instant.time}` executes it"
    return "`hudi-ops restore TABLE` finishes it" if instant.action == "restore" else ""


def _owner(lease: Lease | None) -> str:
    if lease is None:
        return "an unknown writer"
    return str(lease.owner) if lease.owner is not None else "a writer of Apache Hudi"
