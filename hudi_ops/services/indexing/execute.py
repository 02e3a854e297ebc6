"""Execute the plan of an index build: reserve, fill, announce, catch up, complete.

A build has no tasks: it reads files in rounds of its own, until no completion is missing. One that an earlier executor announced is
continued: writers have carried the partitions since, so only what completed between the last snapshot of that executor and the
announcement may be missing.

Source: RFC-45; docs/protocol §14, §18.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from hudi_ops.commit.decide.completion import Body
from hudi_ops.commit.recover.index_builds import list_built_indexes, stray_deltas, withdraw_announcement
from hudi_ops.commit.session import Session, best_effort
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.config.requests import IndexRequest
from hudi_ops.config.requests.indexing import TIMEOUT_S
from hudi_ops.engine.progress import Progress
from hudi_ops.errors import NOTHING_LANDED, Conflict, Corrupt
from hudi_ops.metadata.definitions import secondary_columns, statistics_of
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.metadata.records.partitions import FOLDER, in_build_order, is_secondary
from hudi_ops.metadata.writer.building import Building
from hudi_ops.metadata.writer.commit import undo_delta
from hudi_ops.metadata.writer.delta import MetadataDelta
from hudi_ops.services.base.engine import choose_by_bytes
from hudi_ops.services.base.execute import (
    Taken,
    begin_plan,
    complete_body,
    execute_plan,
    release_executed,
    taken_plan,
)
from hudi_ops.services.base.service import Execution
from hudi_ops.services.indexing.dropped import dropped_indexes
from hudi_ops.services.indexing.filling import build as building
from hudi_ops.services.indexing.filling.build import Build, missing_names
from hudi_ops.services.indexing.filling.catch_up import CatchUp
from hudi_ops.services.indexing.filling.diff import TableSnapshot, snapshot, without
from hudi_ops.services.indexing.filling.pace import Pace
from hudi_ops.services.indexing.filling.reserve import clear_build, reserve_build
from hudi_ops.services.indexing.filling.tasks import FactReader
from hudi_ops.services.indexing.service import INDEXING, IndexResult
from hudi_ops.services.indexing.wanted import partition_named
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.builds.announced import announced_plan
from hudi_ops.timeline.builds.checkpoint import checkpoints_of, drop_checkpoint, drop_checkpoints
from hudi_ops.timeline.completed import changing
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.plan_bytes import encode_index_result
from hudi_ops.timeline.log.entries import Complete
from hudi_ops.timeline.names import State
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import table_schema

logger = logging.getLogger(__name__)


@dataclass
class BuildRun:
    """One execution of the plan of an index build.

    Attributes:
        session: of this process.
        taken: the plan, with the lease of this executor.
        how: options of the execution.
        partitions: what is built.
        instant: instant of the build on the metadata table's timeline; empty: none is reserved yet.
        files: number of files of the first snapshot.
        bytes_in: bytes that are read; 0 for a build that an earlier executor announced.
        engine: name of the engine that reads; `engine_reason` says why it was chosen.
        build: the build, once it has begun.
        catch_up: its catch-up, once it is announced.
    """

    session: Session
    taken: Taken
    how: Execution
    partitions: tuple[str, ...]
    instant: str = ""
    files: int = 0
    bytes_in: int = 0
    engine: str = ""
    engine_reason: str = ""
    build: Build | None = None
    catch_up: CatchUp | None = None

    def tell(self, progress: Progress) -> None:
        """Tell the caller, and the build, how far reading has come."""
        if self.build is not None:
            self.build.tell(progress)
            progress = replace(progress, note=self.build.pace_words)
        self.how.progress(progress)

    def pulse(self, progress: Progress) -> None:
        """Tell the caller what catch-up waits for; stop if the build was cancelled.

        Raises:
            Cancelled: the build was cancelled, or taken over.
        """
        self.taken.monitor.check()
        self.how.progress(progress)


def execute_indexing(session: Session, instant: str | None, how: Execution) -> IndexResult:
    """Execute a plan, ours or Apache Hudi's; raise as `execute_plan` does."""
    result: IndexResult = execute_plan(session, INDEXING, instant, how, partial(_execute, session, how))
    return result


def _execute(session: Session, how: Execution, attempt: Attempt) -> IndexResult | None:
    """Execute a plan that was taken over; return None if a foreign writer completed it first.

    Raises:
        NOTHING_LANDED: the build was refused; what it put and no reader uses is removed.
    """
    with taken_plan(session, attempt) as taken:
        plan = begin_plan(session, INDEXING, attempt)
        names = {partition_named(name, attempt.begun.config.name) for name, _ in plan.partitions}
        run = BuildRun(session, taken, how, in_build_order(names))
        try:
            build = run.build = _begin(run)
            entry = _build_up(run, build, dict(plan.partitions))
        except NOTHING_LANDED:
            with best_effort(attempt.instant):
                _clear(run)
            raise
    release_executed(session, attempt, (), list_built_indexes)
    return _result(run, build, entry) if entry is not None else None


