"""Table services as actors, upon the product's plans, takeovers and boundary: a rewriter of file groups, and an archiver.

Stand-ins for clustering and archiving, which have no services yet: small, and careless about everything but the protocol.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hudi_ops.commit.apply.observed import observed_completions
from hudi_ops.commit.archive_boundary import HistoryFile, archive_boundary
from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.session import Session
from hudi_ops.commit.takeover import clear_older_epochs, take_over
from hudi_ops.commit.undo.rollback import roll_back, rollback_attempt
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.attempt_status import refuse_closed
from hudi_ops.concurrency.conflicts import Contender, refuse_completed
from hudi_ops.concurrency.markers import put_marker
from hudi_ops.context import TableContext
from hudi_ops.errors import Cancelled, Conflict, InvalidRequest
from hudi_ops.files.names import base_file_name, data_path
from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline.timeline_schemas import REQUESTED_REPLACE_METADATA
from hudi_ops.services.base.publish import Draft, publish_plan
from hudi_ops.services.base.slices import live_slices
from hudi_ops.storage.claim import ensure
from hudi_ops.timeline.cancel.policy import NEVER, CancelPolicy
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS, Footprint, footprint_of
from hudi_ops.timeline.content.plans import PlannedSlice, ReplacePlan, read_plan
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Pointer
from hudi_ops.timeline.log.entries import Complete, Entry
from hudi_ops.timeline.log.reserve import known_times, next_after
from hudi_ops.timeline.names import inflight_name
from hudi_ops.timeline.state import TableState
from tests.protocol.scenarios.actors import Landed
from tests.protocol.scenarios.base_files import base_file
from tests.protocol.scenarios.listing_reader import rows_in
from tests.protocol.scenarios.worlds import Job

HISTORY = ".hoodie/.scenario_history"


@dataclass(frozen=True)
class Plans:
    """Plans to rewrite the file groups of a job's partitions, under other ids; returns the plan's instant."""

    job: Job
    cancel: CancelPolicy = NEVER

    def __call__(self, ctx: TableContext) -> str:
        """Do it, once."""
        session = Session(ctx)
        begun = session.loader.load()
        slices = [
            {"dataFilePath": one.base.path, "deltaFilePaths": [], "fileId": one.file_id, "partitionPath": path, "version": 1}
            for path in self.job.paths
            for one in live_slices(session, begun, [path])
            if one.base is not None
        ]  # fmt: skip
        groups = [{"slices": [one], "metrics": {}, "numOutputFileGroups": 1, "version": 1} for one in slices]
        body = avro.write_one(
            REQUESTED_REPLACE_METADATA,
            {"operationType": "CLUSTER", "clusteringPlan": {"inputGroups": groups, "version": 1}, "version": 1},
        )
        footprint = Footprint(
            frozenset((str(one["partitionPath"]), str(one["fileId"])[:BUCKET_DIGITS]) for one in slices)
        )
        return publish_plan(session, "clustering", Draft(body, footprint, begun, cancel=self.cancel)).instant


@dataclass(frozen=True)
class Executes:
    """Takes over the pending plan of a job and executes it; None when there is none, or it was completed meanwhile."""

    job: Job

    def __call__(self, ctx: TableContext) -> Landed | None:
        """Do it, once."""
        session = Session(ctx)
        state = session.loader.load()
        pending = [one for one in state.timeline.pending if one.action == "clustering"]
        try:
            attempt = take_over(session, pending[0].time, "clustering") if pending else None
        except Cancelled:
            # Whoever cancelled it died before it was off the timeline.
            roll_back(session, pending[0])
            raise
        if attempt is None:
            return None
        written: list[WriteStat] = []
        try:
            with session.keep(attempt.instant, "execute", epoch=attempt.epoch) as keeper:
                clear_older_epochs(session, attempt)
                timeline = attempt.begun.timeline
                ensure(ctx.storage, timeline.path(inflight_name(attempt.instant, "clustering")), b"")
                planned = timeline.find(attempt.instant)
                plan = read_plan(ctx.storage, timeline, planned) if planned is not None else None
                if plan is None:
                    raise Conflict("the plan was removed meanwhile", instant=attempt.instant)
                assert isinstance(plan, ReplacePlan)
                for one in plan.slices:
                    keeper.check()
                    written.append(_rewrite(session, attempt, one))
                _complete(session, attempt, plan.slices, written)
        except (Cancelled, Conflict) as error:
            # Its epoch is in their names, so they are nobody else's.
            for stat in written:
                ctx.storage.delete(stat.path)
            # What was planned is no longer all there is: another plan has to be made.
            rollback_attempt(session, attempt.instant, error)
            raise
        session.release(attempt.instant)
        return Landed(attempt.instant, self.job)


def _rewrite(session: Session, attempt: Attempt, planned: PlannedSlice) -> WriteStat:
    storage, partition = session.ctx.storage, planned.partition_path
    rows = dict(rows_in(storage.get(data_path(partition, planned.base_file))))
    file_id = f"{planned.file_id[:BUCKET_DIGITS]}-0000-4000-8000-{attempt.instant[-12:]}-0"
    name = base_file_name(file_id, 1, attempt.epoch, attempt.instant)
    path = data_path(partition, name)
    body = base_file(rows, partition, attempt.instant, name)
    put_marker(storage, attempt.instant, path, replaces=False)
    storage.put(path, body)
    return WriteStat(
        file_id=file_id, path=path, partition_path=partition, num_writes=len(rows), file_size_in_bytes=len(body)
    )


def _complete(session: Session, attempt: Attempt, slices: Sequence[PlannedSlice], written: Sequence[WriteStat]) -> None:
    replaced: dict[str, tuple[str, ...]] = {}
    for one in slices:
        replaced[one.partition_path] = (*replaced.get(one.partition_path, ()), one.file_id)
    write = CommitMetadata(operation="CLUSTER", stats=tuple(written), replaced=replaced)

    def prepare(state: TableState, slot: int) -> Entry | None:
        refuse_closed(session.ctx.storage, attempt, state)
        mine = Contender(attempt.instant, attempt.action, footprint_of(write), "service")
        refuse_completed(mine, _since_the_plan(session, attempt, state))
        completion = next_after(
            known_times(state.timeline, state.log), session.ctx.clock.now_ms(), state.config.name, state.zone
        )
        pointer = Pointer(state.log.table_id, slot, state.log.properties_slot, state.log.archive_slot)
        carried = {key: value for key, value in session.newest_extra(state).items() if key == "schema"}
        body = CommitMetadata(
            operation=write.operation,
            stats=write.stats,
            extra={**carried, POINTER_KEY: pointer.encode()},
            replaced=replaced,
        ).to_bytes()
        return Complete(
            **session.entry(state, f"complete {attempt.instant} {attempt.epoch}"),
            **observed_completions(state, completion),
            instant=attempt.instant,
            action=attempt.action,
            epoch=attempt.epoch,
            completion_time=completion,
            payload=session.put_payload(attempt.instant, slot, body),
        )

    decided = session.decide(prepare, f"execute {attempt.instant}")
    if decided is None or not decided.applied:
        raise Conflict("a writer without slots came between", instant=attempt.instant)
    session.drop_lost_payloads(attempt.instant, decided)


def _since_the_plan(session: Session, attempt: Attempt, state: TableState) -> Iterator[Contender]:
    for other in state.timeline.completed_writes:
        if other.completion_time > attempt.instant:
            metadata = session.commits.metadata(state.timeline, other)
            touched = footprint_of(metadata) if metadata is not None else None
            yield Contender(other.time, other.action, touched, stage="completed", completion_time=other.completion_time)


@dataclass(frozen=True)
class Archived:
    """An archiver's end: what it was told had left the timeline."""

    boundary: str


@dataclass(frozen=True)
class Archives:
    """Archives all completed writes but the newest ones, its history first; None when there is nothing to archive.

    Args:
        keeps: how many completed writes stay.
        is_late: it writes the history last, as nobody should.
    """

    keeps: int = 1
    is_late: bool = False

    def __call__(self, ctx: TableContext) -> Archived | None:
        """Do it, once."""
        session = Session(ctx)
        recover(session)
        timeline = session.loader.load().timeline
        if len(timeline.completed_writes) <= self.keeps:
            return None
        boundary = timeline.completed_writes[-1 - self.keeps].time
        kept = frozenset(one.time for one in timeline if one.time <= boundary)
        path = f"{HISTORY}/{boundary}"
        if not self.is_late:
            ctx.storage.put(path, json.dumps(sorted(kept)).encode())
        try:
            archive_boundary(session, boundary, HistoryFile(path, kept))
        except InvalidRequest:
            if not self.is_late:
                raise
            return None
        if self.is_late:
            ctx.storage.put(path, json.dumps(sorted(kept)).encode())
        return Archived(boundary)
