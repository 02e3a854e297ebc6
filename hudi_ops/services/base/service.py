"""Interface of a table service that `plan.py` and `execute.py` call; the registry of kinds.

A new kind subclasses `TableService` and registers one instance. The base publishes its plans, finds them, takes them over, keeps
the lease, runs the tasks and completes or releases the plan. Source: docs/protocol §14.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa

from hudi_ops.commit.decide.completion import Body
from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.conflicts import Role
from hudi_ops.config.requests import checked_engine
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.progress import Progress
from hudi_ops.engine.protocol import Engine
from hudi_ops.services.base.choice import Choice, Sized
from hudi_ops.services.base.cost import Cost
from hudi_ops.services.base.publish import Draft
from hudi_ops.services.base.result import EndedPlans, ServiceResult
from hudi_ops.timeline.content.plans import FilesByPartition
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.entries import Complete
from hudi_ops.timeline.names import completes_as
from hudi_ops.timeline.state import TableState

EXECUTOR_TASK_BYTES = 1 << 30
"""Memory that one task may take on an executor unless the caller says otherwise."""


Request = TypeVar("Request")
Chosen = TypeVar("Chosen", bound=Choice)
Plan = TypeVar("Plan")
Inputs = TypeVar("Inputs", bound=Sized)
Task = TypeVar("Task", bound=Sized)
Outcome = TypeVar("Outcome")
Result = TypeVar("Result", bound=ServiceResult)


def named(check: str, values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return measures with the name of their check before that of the target."""
    return {f"{check}.{name}": value for name, value in values.items()}


@dataclass(frozen=True)
class Execution:
    """Options of an execution.

    Attributes:
        engine: `auto`, `local` or `spark`.
        memory_bytes: memory that one task may take; None: derived from this process's memory.
        abandoned: the caller states that the foreign executor, which leaves no heartbeat, has ended.
        progress: called after each task.
        request: of the caller, for options of one service alone; None: their defaults.
    """

    engine: str = "auto"
    memory_bytes: int | None = None
    abandoned: bool = False
    progress: Callable[[Progress], None] = lambda progress: None
    request: Any = None

    def __post_init__(self) -> None:
        checked_engine(self.engine)

    def task_bytes(self, engine: Engine) -> int:
        """Return the memory that one task may take on an engine, in bytes."""
        if self.memory_bytes is not None:
            return self.memory_bytes
        return engine.memory_bytes // engine.threads if isinstance(engine, LocalEngine) else EXECUTOR_TASK_BYTES


@dataclass
class Run(Generic[Plan, Inputs, Task, Outcome]):
    """One execution of a plan, filled in step by step.

    Attributes:
        session: the table.
        attempt: the executor's instant, epoch and first state.
        plan: content of the requested file.
        inputs: result of `TableService.inputs`.
        engine: runs the tasks; `engine_reason` says why it was chosen.
        task_bytes: memory that one task may take.
        tasks: result of `TableService.tasks`.
        done: outcomes in the order of `tasks`.
        left_out: tasks that other writes touched; they are not among `tasks` any more.
        removed: files that other writes made for left-out tasks and that their commits name, by partition path. They are removed
            from the metadata table.
        entry: the COMPLETE that decided the instant.
        seconds: time since this process took the plan over.
        arrow_bytes_before: highest Arrow allocation of this process before the run; a higher one afterwards is the run's.
    """

    session: Session
    attempt: Attempt
    plan: Plan
    inputs: Inputs
    engine: Engine
    engine_reason: str
    task_bytes: int
    arrow_bytes_before: int
    tasks: Sequence[Task] = ()
    done: Sequence[Outcome] = ()
    left_out: Sequence[Task] = ()
    removed: FilesByPartition = field(default_factory=dict)
    entry: Complete = field(init=False)
    seconds: float = 0.0

    @property
    def result_fields(self) -> dict[str, Any]:
        """Return the fields that results of all kinds have in common."""
        return {
            "table": self.attempt.begun.config.name,
            "instant": self.attempt.instant,
            "completion_time": self.entry.completion_time,
            "engine": self.engine.name,
            "engine_reason": self.engine_reason,
            "epoch": self.attempt.epoch,
        }

    def cost(self, bytes_in: int, bytes_out: int) -> Cost:
        """Return the measured cost.

        The memory is known only where the tasks ran in this process and took more than anything before.
        """
        peak_bytes = pa.default_memory_pool().max_memory()
        is_seen = self.engine.name == "local" and peak_bytes > self.arrow_bytes_before
        return Cost(bytes_in, bytes_out, round(self.seconds, 3), peak_bytes if is_seen else None)


