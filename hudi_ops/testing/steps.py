"""Operations, their conflicts, the steps of a simulation, and the report of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from typing import Any, TypeAlias

from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.faults import Fault

LOCK = "@lock"
"""Path that stands for the table lock in operations."""

MUTATIONS = frozenset({"put", "put_if_absent", "delete"})
LISTINGS = frozenset({"list", "list_folder"})
LOCKING = frozenset({"acquire", "release"})
TIMELY = frozenset({"sleep", "time", "before"})
"""Names of steps that touch no file and no lock: waking up, time that passes, an event before an operation."""


class Event(Enum):
    """Event before an operation of an actor, beside the faults of the operation itself."""

    LOCK_LOST = "L1"
    """The lock is free for others; its holder goes on and `still_mine` still says True."""
    LOCK_LOST_NOTICED = "L2"
    """The lock is free for others, and `still_mine` says so."""
    LOCK_REFUSED = "L3"
    """The lock is not granted until the wait times out."""
    CLOCK_FORWARD = "C1"
    """The actor's wall clock jumps ahead; monotonic time does not change."""
    CLOCK_BACK = "C2"
    """The actor's wall clock jumps back."""
    PAUSE = "P1"
    """The actor's process and its beats are paused until its leases have expired (SIGSTOP)."""
    SLOW = "P2"
    """The same time passes while the actor waits for one operation; all actors continue to beat."""


Trouble: TypeAlias = Fault | Event


def trouble_of(code: str) -> Trouble | None:
    """Return the fault or event that a schedule names, such as `F2`."""
    known: dict[str, Trouble] = {kind.value: kind for kind in (*Fault, *Event)}
    return known.get(code)


@dataclass(frozen=True, slots=True)
class PendingCall:
    """One call on storage, lock or clock that an actor is about to make."""

    name: str
    path: str

    @property
    def is_mutation(self) -> bool:
        """Whether other actors can see that the call was made; calls on the lock count, too."""
        return self.name in MUTATIONS or self.name in LOCKING

    def conflicts(self, other: PendingCall) -> bool:
        """Return whether the results of two calls depend on their order."""
        if not (self.is_mutation or other.is_mutation) or {self.name, other.name} & TIMELY:
            return False
        return self.path == other.path or other._lists(self.path) or self._lists(other.path)

    def _lists(self, path: str) -> bool:
        return self.name in LISTINGS and (not self.path or path.startswith(f"{self.path}/"))

    def __str__(self) -> str:
        return f"{self.name}:{self.path}"


@dataclass
class StepEffects:
    """Operations of an actor that may conflict with those of other actors, by their paths."""

    read: set[str] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    changed_below: set[str] = field(default_factory=set)
    moves_time: bool = False

    def add(self, operation: PendingCall) -> bool:
        """Add an operation; return whether it was new."""
        place = self.listed if operation.name in LISTINGS else self.changed if operation.is_mutation else self.read
        if operation.name in TIMELY:
            before, self.moves_time = self.moves_time, True
            return not before
        if operation.path in place:
            return False
        place.add(operation.path)
        if operation.is_mutation:
            self.changed_below.update(folders_of(operation.path))
        return True

    def conflicts(self, operation: PendingCall) -> bool:
        """Return whether the results of an operation and one of these depend on their order."""
        if operation.name in TIMELY:
            return False
        if operation.name in LISTINGS:
            return operation.path in self.changed_below
        if not operation.is_mutation:
            return operation.path in self.changed
        if operation.path in self.changed or operation.path in self.read:
            return True
        return not self.listed.isdisjoint(folders_of(operation.path))


def folders_of(path: str) -> list[str]:
    """Return every folder above a path, including the root."""
    parts = path.split("/")
    return ["", *("/".join(parts[:depth]) for depth in range(1, len(parts)))]


@dataclass(slots=True)
class Step:
    """One step: actor, operation, disturbance, and result. Numbers are those of schedules."""

    number: int
    actor: str
    operation: PendingCall
    trouble: Trouble | None = None
    seen: str = ""

    def __str__(self) -> str:
        disturbed = f" !{self.trouble.value} {self.trouble.name}" if self.trouble is not None else ""
        return (
            f"{self.number:>5} {self.actor:<10} {self.operation.name:<13} {self.operation.path}{disturbed}  {self.seen}"
        )


@dataclass(frozen=True)
class Outcome:
    """End of an actor: a result, an error, a death by a fault, or never started."""

    result: Any = None
    error: Exception | None = None
    is_dead: bool = False
    is_finished: bool = True

    @property
    def succeeded(self) -> bool:
        """Whether the actor's function returned."""
        return self.is_finished and not self.is_dead and self.error is None

    @property
    def kind(self) -> str:
        """One of `ok`, `died` and `never ran`, or the name of the error's class."""
        if self.error is not None:
            return type(self.error).__name__
        return "died" if self.is_dead else "ok" if self.is_finished else "never ran"

    def __str__(self) -> str:
        if self.is_dead:
            return "died"
        if not self.is_finished:
            return "never ran"
        if self.error is not None:
            return f"{type(self.error).__name__}: {self.error}".replace("\n", " ")
        told = repr(self.result)
        return type(self.result).__name__ if " at 0x" in told else told


@dataclass(frozen=True)
class RunRecord:
    """One run of a simulation: its steps, how each actor ended, and the storage at the end.

    `schedule` replays it; `now_ms` is the world's time at the end. Runs of one `end` have equal storage and equal outcomes.
    """

    schedule: str
    steps: tuple[Step, ...]
    outcomes: Mapping[str, Outcome]
    storage: MemoryStorage
    now_ms: int
    end: str

    def result(self, actor: str) -> Any:
        """Return the actor's result, or raise its error."""
        outcome = self.outcomes[actor]
        if outcome.error is not None:
            raise outcome.error
        return outcome.result

    @property
    def troubles(self) -> tuple[Step, ...]:
        """Steps with a fault or an event."""
        return tuple(step for step in self.steps if step.trouble is not None)

    @property
    def digest(self) -> str:
        """Digest of the run: all steps with their answers, all outcomes, every byte on storage."""
        said = blake2b(digest_size=16)
        for step in self.steps:
            said.update(f"{step}\n".encode())
        for name, outcome in self.outcomes.items():
            said.update(f"{name} {outcome}\n".encode())
        for info in self.storage.list():
            said.update(f"{info.path} {info.modified_ms} {info.size_bytes}\n".encode())
            said.update(self.storage.get(info.path))
        return said.hexdigest()

    def story(self) -> str:
        """Return every step in order, then each actor's end."""
        return "\n".join((
            f"schedule: {self.schedule or '(no choice differs from the first)'}",
            *map(str, self.steps),
            *(f"{name}: {outcome}" for name, outcome in self.outcomes.items()),
        ))  # fmt: skip

    def stories(self) -> Iterable[str]:
        """Return the report of each actor by itself."""
        for name in dict.fromkeys([*self.outcomes, *(step.actor for step in self.steps)]):
            own = [str(step) for step in self.steps if step.actor == name]
            yield "\n".join((f"--- {name}: {self.outcomes.get(name, 'a step of its own')}", *own))
