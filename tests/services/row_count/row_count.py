"""Count the rows of base files: a table service in a hundred lines, which shows how a new kind joins the skeleton.

Its plan is a clean that deletes nothing, so that Apache Hudi reads the timeline. The count goes into the clean's extra metadata.
docs/architecture.md, "Add a service in six steps", follows this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hudi_ops.commit.decide.completion import Body
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.engine.protocol import Engine
from hudi_ops.files.base.base_file import BaseFileReader
from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline.timeline_schemas import CLEAN_METADATA, CLEANER_PLAN
from hudi_ops.services.base.choice import Candidate, Choice, Strategy, measured
from hudi_ops.services.base.cost import Cost
from hudi_ops.services.base.publish import Draft
from hudi_ops.services.base.result import ServiceResult
from hudi_ops.services.base.service import Run, TableService
from hudi_ops.services.base.slices import live_slices
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.content.plans import CleanPlan
from hudi_ops.timeline.state import TableState

BY_SIZE = Strategy("size", lambda group, now_ms: group.base_bytes, "bytes", 1)


@dataclass(frozen=True)
class CountTask:
    """One base file to count; runs anywhere."""

    storage: Storage
    path: str
    bytes_in: int


@dataclass(frozen=True)
class Inputs:
    """The slices to count."""

    slices: tuple[Candidate, ...]
    bytes_in: int


@dataclass(frozen=True)
class CountResult(ServiceResult):
    """Rows of all base files."""

    rows: int = 0


class RowCount(TableService[int, Choice, CleanPlan, Inputs, CountTask, int, CountResult]):
    """Count rows. The request is the smallest size of a base file that is counted, in bytes."""

    action, command, plan_type, result_type = "clean", "row-count", CleanPlan, CountResult

    def refuse_table(self, state: TableState) -> None:
        refuse_unwritable(state.config)

    def empty_choice(self, request: int) -> Choice:
        return Choice("count", "a base file", BY_SIZE, request)

    def choose(self, session: Session, state: TableState, request: int) -> Choice:
        choice = self.empty_choice(request)
        groups = [Candidate(*group.key, group.base) for group in live_slices(session, state) if group.base]
        choice.planned, choice.below = measured(BY_SIZE, groups, request, session.ctx.clock.now_ms())
        return choice

    def draft(self, session: Session, state: TableState, choice: Choice) -> Draft:
        extra = {"paths": " ".join(found.candidate.base.path for found in choice.planned if found.candidate.base)}
        plan: dict[str, Any] = {"policy": "KEEP_LATEST_COMMITS", "version": 2, "extraMetadata": extra}
        return Draft(avro.write_one(CLEANER_PLAN, plan), Footprint(frozenset()), state)

    def estimate(self, choice: Choice, engine: Engine) -> Cost:
        return Cost(sum(found.candidate.base_bytes for found in choice.planned), 0, 0.0, None)

    def inputs(self, session: Session, attempt: Attempt, plan: CleanPlan) -> Inputs:
        planned = plan.extra["paths"].split()
        found = [group for group in live_slices(session, attempt.begun) if group.base and group.base.path in planned]
        return Inputs(
            tuple(Candidate(*group.key, group.base) for group in found), sum(group.bytes_in for group in found)
        )

    def tasks(self, run: Run[CleanPlan, Inputs, CountTask, int]) -> Sequence[CountTask]:
        storage = run.session.ctx.storage
        return [CountTask(storage, group.base.path, group.base_bytes) for group in run.inputs.slices if group.base]

    @staticmethod
    def run(task: CountTask) -> int:
        return BaseFileReader(task.storage, task.path).rows

    def outcome(self, run: Run[CleanPlan, Inputs, CountTask, int]) -> Body:
        extra = {"rows": str(sum(run.done))}
        clean = {"startCleanTime": run.attempt.instant, "timeTakenInMillis": 0, "totalFilesDeleted": 0, "version": 2}
        clean |= {"earliestCommitToRetain": "", "partitionMetadata": {}, "extraMetadata": extra}
        return Body(lambda state, completion: avro.write_one(CLEAN_METADATA, clean))

    def result(self, run: Run[CleanPlan, Inputs, CountTask, int]) -> CountResult:
        time, ended = run.attempt.instant, run.entry.completion_time
        return CountResult(run.attempt.begun.config.name, time, ended, engine=run.engine.name, rows=sum(run.done))


ROW_COUNT = RowCount()
