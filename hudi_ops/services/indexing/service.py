"""Index build as a table service: fill, announce, catch up, list.

Source: RFC-45; docs/protocol §14, §18.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Never, cast

from hudi_ops.commit.decide.completion import Body
from hudi_ops.commit.recover.built_indexes import list_built_indexes
from hudi_ops.commit.recover.index_builds import withdraw_announcement
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.config.requests import IndexRequest
from hudi_ops.config.requests.indexing import TIMEOUT_S
from hudi_ops.engine.progress import Progress
from hudi_ops.engine.protocol import Engine
from hudi_ops.errors import NOTHING_LANDED, Conflict
from hudi_ops.metadata.definitions import secondary_columns, statistics_of
from hudi_ops.metadata.reader.instants import MetadataInstants, load_metadata_timeline
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.metadata.records.partitions import in_build_order, is_secondary
from hudi_ops.metadata.writer.building import Building
from hudi_ops.services.base.cost import Cost
from hudi_ops.services.base.publish import Draft
from hudi_ops.services.base.service import Run, TableService, register
from hudi_ops.services.indexing.choose import IndexChoice, choose, draft_of, empty_choice
from hudi_ops.services.indexing.dropped import dropped_indexes, unready_count, unready_indexes
from hudi_ops.services.indexing.filling import build as building
from hudi_ops.services.indexing.filling.build import Build
from hudi_ops.services.indexing.filling.catch_up import CatchUp
from hudi_ops.services.indexing.filling.diff import TableSnapshot, snapshot
from hudi_ops.services.indexing.filling.reserve import BuildReservation, clear_build, reserve_build
from hudi_ops.services.indexing.filling.resume import ResumedBuild, remove_uncounted, resumed_build
from hudi_ops.services.indexing.filling.tasks import FactReader
from hudi_ops.services.indexing.result import IndexResult
from hudi_ops.services.indexing.wanted import partition_named, refuse_unbuildable
from hudi_ops.timeline.builds.checkpoint import drop_checkpoint, drop_checkpoints
from hudi_ops.timeline.content.plan_bytes import encode_index_result
from hudi_ops.timeline.content.plans import IndexPlan
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import table_schema


@dataclass
class IndexInputs:
    """Inputs of an execution: a new build, or one that an earlier executor announced.

    Attributes:
        partitions: what is built.
        state: table when the build's instant was taken.
        seen: snapshot whose files are indexed.
        bytes_in: bytes that are read.
        reserved: the build's instant; None: the build is resumed.
        resumed: the build that an earlier executor announced.
        build: the build, once it has begun.
        catch_up: its catch-up, once it is announced.
    """

    partitions: tuple[str, ...]
    state: TableState
    seen: TableSnapshot
    bytes_in: int
    reserved: BuildReservation | None = None
    resumed: ResumedBuild | None = None
    build: Build | None = None
    catch_up: CatchUp | None = None


IndexRun = Run[IndexPlan, IndexInputs, Never, None]


class IndexBuild(TableService[IndexRequest, IndexChoice, IndexPlan, IndexInputs, Never, None, IndexResult]):
    """Build partitions of the metadata table while writers run.

    A build has no tasks: it reads files in rounds of its own.
    """

    action = "indexing"
    command = "hudi-ops index"
    plan_type = IndexPlan
    result_type = IndexResult

    def refuse_table(self, state: TableState) -> None:
        """Refuse tables that cannot be written.

        Raises:
            Unsupported: names the feature.
        """
        refuse_unwritable(state.config)

    def empty_choice(self, request: IndexRequest) -> IndexChoice:
        """Return a choice without partitions."""
        return empty_choice()

    def choose(self, session: Session, state: TableState, request: IndexRequest) -> IndexChoice:
        """Choose the partitions of the request that are neither built nor planned."""
        return choose(session, state, request)

    def draft(self, session: Session, state: TableState, choice: IndexChoice) -> Draft:
        """Return the draft, which is checked and not changed under the lock."""
        return draft_of(session, state, choice)

    def estimate(self, choice: IndexChoice, engine: Engine) -> Cost:
        """Return no cost: `explain_indexes` measures what a build reads."""
        return Cost(0, 0, 0.0, None)

    def measures(self, session: Session, state: TableState) -> Mapping[str, float | None]:
        """Return the number of indexes that readers cannot use, and that no process builds now."""
        storage = session.ctx.storage
        own = load_metadata_timeline(storage) if state.config.metadata_partitions else None
        behind = MetadataInstants(own, state.timeline, session.commits.archived).missing if own is not None else ()
        found = unready_indexes(session, state, behind, lambda instant: read_lease(storage, instant))
        return {"indexes.unready": unready_count(found)}

    def refuse_plan(self, session: Session, state: TableState, plan: IndexPlan, instant: str) -> None:
        """Refuse a plan of partitions that this library does not build, or that cannot be built now."""
        for name, _ in plan.partitions:
            partition_named(name, state.config.name)
        refuse_unbuildable(session, state)

    def inputs(self, session: Session, attempt: Attempt, plan: IndexPlan) -> IndexInputs:
        """Return the table's files, and the build's instant on the metadata table's timeline.

        Raises:
            NOTHING_LANDED: the snapshot failed; the reserved instant is removed.
        """
        wanted = {partition_named(name, attempt.begun.config.name) for name, _ in plan.partitions}
        partitions = in_build_order(wanted)
        resumed = resumed_build(session, attempt, partitions)
        if resumed is not None:
            return IndexInputs(partitions, resumed.state, resumed.seen, 0, resumed=resumed)
        withdraw_announcement(session, attempt.instant, frozenset(map(str, partitions)))
        reserved = reserve_build(session, attempt, partitions)
        try:
            seen = snapshot(session, reserved.state)
        except NOTHING_LANDED:
            clear_build(session, reserved)
            raise
        return IndexInputs(partitions, reserved.state, seen, seen.size_bytes, reserved)

    def tasks(self, run: IndexRun) -> list[Never]:
        """Return no tasks."""
        return []

    @staticmethod
    def run(task: Never) -> None:
        """Run no task."""

    def outcome(self, run: IndexRun) -> Body:
        """Fill and announce once, add what completed since, return the completed file's maker."""
        found = run.inputs
        if found.build is None:
            found.build = _build_of(run)
        build = found.build
        if not build.is_announced:
            found.catch_up = None
            if not build.announcements:
                building.fill(build)
            building.announce(build)
        if found.catch_up is None:
            limit_s = run.how.request.timeout_s if isinstance(run.how.request, IndexRequest) else TIMEOUT_S

            def pulse(progress: Progress) -> None:
                run.monitor.check()
                run.how.progress(progress)

            found.catch_up = CatchUp(build, run.session.ctx.clock.monotonic_s() + limit_s, pulse)
            found.catch_up.begin()
        found.catch_up.add()
        partitions = dict(run.plan.partitions)
        return Body(lambda state, completion: encode_index_result(partitions))

    def check_groups(self, run: IndexRun, state: TableState) -> None:
        """Complete the delta of catch-up, and refuse to complete while something is missing.

        Raises:
            Conflict: something is missing; the next round adds it.
        """
        catch_up = run.inputs.catch_up
        if catch_up is not None:
            catch_up.finish(state)
            catch_up.check(state)

    def goes_on(self, run: IndexRun, conflict: Conflict) -> bool:
        """Return whether a refused completion is tried again after one more round of catch-up."""
        return bool(conflict.details.get("behind"))

    def clear_refused(self, run: IndexRun) -> None:
        """Remove files of a build that was not announced, or uncounted records of catch-up."""
        session, found = run.session, run.inputs
        build, reserved = found.build, found.reserved
        if build is not None and build.is_announced:
            remove_uncounted(build, found.catch_up.delta if found.catch_up is not None else None)
        elif build is not None:
            clear_build(session, BuildReservation(build.instant, build.partitions, build.begun))
        elif reserved is not None:
            clear_build(session, reserved)
        began = build or reserved
        if began is not None and session.was_cancelled(session.loader.load(), began.instant):
            # The checkpoint may have been put after other processes removed it.
            drop_checkpoint(session.ctx.storage, run.attempt.instant, run.attempt.epoch)

    def settled(self, session: Session) -> None:
        """List the partitions whose build has completed."""
        list_built_indexes(session)

    def result(self, run: IndexRun) -> IndexResult:
        """Return what was built.

        Raises:
            Conflict: a foreign writer dropped a partition before it could be listed.
        """
        build = cast("Build", run.inputs.build)
        session = run.session
        for instant in (build.instant, *build.deltas):
            session.drop_name(instant)
        config = load_config(session.ctx.storage)
        names = tuple(map(str, run.inputs.partitions))
        missing = sorted({*names} - {*config.metadata_partitions})
        if missing:
            dropped = dropped_indexes(session, session.loader.load(), missing)
            raise Conflict(
                "a foreign writer changed the table before the new partitions of its metadata table could be listed",
                table=config.name,
                instant=build.attempt.instant,
                expected=", ".join(names),
                found="; ".join(f"{name} is not listed: {dropped.get(name, 'it was dropped')}" for name in missing),
                next_step="run the same call again, which builds them anew; if Apache Hudi dropped them, name them in the options "
                "of its writers first",
            )
        drop_checkpoints(session.ctx.storage, build.attempt.instant)
        return IndexResult(
            **run.result_fields,
            built_at=build.instant,
            partitions=names,
            files=len(run.inputs.seen.described),
            bytes_in=run.inputs.bytes_in,
            records=build.records,
            groups={str(partition): count for partition, count in build.groups.items()},
            rounds=build.rounds,
            verdicts=dict(Counter(build.verdicts.values())),
            doubled_keys=build.doubled_keys,
            waited_for=tuple(build.waited_for.values()),
            **build.pace.facts(session.ctx.clock.now_ms()),
        )


def _build_of(run: IndexRun) -> Build:
    """Return a new build, or the one that an earlier executor announced."""
    found, session = run.inputs, run.session
    state = found.state
    schema = table_schema(state.config, state.timeline, session.commits)
    definitions = load_index_definitions(session.ctx.storage)
    statistics = statistics_of(schema, state.config, definitions)
    began: list[Build] = []

    def tell(progress: Progress) -> None:
        for build in began:
            build.tell(progress)
            progress = replace(progress, note=build.pace_words)
        run.how.progress(progress)

    secondary = [name for name in found.partitions if is_secondary(name)]
    columns = secondary_columns(secondary, schema, state.config, definitions)
    partitions = {name: columns.get(name, "") for name in found.partitions}
    reader = FactReader(session, state, run.engine, run.monitor, tell, schema, partitions, statistics)
    instant = (
        found.resumed.checkpoint.built_at
        if found.resumed is not None
        else cast("BuildReservation", found.reserved).instant
    )
    records = Building(state.config.version, instant, statistics)
    build = Build(session, run.attempt, found.partitions, state, instant, found.seen, records, reader)
    began.append(build)
    if found.resumed is not None:
        found.resumed.continue_with(build)
    return build


INDEXING = register(IndexBuild())
"""The service."""