def _begin(run: BuildRun) -> Build:
    """Return a new build at its own instant, or the one that an earlier executor announced."""
    session, attempt = run.session, run.taken.attempt
    resumed = _resumed_build(run)
    if resumed is not None:
        return resumed
    withdraw_announcement(session, attempt.instant, frozenset(map(str, run.partitions)))
    run.instant, state = reserve_build(session, attempt, run.partitions)
    seen = snapshot(session, state)
    run.bytes_in = seen.size_bytes
    return _build_at(run, run.instant, state, seen)


def _build_at(run: BuildRun, instant: str, state: TableState, seen: TableSnapshot) -> Build:
    """Return a build at an instant of the metadata table, of the files of a snapshot."""
    session = run.session
    engine, run.engine_reason = choose_by_bytes(run.how.engine, run.bytes_in, session.ctx.engine, "to read")
    schema = table_schema(state.config, state.timeline, session.commits)
    definitions = load_index_definitions(session.ctx.storage)
    statistics = statistics_of(schema, state.config, definitions)
    columns = secondary_columns([*filter(is_secondary, run.partitions)], schema, state.config, definitions)
    partitions = {name: columns.get(name, "") for name in run.partitions}
    reader = FactReader(session, state, engine, run.taken.monitor, run.tell, schema, partitions, statistics)
    records = Building(state.config.version, instant, statistics)
    run.instant, run.engine, run.files = instant, engine.name, len(seen.described)
    return Build(session, run.taken.attempt, run.partitions, state, instant, seen, records, reader)


def _build_up(run: BuildRun, build: Build, planned: Mapping[str, str]) -> Complete | None:
    """Fill and announce once, then add what completed since, until the build completes.

    Returns None if a foreign writer completed the plan.

    Raises:
        Conflict: another process changed the metadata table, or catch-up took too long.
    """
    session, request = run.session, run.how.request
    limit_s = request.timeout_s if isinstance(request, IndexRequest) else TIMEOUT_S
    body = Body(lambda state, completion: encode_index_result(planned))
    while True:
        if not build.is_announced:
            run.catch_up = None
            if not build.announcements:
                building.fill(build)
            building.announce(build)
        if run.catch_up is None:
            run.catch_up = CatchUp(build, session.ctx.clock.monotonic_s() + limit_s, run.pulse)
            run.catch_up.begin()
        run.catch_up.add()
        check = partial(_finish, run.catch_up)
        try:
            return run.taken.decide(partial(complete_body, session, build.attempt, body, check))
        except Conflict as conflict:
            if not conflict.details.get("behind"):
                raise


def _finish(catch_up: CatchUp, state: TableState) -> None:
    """Complete the delta of catch-up, and refuse to complete while something is missing.

    Raises:
        Conflict: something is missing; the next round adds it.
    """
    catch_up.finish(state)
    catch_up.check(state)


def _clear(run: BuildRun) -> None:
    """Remove files of a build that was not announced, or uncounted records of catch-up."""
    session, build, attempt = run.session, run.build, run.taken.attempt
    if not run.instant:
        return
    if build is not None and build.is_announced:
        _remove_uncounted(build, run.catch_up.delta if run.catch_up is not None else None)
    else:
        clear_build(session, attempt, run.instant, build.partitions if build is not None else run.partitions)
    if session.was_cancelled(session.loader.load(), run.instant):
        # The checkpoint may have been put after other processes removed it.
        drop_checkpoint(session.ctx.storage, attempt.instant, attempt.epoch)


