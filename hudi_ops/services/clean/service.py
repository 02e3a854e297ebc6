"""Clean as a table service: delete the files of slices that no retained instant needs.

Source: docs/protocol §14, §20; docs/format §3.2.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from hudi_ops.commit.decide.completion import Body
from hudi_ops.commit.holds import drop_expired_holds
from hudi_ops.commit.session import Session, best_effort
from hudi_ops.commit.support import refuse_unserviced
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.config.requests import CleanRequest
from hudi_ops.engine.protocol import Engine
from hudi_ops.files.names import data_path
from hudi_ops.index.ring_files import drop_old_rings
from hudi_ops.read.current_view import current_view
from hudi_ops.services.base.cost import Cost
from hudi_ops.services.base.publish import Draft
from hudi_ops.services.base.result import EndedPlans
from hudi_ops.services.base.service import Run, TableService, register
from hudi_ops.services.cancel.overdue import OverdueResult, cancel_overdue, preview_overdue
from hudi_ops.services.clean.choose import CleanChoice, choose, empty_choice, rings_below
from hudi_ops.services.clean.draft import CleanDraft
from hudi_ops.services.clean.earlier import HELD_BACK_KEY, decode_held_back, encode_held_back
from hudi_ops.services.clean.inputs import CleanInputs, inputs_of_plan
from hudi_ops.services.clean.measure import clean_lag, files_kept, measures_of
from hudi_ops.services.clean.result import CleanOutcome
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.clean_bytes import CleanDone, encode_clean_result
from hudi_ops.timeline.content.plans import CleanPlan, FilesByPartition
from hudi_ops.timeline.log.commit_log import automatic_of
from hudi_ops.timeline.state import TableState

BATCH = 256
"""Files that one task deletes."""

_SECONDS_PER_FILE = 0.002


@dataclass(frozen=True)
class DeleteTask:
    """Delete some files of a table."""

    storage: Storage
    paths: tuple[str, ...]
    bytes_in: int


CleanRun = Run[CleanPlan, CleanInputs, DeleteTask, int]


def delete_files(task: DeleteTask) -> int:
    """Delete the files of a task, and return their number."""
    task.storage.delete_all(task.paths)
    return len(task.paths)


class Clean(TableService[CleanRequest, CleanChoice, CleanPlan, CleanInputs, DeleteTask, int, CleanOutcome]):
    """Delete files of old slices.

    Apache Hudi 1.0.2 deletes an empty inflight file of a clean, so it has the bytes of the plan.
    """

    action = "clean"
    command = "hudi-ops clean"
    plan_type = CleanPlan
    result_type = CleanOutcome
    cancellable = False
    inflight_has_plan = True
    run = staticmethod(delete_files)
    empty_choice = staticmethod(empty_choice)
    choose = staticmethod(choose)

    def refuse_table(self, state: TableState) -> None:
        """Refuse tables that cannot be written, and those of timeline layout 1.

        Raises:
            Unsupported: names the feature or the layout.
        """
        refuse_unserviced(state.config, "a clean")

    def end_plans(self, session: Session, removed: Sequence[str], preview: TableState | None) -> EndedPlans:
        """Cancel overdue plans, and remove cancelled ones: they hold back files."""
        if preview is not None:
            return _ended(preview_overdue(session, preview))
        aborted = {one.time for one in session.loader.load().timeline.aborted} if removed else set()
        return _ended(cancel_overdue(session), aborted.intersection(removed))

    def draft(self, session: Session, state: TableState, choice: CleanChoice) -> Draft:
        """Return the draft, which is checked and not changed under the lock."""
        return CleanDraft(session, state, choice).draft()

    def estimate(self, choice: CleanChoice, engine: Engine) -> Cost:
        """Return the time of the deletions; nothing is read or written."""
        return Cost(0, 0, round(len(choice.dropped) * _SECONDS_PER_FILE, 3), None)

    def measures(self, session: Session, state: TableState) -> Mapping[str, float | None]:
        """Return what the table's health measures of cleans, by the table's own policy."""
        settings = session.upkeep.upon(automatic_of(session.ctx.storage, state.log)).clean
        view = current_view(
            session.ctx.storage, state.config, state.timeline, session.commits, session.ctx.local_engine
        )
        now_ms = session.ctx.clock.now_ms()
        lag = clean_lag(session, state, view, settings, now_ms)
        return measures_of(lag, files_kept(session, state, view, settings, now_ms), now_ms)

    def refuse_plan(self, session: Session, state: TableState, plan: CleanPlan, instant: str) -> None:
        """Refuse a plan that names a file which must stay: once it is begun, it cannot be cancelled."""
        inputs_of_plan(session, state, instant, plan)

    def inputs(self, session: Session, attempt: Attempt, plan: CleanPlan) -> CleanInputs:
        """Return the files of the plan, after the checks of the plan and of the holds."""
        found = inputs_of_plan(session, attempt.begun, attempt.instant, plan)
        return replace(found, rings=rings_below(session, attempt.begun, plan.earliest_retained))

    def tasks(self, run: CleanRun) -> list[DeleteTask]:
        """Return one task for each `BATCH` files."""
        paths = [
            data_path(partition, name) for partition, names in sorted(run.inputs.present.items()) for name in names
        ]
        storage = run.session.ctx.storage
        return [DeleteTask(storage, tuple(paths[at : at + BATCH]), 0) for at in range(0, len(paths), BATCH)]

    def outcome(self, run: CleanRun) -> Body:
        """Return the maker of the completed file; the metadata table forgets files that are gone."""
        found = run.inputs
        # A repeated execution finds what an earlier one left.
        drop_old_rings(run.session.ctx.storage, found.rings)
        took_ms = max(0, run.session.ctx.clock.now_ms() - found.at_ms)
        done = CleanDone(run.attempt.instant, took_ms, found.present, found.gone)
        extra = {**run.plan.extra}
        held = _merged(decode_held_back(extra.get(HELD_BACK_KEY, "{}"), "the plan"), found.held_back)
        if held or HELD_BACK_KEY in extra:
            extra[HELD_BACK_KEY] = encode_held_back(held)
        body = encode_clean_result(run.plan, done, extra)
        removed = {path: names for path, names in _merged(found.present, found.gone).items() if names}
        return Body(lambda state, completion: body, removed)

    def settled(self, session: Session) -> None:
        """Delete the files of holds that expired long ago."""
        with best_effort("the holds"):
            drop_expired_holds(session)

    def result(self, run: CleanRun) -> CleanOutcome:
        """Return what was deleted."""
        found, plan = run.inputs, run.plan
        held = _merged(decode_held_back(plan.extra.get(HELD_BACK_KEY, "{}"), "the plan"), found.held_back)
        return CleanOutcome(
            table=run.attempt.begun.config.name,
            instant=run.attempt.instant,
            completion_time=run.entry.completion_time,
            engine=run.engine.name,
            engine_reason="files are deleted by this process",
            epoch=run.attempt.epoch,
            policy=plan.policy,
            earliest_retained=plan.earliest_retained,
            partitions=len(found.present),
            deleted=sum(map(len, found.present.values())),
            bytes_deleted=sum(found.sizes.values()),
            gone=sum(map(len, found.gone.values())),
            held_back=sum(map(len, held.values())),
            ring_files=sum(len(one.files) for one in found.rings),
        )


def _ended(done: OverdueResult, removed: Collection[str] = ()) -> EndedPlans:
    return EndedPlans(done.cancelled, tuple(sorted({*removed, *done.removed})), done.waiting)


def _merged(one: FilesByPartition, other: FilesByPartition) -> dict[str, tuple[str, ...]]:
    return {path: tuple(sorted({*one.get(path, ()), *other.get(path, ())})) for path in sorted({*one, *other})}


CLEAN = register(Clean())
"""The service."""