class PlannedService(ABC, Generic[Request, Chosen, Plan]):
    """One kind of plan: how it is chosen, published and found again.

    A service whose plans are executed by tasks is a `TableService`. One with an execution of its own calls
    `services.base.execute.execute_plan`, and its plans are taken over and released like all others.

    Attributes:
        action: word of its pending instants, for example `compaction`. Several kinds may share it.
        name: word of the kind, for messages and the registry; by default the action.
        command: how a user runs it, for messages.
        plan_type: class of its decoded plan.
        result_type: class of its result; made with table, instant, completion time and note alone where nothing was done.
        cancellable: whether a cancel may end its plans unless a setting says otherwise (RFC-79).
        role: how its completion meets other writers; see `commit.decide.complete.complete_write`.
        inflight_has_plan: its inflight file has the bytes of the plan; else it is empty.
    """

    action: ClassVar[str]
    name: ClassVar[str]
    command: ClassVar[str]
    plan_type: ClassVar[type]
    result_type: ClassVar[type[ServiceResult]] = ServiceResult
    cancellable: ClassVar[bool] = True
    role: ClassVar[Role] = "service"
    inflight_has_plan: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "action" in cls.__dict__ and "name" not in cls.__dict__:
            cls.name = cls.action

    def is_kind(self, plan: Any) -> bool:
        """Return whether a plan of the service's action is of this kind."""
        return True

    def is_own(self, session: Session, state: TableState, found: Instant) -> bool:
        """Return whether a completed instant, whose requested file may be gone, was of this kind."""
        return found.kind == completes_as(self.action)

    @abstractmethod
    def refuse_table(self, state: TableState) -> None:
        """Refuse a table that the service does not apply to.

        Raises:
            InvalidRequest: the service does not apply to this kind of table.
            Unsupported: the table cannot be written.
        """

    def end_plans(self, session: Session, removed: Sequence[str], preview: TableState | None) -> EndedPlans:
        """End the plans that must end before this one is chosen, and return them.

        A clean alone does so: overdue and cancelled plans hold back its files. It is called without the lock. `removed` are
        instants, cancelled plans among them, that the recovery before it removed. `preview` is a state of which the plans that
        would end are returned, while nothing is changed; None: they end now.
        """
        return EndedPlans()

    @abstractmethod
    def empty_choice(self, request: Request) -> Chosen:
        """Return the choice of a request without candidates."""

    @abstractmethod
    def choose(self, session: Session, state: TableState, request: Request) -> Chosen:
        """Choose the candidates of a plan, with reasons. Takes no lock and changes nothing."""

    @abstractmethod
    def draft(self, session: Session, state: TableState, choice: Chosen) -> Draft:
        """Return the plan's bytes and footprint, and how they are revised under the lock."""

    @abstractmethod
    def estimate(self, choice: Chosen, engine: Engine) -> Cost:
        """Return the expected cost of executing a choice."""

    def measures(self, session: Session, state: TableState) -> Mapping[str, float | None]:
        """Return the measures of the table's health that this service mends.

        They have the names of check and target, such as `read_cost.log_files`. By default there are none.
        """
        return {}

    def refuse_plan(self, session: Session, state: TableState, plan: Plan, instant: str) -> None:
        """Refuse a plan that must not be begun; called before the takeover, without the lock."""

    def files_unannounced(self, session: Session, attempt: Attempt, plan: Plan) -> Sequence[str]:
        """Return data files of the instant that earlier executors may have written without markers."""
        return ()


class TableService(
    PlannedService[Request, Chosen, Plan], Generic[Request, Chosen, Plan, Inputs, Task, Outcome, Result]
):
    """One kind of planned table service, whose plans are executed by independent tasks."""

    @abstractmethod
    def inputs(self, session: Session, attempt: Attempt, plan: Plan) -> Inputs:
        """Return the files that the plan names, as they are on storage now.

        Raises:
            Conflict: the plan cannot be executed as it is.
            Corrupt: a file of the plan is damaged or gone.
        """

    @abstractmethod
    def tasks(self, run: Run[Plan, Inputs, Task, Outcome]) -> Sequence[Task]:
        """Return independent tasks; the engine runs them in any order."""

    @staticmethod
    @abstractmethod
    def run(task: Task) -> Outcome:
        """Run one task on any executor. It uses only its argument; a second call gives equal bytes."""

    def check(self, run: Run[Plan, Inputs, Task, Outcome], state: TableState) -> None:
        """Check plan and remaining tasks before the work, and again under the lock; list nothing.

        Raises:
            Conflict: they cannot complete.
        """

    @abstractmethod
    def outcome(self, run: Run[Plan, Inputs, Task, Outcome]) -> Write | Body:
        """Return the write to complete, or the maker of the completed file of another action."""

    def settled(self, session: Session) -> None:
        """Follow up a completed run, for example compact the metadata table.

        An error fails the call, and the run stays complete.
        """

    @abstractmethod
    def result(self, run: Run[Plan, Inputs, Task, Outcome]) -> Result:
        """Return the result of a completed run for the user."""


AnyRun = Run[Any, Any, Any, Any]
AnyService = PlannedService[Any, Any, Any]
TaskService = TableService[Any, Any, Any, Any, Any, Any, Any]

REGISTRY: dict[str, AnyService] = {}
"""Service kinds by name. Cancel finds a kind here and imports none."""

S = TypeVar("S", bound=AnyService)


def register(service: S) -> S:
    """Add a service kind to the registry and return it."""
    REGISTRY[service.name] = service
    return service
