"""Execute a compaction's plan: each slice is read, merged and written as the next base file of its group.

At most one executor works on a plan: a TAKEOVER says who, and gives it the epoch that its files carry. Whatever goes wrong before
the decision takes away what was written, and leaves the plan for the next one.

Source: docs/protocol.md §14, §17; docs/format.md §3.1, §9.2.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hudi_ops.commit.apply.metadata_delta import wanted_facts
from hudi_ops.commit.complete import complete_write
from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.recover.sweep import settle_executed
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.commit.takeover import clear_foreign_attempts, clear_foreign_delta, clear_older_epochs, take_over
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.lease.monitor import Keeper, refuse_superseded
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.protocol import Engine
from hudi_ops.errors import Busy, Cancelled, Conflict, HudiOpsError, InvalidRequest, Unsupported
from hudi_ops.files.statistics.statistics import WantedFacts
from hudi_ops.services.base.engine import choose_by_bytes, refuse_unknown_engine
from hudi_ops.services.base.release import leave_plan
from hudi_ops.services.compaction.cost import estimate, slices_at_a_time
from hudi_ops.services.compaction.inputs import inputs_of_plan, plan_of_instant, refuse_left_out
from hudi_ops.services.compaction.pending import named_compaction, next_compaction, refuse_foreign_executor
from hudi_ops.services.compaction.result import CompactResult, Progress, done_before, result_of
from hudi_ops.services.compaction.tasks import CompactedSlice, CompactTask, compact_slice, tasks_of
from hudi_ops.services.metadata_table.compact import after_write
from hudi_ops.storage.claim import ensure
from hudi_ops.timeline.content.plans import CompactionPlan
from hudi_ops.timeline.log.entries import Complete
from hudi_ops.timeline.names import State, inflight_name
from hudi_ops.timeline.state import TableState
from hudi_ops.view.listing import StorageListing
from hudi_ops.view.schema import table_schema

logger = logging.getLogger(__name__)

SPARK_WAVE = 64
"""Slices that executors are given at a time: between two such waves it is asked whether the plan still stands."""
SPARK_SLICE_BYTES = 1 << 30
"""What a slice may take of an executor's memory where nobody says; a larger one is streamed."""

_NAME = "compaction"


@dataclass(frozen=True)
class Execution:
    """How a plan is executed.

    Attributes:
        engine: `auto`, `local` or `spark`.
        memory_bytes: what one slice may take of memory; a larger one is streamed. None: as this process's memory suggests.
        abandoned: whoever calls knows that the program which began to execute it has ended, where no heartbeat tells.
        progress: called when a slice is done.
    """

    engine: str = "auto"
    memory_bytes: int | None = None
    abandoned: bool = False
    progress: Callable[[Progress], None] = lambda progress: None

    def __post_init__(self) -> None:
        refuse_unknown_engine(self.engine)


def execute(session: Session, instant: str | None, how: Execution) -> CompactResult:
    """Execute a plan, whoever made it; doing it again after a failure goes on, and after success changes nothing.

    Args:
        session: the table's.
        instant: of the plan; None: the oldest one on which nobody works.
        how: with which engine, and how much memory.

    Raises:
        InvalidRequest: no such plan, or Apache Hudi began it and `abandoned` was not said.
        Unsupported: the table cannot be written, or it is another service's plan.
        Busy: somebody executes it; names who. Or a write of another program is pending without a heartbeat.
        Cancelled: it was cancelled, or taken over meanwhile.
        Conflict: it cannot be completed as it is; the plan is left.
        Corrupt: a file of the plan is damaged or gone; the plan is left.
        OutcomeUnknown: completed or not; the next write settles it.
    """
    started_s = session.ctx.clock.monotonic_s()
    refuse_unwritable(session.loader.load().config)
    recover(session)
    session.is_clean = False  # until this has ended well
    state = session.loader.load()
    found = (
        next_compaction(session, state, abandoned=how.abandoned)
        if instant is None
        else named_compaction(session, state, instant)
    )
    if found is None:
        return done_before(state, None, "no compaction is planned")
    if found.is_completed:
        return done_before(state, found, "it was completed before")
    session.silent.refuse(state, found.time)

    def check(now: TableState) -> None:
        if not how.abandoned:
            refuse_foreign_executor(session, now, found.time)

    attempt = take_over(session, found.time, _NAME, check)
    if attempt is None:
        state = session.loader.load()
        return done_before(state, state.timeline.find(found.time, _NAME), "it was completed before")
    result = _execute_taken(session, attempt, how)
    return replace(result, seconds=round(session.ctx.clock.monotonic_s() - started_s, 3))


def _execute_taken(session: Session, attempt: Attempt, how: Execution) -> CompactResult:
    is_deciding = False
    name = attempt.begun.config.name
    try:
        with session.keep(attempt.instant, "execute", epoch=attempt.epoch) as keeper:
            started_s = session.ctx.clock.monotonic_s()
            plan = _begin(session, attempt)
            refuse_left_out(session, attempt.begun, attempt.instant, plan)
            inputs = inputs_of_plan(session, attempt.begun, attempt.instant, plan)
            engine, reason = choose_by_bytes(how.engine, inputs.bytes_in, session.ctx.engine, "to read")
            limit_bytes = _slice_limit_bytes(engine, how)
            schema = table_schema(attempt.begun.config, attempt.begun.timeline, session.commits)
            # A compaction moves no key, whatever index comes into being beside it.
            wanted = replace(wanted_facts(session, attempt.begun, schema), keys=True)
            tasks = tasks_of(session, attempt, inputs, limit_bytes, wanted)
            before_bytes = pa.default_memory_pool().max_memory()
            slices = _run(engine, tasks, keeper, how)
            keeper.check()
            is_deciding = True
            entry = _complete(session, attempt, plan, slices, wanted)
        settle_executed(session, attempt.instant, [one.stat.path for one in slices])
        after_write(session)
    except (InvalidRequest, Unsupported, Conflict, Busy, Cancelled) as error:
        leave_plan(session, attempt, error)
        raise error.at(table=name, instant=attempt.instant) from error
    except HudiOpsError as error:
        # Before the decision nothing can have landed, whatever it was; in it any other class leaves that open.
        if not is_deciding:
            leave_plan(session, attempt, error)
        raise error.at(table=name, instant=attempt.instant) from error
    expected = estimate(inputs.sizes, slices_at_a_time(engine), limit_bytes)
    took_s = session.ctx.clock.monotonic_s() - started_s
    return result_of(attempt, entry, inputs, slices, (engine.name, reason), expected, took_s, before_bytes)


