"""Plan and run index builds, which add partitions to the metadata table."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hudi_ops.commit.recover.index_builds import list_built_indexes
from hudi_ops.commit.recover.recover import finish_unfinished
from hudi_ops.commit.session import Session
from hudi_ops.config.requests import IndexRequest
from hudi_ops.engine.progress import Progress
from hudi_ops.errors import Conflict
from hudi_ops.services.base.plan import left_plan, left_plan_result, plan, preview
from hudi_ops.services.base.result import PlanResult
from hudi_ops.services.base.service import Execution
from hudi_ops.services.indexing.choose import LATER
from hudi_ops.services.indexing.drop import drop_metadata, without_partitions
from hudi_ops.services.indexing.end_builds import end_builds
from hudi_ops.services.indexing.execute import execute_indexing
from hudi_ops.services.indexing.rebuild import dropped_before, errors_name_dropped, partitions_to_rebuild
from hudi_ops.services.indexing.secondary import columns_asked, defined, with_columns
from hudi_ops.services.indexing.service import INDEXING, IndexResult
from hudi_ops.services.indexing.wanted import refuse_unbuildable, wanted_partitions
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Wanted:
    """Partitions that a call builds, and those that it drops before.

    Attributes:
        state: table once they are dropped.
        partitions: what is built.
        columns: column of each secondary index among them.
        dropped: what is dropped first.
    """

    state: TableState
    partitions: tuple[str, ...]
    columns: dict[str, str]
    dropped: tuple[str, ...]

    def request(self, request: IndexRequest) -> IndexRequest:
        """Return a request of these partitions with the options of another one."""
        names = with_columns(self.partitions, self.columns)
        return request.model_copy(update={"partitions": names, "rebuild": False})


def build_indexes(
    session: Session,
    request: IndexRequest | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> IndexResult:
    """Plan and build partitions of the metadata table; readers use them afterwards.

    Partitions to rebuild are dropped first, by a decision that names them: until the build has ended, readers do without. After a
    crash the same call goes on; so does a build without `rebuild`, which restores what was dropped. A pending plan that no process
    executes is executed first.

    Args:
        request: what is built, where files are read, and how long catch-up may take. Without partitions: those that a rebuild
            dropped and did not build, else the defaults of Apache Hudi's tables. `files` is added where it is missing.
        progress: called as files are read.

    Raises:
        InvalidRequest: an unknown partition, or one that the table cannot have.
        Unsupported: the table cannot be written.
        Busy: another build is running, a cancelled resize is being removed, the lock is held, or a foreign write is pending
            without a heartbeat.
        Conflict: another process changed the metadata table, or a foreign writer did not end in time; the plan stays.
        Cancelled: the build was cancelled, or another process took it for dead.
    """
    started_s = session.ctx.clock.monotonic_s()
    request = request or IndexRequest()
    how = Execution(request.engine, progress=progress, request=request)
    state = finish_unfinished(session)
    if list_built_indexes(session):
        state = session.loader.load()
    refuse_unbuildable(session, state)
    restored = dropped_before(state)
    done = [] if request.rebuild else _execute_left(session, how, restored)
    dropped: tuple[str, ...] = ()
    left: IndexRequest | None = request
    while left is not None:
        planned, wanted = _plan(session, session.loader.load(), left, waits=False)
        dropped += wanted.dropped
        if planned.instant is not None:
            with errors_name_dropped(session, dropped or restored):
                done.append(execute_build(session, planned.instant, how))
        left = wanted.request(request) if planned.instant is not None and LATER in planned.counts else None
    if not done:
        return IndexResult(state.config.name, None, note=planned.note, rebuilt=dropped)
    result = _joined(done)
    if restored and not request.rebuild:
        result = replace(result, note=f"restores what a rebuild dropped and did not build: {', '.join(restored)}")
    return replace(result, rebuilt=dropped, seconds=round(session.ctx.clock.monotonic_s() - started_s, 3))


def plan_build(session: Session, request: IndexRequest) -> PlanResult:
    """Publish the plan of a build, after dropping what is rebuilt.

    Raises:
        InvalidRequest: an unknown partition, or one that the table cannot have.
        Busy: a plan of one of the partitions is pending, or a foreign write without a heartbeat.
    """
    if request.resume and not request.dry_run and (left := left_plan(session, INDEXING)) is not None:
        return left_plan_result(session, INDEXING, request, left)
    return _plan(session, session.loader.load(), request)[0]


def execute_build(session: Session, instant: str | None, how: Execution) -> IndexResult:
    """Execute a plan, ours or Apache Hudi's; None: the oldest one without a live executor.

    Raises:
        Conflict: catch-up took too long, or another process changed the metadata table. The plan stays, unless the request says
            that such a build is removed.
    """
    try:
        return execute_indexing(session, instant, how)
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


def _plan(
    session: Session, state: TableState, request: IndexRequest, *, waits: bool = True
) -> tuple[PlanResult, _Wanted]:
    """Publish the plan of a request, or preview it; return it with what the request wants."""
    wanted = _wanted(session, state, request)
    if request.dry_run:
        planned = preview(session, INDEXING, wanted.request(request), wanted.state)
        first = f"drops {', '.join(wanted.dropped)} first; " if wanted.dropped else ""
        return replace(planned, note=first + planned.note), wanted
    if request.rebuild:
        session.silent.refuse(state)  # no plan could follow the drop
        if end_builds(session, None, "its partitions are built again"):
            wanted = _wanted(session, session.loader.load(), request)
        if wanted.dropped:
            drop_metadata(session, wanted.dropped, to_build=tuple(map(str, wanted.partitions)))
    with errors_name_dropped(session, wanted.dropped or dropped_before(state)), defined(session, wanted.columns):
        return plan(session, INDEXING, wanted.request(request), waits=waits), wanted


def _wanted(session: Session, state: TableState, request: IndexRequest) -> _Wanted:
    """Return what a request builds, and what it drops before.

    Raises:
        InvalidRequest: an unknown partition, one that the table cannot have, or a wrong column.
    """
    refuse_unbuildable(session, state)
    names, dropped = request.partitions, tuple[str, ...]()
    if request.rebuild:
        names, dropped = partitions_to_rebuild(session, state, names)
    elif again := dropped_before(state):
        names = tuple(sorted({*(names or ()), *again}))
    after = replace(state, config=without_partitions(state.config, dropped))
    partitions = wanted_partitions(after, names)
    return _Wanted(after, partitions, columns_asked(session, after, request.partitions, partitions), dropped)


def _execute_left(session: Session, how: Execution, restored: Sequence[str]) -> list[IndexResult]:
    """Execute pending builds without a live executor.

    `restored` are partitions that a rebuild dropped. A plan of partitions that another program built is removed.

    Raises:
        Conflict: catch-up took too long, or another process changed the metadata table.
    """
    done: list[IndexResult] = []
    while (instant := left_plan(session, INDEXING)) is not None:
        try:
            with errors_name_dropped(session, restored):
                done.append(execute_build(session, instant, how))
        except Conflict as error:
            if not error.details.get("has_built") or left_plan(session, INDEXING) == instant:
                raise
            logger.warning("%s", error)
    return done


def _joined(done: Sequence[IndexResult]) -> IndexResult:
    """Return one result for all builds of a call."""
    return replace(
        done[-1],
        partitions=tuple(name for one in done for name in one.partitions),
        files=max(one.files for one in done),
        bytes_in=sum(one.bytes_in for one in done),
        records={name: count for one in done for name, count in one.records.items()},
        groups={name: count for one in done for name, count in one.groups.items()},
        rounds=sum(one.rounds for one in done),
        doubled_keys=next((one.doubled_keys for one in reversed(done) if one.doubled_keys is not None), None),
        verdicts=dict(sum((Counter(one.verdicts) for one in done), Counter())),
        waited_for=tuple(note for one in done for note in one.waited_for),
    )
