"""Build partitions of the metadata table in one call, after dropping what is rebuilt."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hudi_ops.commit.recover.built_indexes import list_built_indexes
from hudi_ops.commit.recover.recover import finish_unfinished
from hudi_ops.commit.session import Session
from hudi_ops.config.requests import IndexRequest, checked_engine
from hudi_ops.engine.progress import Progress
from hudi_ops.errors import Conflict, HudiOpsError
from hudi_ops.services.base.engine import choose_by_bytes
from hudi_ops.services.base.execute import execute
from hudi_ops.services.base.plan import left_plan, left_plan_result, plan, preview
from hudi_ops.services.base.result import PlanResult, Result
from hudi_ops.services.base.service import Execution
from hudi_ops.services.indexing.choose import in_steps
from hudi_ops.services.indexing.drop import drop_metadata, without_partitions
from hudi_ops.services.indexing.end_builds import end_builds
from hudi_ops.services.indexing.filling.diff import snapshot
from hudi_ops.services.indexing.rebuild import dropped_before, partitions_to_rebuild, say_dropped
from hudi_ops.services.indexing.result import IndexResult
from hudi_ops.services.indexing.secondary import columns_asked, defined, with_columns
from hudi_ops.services.indexing.service import INDEXING
from hudi_ops.services.indexing.wanted import refuse_unbuildable, wanted_partitions
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class BuildResult(Result):
    """Result of a build, or of its dry run.

    `instant` is that of the build on the metadata table's timeline, `plan` that of its plan. `partitions` are the added ones,
    `again` those that were dropped and rebuilt. `rounds` counts the rounds with new completions.
    `records` counts the records of the first base files, by partition; `bytes_in` is the size of the table's files that were read.
    If a record index was built, `doubled_keys` counts the record keys in more than one file group: the index names one of the
    groups, and reads do not rely on it. `verdicts`, `waited_for` and the rates are those of `IndexResult`; of several builds in one
    call the rates are the last one's.
    """

    table: str
    instant: str | None
    partitions: tuple[str, ...]
    files: int = 0
    bytes_in: int = 0
    records: dict[str, int] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    rounds: int = 0
    engine: str = ""
    engine_reason: str = ""
    seconds: float = 0.0
    dry_run: bool = False
    note: str = ""
    again: tuple[str, ...] = ()
    doubled_keys: int | None = None
    plan: str = ""
    verdicts: dict[str, int] = field(default_factory=dict)
    catch_up_per_s: float | None = None
    ingest_per_s: float | None = None
    waited_for: tuple[str, ...] = ()


def build_metadata(
    session: Session,
    partitions: Sequence[str] | None = None,
    *,
    engine: str = "auto",
    progress: Callable[[Progress], None] = lambda progress: None,
    dry_run: bool = False,
    rebuild: bool = False,
    request: IndexRequest | None = None,
) -> BuildResult:
    """Plan and build partitions of the metadata table; readers use them afterwards.

    Partitions to rebuild are dropped first, by a decision that names them: until the build has ended, readers do without. After a
    crash the same call goes on; so does a build without `rebuild`, which restores what was dropped. A pending plan that no process
    executes is executed first.

    Args:
        partitions: names; None: those that a rebuild dropped and did not build, else the defaults of Apache Hudi's tables. `files`
            and what a rebuild dropped are added where they are missing.
        engine: `auto`, `local` or `spark`: reads the files.
        dry_run: return the result that a build would have; change nothing.
        rebuild: rebuild existing partitions; with `partitions` None all of them.
        request: says how long catch-up may take, and what happens then; None: the defaults.

    Raises:
        InvalidRequest: an unknown partition, or one that the table cannot have.
        Unsupported: the table cannot be written.
        Busy: another build is running, a cancelled resize is being removed, the lock is held, or a foreign write is pending
            without a heartbeat.
        Conflict: another process changed the metadata table, or a foreign writer did not end in time; the plan stays.
        Cancelled: the build was cancelled, or another process took it for dead.
    """
    checked_engine(engine)
    started_s = session.ctx.clock.monotonic_s()
    state = session.loader.load() if dry_run else _ready(session)
    refuse_unbuildable(session, state)
    how = Execution(engine, progress=progress, request=request)
    restored = dropped_before(state)
    left: tuple[IndexResult, ...] = ()
    if not dry_run:
        if rebuild:
            session.silent.refuse(state)  # no plan could follow the drop
            end_builds(session, None, "its partitions are built again")
        else:
            left = _execute_left(session, how, restored)
        state = session.loader.load()
    dropped: tuple[str, ...] = ()
    again, asked = dropped_before(state), partitions
    if rebuild:
        partitions, dropped = partitions_to_rebuild(session, state, partitions)
    elif again:
        partitions = tuple(sorted({*(partitions or ()), *again}))
    after = replace(state, config=without_partitions(state.config, dropped))
    wanted = wanted_partitions(after, partitions)
    columns = columns_asked(session, after, asked, wanted)  # refuses wrong columns before anything is dropped
    if dry_run:
        return _preview(session, state, engine, tuple(map(str, wanted)), dropped)
    done = left
    if wanted:
        session.loader.seed()
        gone = dropped or again
        if dropped:
            drop_metadata(session, dropped, to_build=tuple(map(str, wanted)))
        try:
            with defined(session, after, asked, wanted):
                for step in in_steps(session, state, wanted):
                    done += (_plan_and_execute(session, with_columns(step, columns), how),)
        except HudiOpsError as error:
            raise (say_dropped(session, error, gone) if gone else error) from error
    result = _result(state, done, dropped)
    if restored and done and not rebuild:
        result = replace(result, note=f"restores what a rebuild dropped and did not build: {', '.join(restored)}")
    return replace(result, seconds=round(session.ctx.clock.monotonic_s() - started_s, 3))


def _ready(session: Session) -> TableState:
    """Finish decided instants and completed builds; return the state after it."""
    state = finish_unfinished(session)
    return session.loader.load() if list_built_indexes(session) else state


def _execute_left(session: Session, how: Execution, restored: Sequence[str]) -> tuple[IndexResult, ...]:
    """Execute pending builds without a live executor.

    `restored` are partitions that a rebuild dropped. A plan of partitions that another program built is removed.

    Raises:
        Conflict: catch-up took too long, or another process changed the metadata table.
    """
    done: list[IndexResult] = []
    try:
        while (instant := left_plan(session, INDEXING)) is not None:
            try:
                done.append(execute_build(session, instant, how))
            except Conflict as error:
                if not error.details.get("has_built") or left_plan(session, INDEXING) == instant:
                    raise
                logger.warning("%s", error)
    except HudiOpsError as error:
        raise (say_dropped(session, error, restored) if restored else error) from error
    return tuple(done)


def _plan_and_execute(session: Session, wanted: tuple[str, ...], how: Execution) -> IndexResult:
    """Plan a build of partitions, and execute it.

    Raises:
        Conflict: another process has built them.
    """
    planned = plan(session, INDEXING, IndexRequest(partitions=wanted), waits=False)
    if planned.instant is None:
        raise Conflict(
            f"another process has built {', '.join(wanted)}",
            table=planned.table,
            expected=f"a metadata table without {', '.join(wanted)}",
            found=planned.note,
            next_step="run the same call again to build the others",
        )
    return execute_build(session, planned.instant, how)


def execute_build(session: Session, instant: str | None, how: Execution) -> IndexResult:
    """Execute a plan, ours or Apache Hudi's; None: the oldest one without a live executor.

    Raises:
        Conflict: catch-up took too long, or another process changed the metadata table. The plan stays, unless the request says
            that such a build is removed.
    """
    try:
        done: IndexResult = execute(session, INDEXING, instant, how)
    except Conflict as error:
        is_aborted = isinstance(how.request, IndexRequest) and how.request.on_timeout == "abort"
        if error.details.get("timed_out") and is_aborted and error.instant:
            end_builds(session, None, "catch-up took too long", only=error.instant)
            error.what += "; the build was removed"
            error.next_step = "build the index again at a quieter time, or with a longer --timeout"
        # No retry can build these partitions, and as long as it is pending the plan would keep every later plan from them.
        if error.details.get("has_built") and end_builds(session, None, error.what, only=error.instant or ""):
            error.what += "; the plan was removed"
        raise
    return done


def plan_build(session: Session, request: IndexRequest) -> PlanResult:
    """Publish the plan of a build, after dropping what is rebuilt.

    Raises:
        InvalidRequest: an unknown partition, or one that the table cannot have.
        Busy: a plan of one of the partitions is pending, or a foreign write without a heartbeat.
    """
    if request.resume and (left := left_plan(session, INDEXING)) is not None:
        return left_plan_result(session, INDEXING, request, left)
    state = session.loader.load()
    if not request.rebuild:
        wanted = wanted_partitions(state, request.partitions)
        if request.dry_run:
            columns_asked(session, state, request.partitions, wanted)
            return preview(session, INDEXING, request)
        with defined(session, state, request.partitions, wanted):
            return plan(session, INDEXING, request)
    names, dropped = partitions_to_rebuild(session, state, request.partitions)
    if request.dry_run:
        state = replace(state, config=without_partitions(state.config, dropped))
        return preview(session, INDEXING, request.model_copy(update={"partitions": names}), state)
    after = replace(state, config=without_partitions(state.config, dropped))
    wanted = wanted_partitions(after, names)
    # Refuses wrong columns before a build is cancelled or a partition dropped.
    columns = columns_asked(session, after, request.partitions, wanted)
    session.silent.refuse(state)
    end_builds(session, None, "its partitions are built again")
    if dropped:
        drop_metadata(session, dropped, to_build=tuple(map(str, wanted)))
    try:
        with defined(session, after, request.partitions, wanted):
            return plan(session, INDEXING, request.model_copy(update={"partitions": with_columns(wanted, columns)}))
    except HudiOpsError as error:
        raise (say_dropped(session, error, dropped) if dropped else error) from error


def _preview(
    session: Session, state: TableState, engine: str, wanted: tuple[str, ...], dropped: tuple[str, ...]
) -> BuildResult:
    if not wanted:
        return replace(_result(state, (), ()), dry_run=True)
    first = snapshot(session, state)
    chosen = choose_by_bytes(engine, first.size_bytes, session.ctx.engine, "to read")
    return BuildResult(
        state.config.name,
        None,
        wanted,
        files=len(first.described),
        bytes_in=first.size_bytes,
        engine=chosen[0].name,
        engine_reason=chosen[1],
        dry_run=True,
        again=dropped,
    )


def _result(state: TableState, done: Sequence[IndexResult], dropped: tuple[str, ...]) -> BuildResult:
    """Return one result for all builds of a call."""
    if not done:
        note = f"nothing to build, {', '.join(state.config.metadata_partitions)} exist; --rebuild rebuilds them"
        return BuildResult(state.config.name, None, (), note=note)
    last = done[-1]
    return BuildResult(
        state.config.name,
        last.built_at or None,
        tuple(name for one in done for name in one.partitions),
        files=max(one.files for one in done),
        bytes_in=sum(one.bytes_in for one in done),
        records={name: count for one in done for name, count in one.records.items()},
        groups={name: count for one in done for name, count in one.groups.items()},
        rounds=sum(one.rounds for one in done),
        engine=last.engine,
        engine_reason=last.engine_reason,
        again=dropped,
        doubled_keys=last.doubled_keys,
        plan=last.instant or "",
        verdicts=dict(sum((Counter(one.verdicts) for one in done), Counter())),
        catch_up_per_s=last.catch_up_per_s,
        ingest_per_s=last.ingest_per_s,
        waited_for=tuple(note for one in done for note in one.waited_for),
    )