def _begin(session: Session, attempt: Attempt) -> CompactionPlan:
    """Clear what earlier executors left, put the plan's inflight file, and look again.

    Raises:
        Cancelled: somebody cancelled it, or took it over.
        Conflict: its requested file is gone: a writer without slots undid it.
        Corrupt: it cannot be read.
    """
    storage, timeline = session.ctx.storage, attempt.begun.timeline
    found = timeline.find(attempt.instant, _NAME)
    if found is None:
        raise Conflict("the plan is gone from the timeline", instant=attempt.instant)
    plan = plan_of_instant(session, attempt.begun, found)
    clear_older_epochs(session, attempt)
    if attempt.epoch > 1 or State.INFLIGHT in found.states:
        # Apache Hudi may have begun it; an executor of ours that came between may have died before it got as far as this. Leftovers
        # are announced as a rule, and looked for all the same: two base files of one group and instant are read as whatever is
        # listed last (docs/format.md §9.1).
        clear_foreign_attempts(session, attempt, _written_unannounced(session, attempt, plan))
        clear_foreign_delta(session, attempt)
    path = timeline.path(inflight_name(attempt.instant, _NAME))
    if State.INFLIGHT not in found.states:
        ensure(storage, path, b"")
    now = session.loader.reload(attempt.begun)
    after = now.timeline.find(attempt.instant, _NAME)
    is_gone = after is None or State.REQUESTED not in after.states
    if is_gone or attempt.instant <= now.log.boundary:
        # An inflight without its requested file makes the whole table unreadable for Apache Hudi (docs/format.md §2.3).
        storage.delete(path)
    refuse_superseded(now.log, attempt.instant, attempt.epoch)
    if is_gone or attempt.instant <= now.log.boundary:
        raise Conflict(
            "the plan was taken off the timeline by a writer without the commit log",
            instant=attempt.instant,
            next_step="plan anew; check the settings of the other writer",
        )
    return plan


def _written_unannounced(session: Session, attempt: Attempt, plan: CompactionPlan) -> list[str]:
    engine = session.ctx.engine if isinstance(session.ctx.engine, LocalEngine) else None
    listing = StorageListing(session.ctx.storage, is_partitioned=True, engine=engine)
    held = listing.files(sorted({one.partition_path for one in plan.slices}))
    groups = {(one.partition_path, one.file_id) for one in plan.slices}
    return [
        file.path
        for files in held.values()
        for file in files
        if file.instant == attempt.instant and not file.is_log and (file.partition_path, file.file_id) in groups
    ]


def _run(engine: Engine, tasks: Sequence[CompactTask], keeper: Keeper, how: Execution) -> list[CompactedSlice]:
    """All slices, the largest first, so that the last one to end is a small one; results in the order of the tasks.

    Raises:
        Cancelled: somebody cancelled the plan, or took it over: what is left is not begun.
    """
    order = sorted(range(len(tasks)), key=lambda at: -tasks[at].bytes_in)
    done: dict[int, CompactedSlice] = {}
    total_bytes = sum(task.bytes_in for task in tasks)

    def tell(at: int, result: CompactedSlice) -> None:
        done[at] = result
        read_bytes = sum(tasks[one].bytes_in for one in list(done))
        logger.info("compacted %s of %s slices, %s of %s bytes", len(done), len(tasks), read_bytes, total_bytes)
        how.progress(Progress(len(done), len(tasks), read_bytes, total_bytes))

    def step(at: int) -> CompactedSlice:
        keeper.check()
        result = compact_slice(tasks[at])
        tell(at, result)
        return result

    if isinstance(engine, LocalEngine):
        engine.map(step, order)
    else:
        for start in range(0, len(order), SPARK_WAVE):
            keeper.check()
            wave = order[start : start + SPARK_WAVE]
            for at, result in zip(wave, engine.map(compact_slice, [tasks[at] for at in wave]), strict=True):
                tell(at, result)
    return [done[at] for at in range(len(tasks))]


def _complete(
    session: Session,
    attempt: Attempt,
    plan: CompactionPlan,
    slices: Sequence[CompactedSlice],
    wanted: WantedFacts,
) -> Complete:
    facts = [one.facts for one in slices if one.facts is not None]
    write = Write("COMPACT", [one.stat for one in slices], compacted=True, facts=facts, wanted=wanted)

    def check(state: TableState) -> None:
        refuse_left_out(session, state, attempt.instant, plan, seen=attempt.begun)

    return complete_write(session, attempt, write, role="compaction", check=check)


def _slice_limit_bytes(engine: Engine, how: Execution) -> int:
    """What one slice may take of memory."""
    if how.memory_bytes is not None:
        return how.memory_bytes
    if isinstance(engine, LocalEngine):
        return engine.memory_bytes // engine.threads
    return SPARK_SLICE_BYTES