def _result(run: BuildRun, build: Build, entry: Complete) -> IndexResult:
    """Return what was built.

    Raises:
        Conflict: a foreign writer dropped a partition before it could be listed.
    """
    session, attempt = run.session, build.attempt
    for instant in (build.instant, *build.deltas):
        session.drop_name(instant)
    config = load_config(session.ctx.storage)
    names = tuple(map(str, run.partitions))
    missing = sorted({*names} - {*config.metadata_partitions})
    if missing:
        dropped = dropped_indexes(session, session.loader.load(), missing)
        raise Conflict(
            "a foreign writer changed the table before the new partitions of its metadata table could be listed",
            table=config.name,
            instant=attempt.instant,
            expected=", ".join(names),
            found="; ".join(f"{name} is not listed: {dropped.get(name, 'it was dropped')}" for name in missing),
            next_step="run the same call again, which builds them anew; if Apache Hudi dropped them, name them in the options "
            "of its writers first",
        )
    drop_checkpoints(session.ctx.storage, attempt.instant)
    return IndexResult(
        table=attempt.begun.config.name,
        instant=attempt.instant,
        completion_time=entry.completion_time,
        engine=run.engine,
        engine_reason=run.engine_reason,
        epoch=attempt.epoch,
        built_at=build.instant,
        partitions=names,
        files=run.files,
        bytes_in=run.bytes_in,
        records=build.records,
        groups={str(partition): count for partition, count in build.groups.items()},
        rounds=build.rounds,
        verdicts=dict(Counter(build.verdicts.values())),
        doubled_keys=build.doubled_keys,
        waited_for=tuple(build.waited_for.values()),
        **build.pace.facts(session.ctx.clock.now_ms()),
    )


def _resumed_build(run: BuildRun) -> Build | None:
    """Return the build of the plan that an earlier executor announced, with its progress.

    None: it is built from the start.

    Raises:
        Corrupt: a checkpoint of the plan cannot be read.
    """
    session, attempt, partitions = run.session, run.taken.attempt, run.partitions
    storage = session.ctx.storage
    state = session.loader.load()
    entry = announced_plan(storage, state.log, partitions)
    if entry is None or entry.plan != attempt.instant or missing_names(frozenset(map(str, partitions)), state):
        return None
    checkpoints = [one for one in checkpoints_of(storage, attempt.instant) if one.built_at == entry.built_at]
    own = load_metadata_timeline(storage)
    built = own.find(entry.built_at)
    if not checkpoints or built is None or not built.is_completed:
        return None
    last = checkpoints[-1]
    # The executor may have died after its delta was complete, and before its next checkpoint.
    is_newer = bool(last.deltas) and _is_whole(storage, own, last.deltas[-1])
    began = _as_of(state, last.looked_at_last if is_newer else last.looked_at)
    if began is None:
        logger.warning("%s is built from the start: a write that it covers was undone", ", ".join(partitions))
        return None
    # Completed deltas stay: their completions are added once more, above them.
    pending = [one for one in last.deltas if (found := own.find(one)) is not None and not found.is_completed]
    undo_delta(storage, [*pending, *stray_deltas(session, entry.built_at)])
    try:
        seen = snapshot(session, began)
    except (Conflict, Corrupt) as error:
        logger.warning("%s is built from the start: %s", ", ".join(partitions), error.what)
        return None
    build = _build_at(run, last.built_at, began, seen)
    build.groups, build.records = dict(last.groups), dict(last.records)
    build.rounds, build.defined, build.deltas = last.rounds, last.defined, last.deltas
    build.doubled_keys, build.covered = entry.doubled_keys, seen.completed
    build.pace = Pace(built.completion_time, began.zone, last.catch_up_per_s)
    build.is_announced = True
    return build


def _remove_uncounted(build: Build, pending: MetadataDelta | None) -> None:
    """Remove records of catch-up that do not count, after an execution that did not complete.

    An executor that slept may put files of a delta that its successor has undone, and complete it without its requested file.
    """
    session = build.session
    own = load_metadata_timeline(session.ctx.storage)
    completed = {one.time for one in own if one.is_completed} & {*build.deltas}
    uncounted = {time for time in completed if not _is_whole(session.ctx.storage, own, time)}
    if pending is not None:
        uncounted.add(pending.instant)
    if session.was_cancelled(session.loader.load(), build.instant):
        # The metadata table of these empty delta commits is gone. In a newer one they would stand for all writes since.
        uncounted |= {*build.recorded}
    undo_delta(session.ctx.storage, uncounted, also_vanished=True)
    for time in sorted(uncounted):
        session.drop_name(time)


def _is_whole(storage: Storage, own: Timeline, delta: str) -> bool:
    """Return whether a delta of catch-up is complete and has its files.

    An executor that slept may complete one whose files its successor has removed.
    """
    found = own.find(delta)
    if found is None or not found.is_completed or State.REQUESTED not in found.states:
        return False
    path = own.path(found.file_name)
    stats = CommitMetadata.from_bytes(storage.get(path), path).stats
    return all(storage.head(f"{FOLDER}/{stat.path}") is not None for stat in stats)


def _as_of(state: TableState, covered: Collection[str]) -> TableState | None:
    """Return the table with some completed files alone; None: one of them was undone."""
    now = {one.file_name for one in changing(state.timeline)}
    if any(name.split("_")[0] >= state.timeline.start for name in {*covered} - now):
        return None
    return without(state, {one for one in changing(state.timeline) if one.file_name not in covered})
