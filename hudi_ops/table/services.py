"""Offer table services to users: plan, explain, execute, run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from hudi_ops.commit.session import Session
from hudi_ops.config.requests import (
    ArchiveRequest,
    CleanRequest,
    ClusteringRequest,
    CompactionRequest,
    ResizeRequest,
    merged,
)
from hudi_ops.engine.progress import Progress
from hudi_ops.errors import Cancelled, Conflict, InvalidRequest
from hudi_ops.services.archive.measure import timeline_ratio
from hudi_ops.services.archive.result import ArchiveResult
from hudi_ops.services.archive.run import archive, explain
from hudi_ops.services.base.execute import execute, plan_and_execute
from hudi_ops.services.base.plan import left_plan, left_plan_result, plan, preview
from hudi_ops.services.base.result import PlanResult, ServiceResult
from hudi_ops.services.base.service import Execution
from hudi_ops.services.clean.result import CleanOutcome
from hudi_ops.services.clean.service import CLEAN
from hudi_ops.services.clustering.service import CLUSTERING, ClusterResult
from hudi_ops.services.compaction.service import COMPACTION, CompactResult
from hudi_ops.services.resize.service import RESIZE, ResizeResult
from hudi_ops.services.write.automatic import kept_by_archive, recorded_services
from hudi_ops.table.argument_types import checks_types

NOTHING_COMPLETED = "nothing completed here"
"""Begin of the note on an execution that lost a race."""


class ServiceRequest(Protocol):
    """Fields that the request of every planned service has."""

    @property
    def instant(self) -> str | None:
        """Return the plan to execute; None: the oldest one without a live executor."""
        ...

    @property
    def engine(self) -> str:
        """Return the name of the engine."""
        ...

    @property
    def memory_bytes(self) -> int | None:
        """Return the memory of one task."""
        ...

    @property
    def abandoned(self) -> bool:
        """Return whether a foreign executor has ended."""
        ...

    @property
    def dry_run(self) -> bool:
        """Return whether nothing is changed."""
        ...

    @property
    def resume(self) -> bool:
        """Return whether a pending plan comes first."""
        ...


Q = TypeVar("Q", bound=ServiceRequest)
R = TypeVar("R", bound=ServiceResult)


@checks_types
class ServiceApi(Generic[Q, R]):
    """Plans and executes one table service.

    Each method takes a request, or its fields as keywords, or both.

    A subclass names the service and the class of its requests.
    """

    service: ClassVar[Any]
    request_type: ClassVar[type[Any]]

    def __init__(self, session: Session) -> None:
        self._session = session

    def plan(self, request: Q | None = None, **keywords: Any) -> PlanResult:
        """Publish a plan; ingestion goes on while it waits and while it is executed.

        Args:
            request: what is planned; `dry_run` changes nothing, `resume` returns a pending plan without a live executor, if any.
            keywords: fields of the request.

        Raises:
            InvalidRequest: a wrong request, or a table that the service has no work on.
            Unsupported: the table cannot be written, or the service cannot work on any due candidate.
            Conflict: other processes took the chosen candidates, again and again.
        """
        return self._plan(self._merged(request, keywords))

    def explain(self, request: Q | None = None, **keywords: Any) -> PlanResult:
        """Return the reason for and against each file group, as `plan` with `dry_run`."""
        return self.plan(request, **{**keywords, "dry_run": True})

    def execute(
        self,
        request: Q | None = None,
        *,
        progress: Callable[[Progress], None] = lambda progress: None,
        **keywords: Any,
    ) -> R:
        """Execute a plan, ours or Apache Hudi's.

        After a failure the same call continues; after success it changes nothing.

        Args:
            request: names the plan by `instant`; else the oldest plan without a live executor.
            progress: called after each task.
            keywords: fields of the request.

        Raises:
            InvalidRequest: there is no such plan, or Apache Hudi began it and `abandoned` is not set.
            Unsupported: the table cannot be written.
            Busy: another process executes it.
            Cancelled: it was cancelled, or taken over by another process.
            Conflict: it cannot be completed; the plan stays.
            Corrupt: a file of it is damaged or gone; the plan stays.
        """
        wanted = self._executable(request, keywords)
        return self._execute(wanted, _how(wanted, progress))

    def run(
        self,
        request: Q | None = None,
        *,
        progress: Callable[[Progress], None] = lambda progress: None,
        **keywords: Any,
    ) -> R:
        """Execute a pending plan without a live executor, or make a plan and execute it.

        Args:
            request: what is planned, and how it is executed; with `instant` that plan is executed, and none is made.
            progress: called after each task.
            keywords: fields of the request.

        Raises:
            InvalidRequest: a wrong request, or a table that the service has no work on.
            Unsupported: the table cannot be written, or the service cannot work on it; a plan of this call is cancelled.
            Busy: another process executes the plan.
            Cancelled: it was cancelled, or taken over by another process.
            Conflict: it cannot be completed; the plan stays.
            Corrupt: a file of it is damaged or gone; the plan stays.
        """
        wanted = self._executable(request, keywords)
        return self._run(wanted, _how(wanted, progress))

    def lost(self, error: Cancelled | Conflict) -> R:
        """Return the result of an execution that lost a race; `note` says who won.

        It changed nothing. Overlapping writes, a plan of higher priority, or another executor ended the work. Whichever process
        notices it first, the execution ends like one that finds no work.

        Args:
            error: raised by `run` or `execute`.

        Raises:
            Cancelled: the given error, where the plan was cancelled on request, or by its age.
            Conflict: the given error, where the plan stays.
        """
        if error.details.get("cause") not in {"ingestion", "priority", "completed"} and not error.details.get(
            "taken_over"
        ):
            raise error
        note = f"{NOTHING_COMPLETED}: {error.what}; {error.next_step}"
        done: Any = self.service.result_type(error.table, error.instant or None, note=note)
        lost: R = done
        return lost

    def _plan(self, wanted: Q) -> PlanResult:
        if wanted.dry_run:
            return preview(self._session, self.service, wanted)
        if wanted.resume and (left := left_plan(self._session, self.service)) is not None:
            return left_plan_result(self._session, self.service, wanted, left)
        return plan(self._session, self.service, wanted)

    def _execute(self, wanted: Q, how: Execution) -> R:
        done: R = execute(self._session, self.service, wanted.instant, how)
        return done

    def _run(self, wanted: Q, how: Execution) -> R:
        done: R = plan_and_execute(self._session, self.service, wanted, how, wanted.instant)
        return done

    def _merged(self, request: Q | None, keywords: dict[str, Any]) -> Q:
        wanted: Q = merged(self.request_type, request, keywords)
        return wanted

    def _executable(self, request: Q | None, keywords: dict[str, Any]) -> Q:
        """Return a request that is executed.

        Raises:
            InvalidRequest: `dry_run` is set.
        """
        wanted = self._merged(request, keywords)
        if wanted.dry_run:
            raise InvalidRequest(
                "dry_run shows a plan, and executes none",
                expected="dry_run with plan",
                found="dry_run with an execution",
                next_step="call plan(dry_run=True), or explain()",
            )
        return wanted


def _how(request: ServiceRequest, progress: Callable[[Progress], None]) -> Execution:
    return Execution(request.engine, request.memory_bytes, request.abandoned, progress, request)


class CompactionApi(ServiceApi[CompactionRequest, CompactResult]):
    """Plans and executes compactions."""

    service = COMPACTION
    request_type = CompactionRequest


class ClusteringApi(ServiceApi[ClusteringRequest, ClusterResult]):
    """Plans and executes clusterings."""

    service = CLUSTERING
    request_type = ClusteringRequest


class ResizeApi(ServiceApi[ResizeRequest, ResizeResult]):
    """Plans and executes resizes."""

    service = RESIZE
    request_type = ResizeRequest


@checks_types
class CleanApi(ServiceApi[CleanRequest, CleanOutcome]):
    """Plans and executes cleans."""

    service = CLEAN
    request_type = CleanRequest

    def _merged(self, request: CleanRequest | None, keywords: dict[str, Any]) -> CleanRequest:
        settings = self._session.upkeep.upon(recorded_services(self._session))
        return settings.clean.completed(super()._merged(request, keywords))

    def explain(self, request: CleanRequest | None = None, **keywords: Any) -> PlanResult:
        """Return the reason for and against each file of the table, or of `files`; change nothing.

        Args:
            request: the policy; `files` names some files by path or pattern.
            keywords: fields of the request.

        Raises:
            InvalidRequest: a wrong request.
            Unsupported: the table cannot be cleaned.
        """
        return self.plan(request, **{**keywords, "dry_run": True, "full": True})


@checks_types
class ArchiveApi:
    """Moves old instants from the timeline into the history.

    Each method takes a request, or its fields as keywords, or both.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def run(self, request: ArchiveRequest | None = None, **keywords: Any) -> ArchiveResult:
        """Archive down to `keep_min` completed writes, once there are more than `keep_max`.

        After a failure the same call continues.

        Args:
            request: how many writes stay; a dry run changes nothing.
            keywords: fields of the request.

        Raises:
            InvalidRequest: a wrong number, or `keep_min` above `keep_max`.
            Unsupported: the table cannot be written, or its timeline has another layout.
            Busy: the lock was not free in time.
            Conflict: others changed the timeline again and again.
            Corrupt: the history is damaged; nothing was archived.
        """
        done = archive(self._session, self._merged(request, keywords))
        return self._measured(done) if done.dry_run else done

    def explain(self, request: ArchiveRequest | None = None, **keywords: Any) -> ArchiveResult:
        """Return for each instant why it stays on the timeline, or that it can be archived.

        It is the same as `run` with `dry_run`.
        """
        return self._measured(explain(self._session, self._merged(request, keywords)))

    def _measured(self, done: ArchiveResult) -> ArchiveResult:
        """Return a result with the measures of the table's health, by the table's own settings."""
        state = self._session.loader.load()
        settings = self._session.upkeep.upon(recorded_services(self._session, state.log))
        _, most = kept_by_archive(state, settings, self._session.ctx.clock.now_ms())
        return replace(done, measures={"timeline.ratio": timeline_ratio(state.timeline, most)})

    def _merged(self, request: ArchiveRequest | None, keywords: dict[str, Any]) -> ArchiveRequest:
        settings = self._session.upkeep.upon(recorded_services(self._session))
        return settings.archive.completed(merged(ArchiveRequest, request, keywords))
