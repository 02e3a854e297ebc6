"""Explore every interleaving of a few actors over one small world, breadth first.

An actor is a generator that yields one atomic operation at a time. The checker may pause an actor between any two operations,
end it (a crash), or free the lock that it holds while it goes on (a loss in silence). The first path to each violation is a
shortest one.

Two states of an actor are one state when its generators stand at the same instruction with equal local variables. So a local
variable is hashable or callable, and a loop keeps all that it still needs in local variables: `while`, or `for` over distinct
values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class World(NamedTuple):
    """What all actors share: the lock, the slots of the log, the files, and notes for the properties."""

    lock: str | None = None
    log: tuple[tuple[Any, ...], ...] = ()
    files: frozenset[str] = frozenset()
    notes: frozenset[str] = frozenset()


Outcomes = list[tuple[World, Hashable]]
"""The worlds that an operation may lead to, each with what the actor gets; more than one is a choice."""


class Operation(NamedTuple):
    """One atomic step of an actor; it waits while `ready` is false."""

    label: str
    outcomes: Callable[[World], Outcomes]
    ready: Callable[[World], bool] | None = None


Steps = Generator[Operation, Any, Any]


class Actor(NamedTuple):
    """A process: its steps, and what may happen to it."""

    name: str
    steps: Callable[[], Steps]
    crashes: bool = True
    loses_lock: bool = True
    last: bool = False
    """Begins when all actors that are not last have ended: the next process, after the storm."""


@dataclass(frozen=True)
class Model:
    """Actors, the first world, and the properties, each a function that names what is violated."""

    actors: list[Actor]
    world: World
    always: Callable[[World], Iterable[str]]
    finally_: Callable[[World], Iterable[str]]
    crash: Callable[[World, str], World]


@dataclass
class Report:
    """States that were reached, and a shortest path to each violation."""

    states: int = 0
    violations: dict[str, list[str]] = field(default_factory=dict)


_CRASHED = -1
_ENDED = "ended"


class _Program:
    """The local states of one actor: a number for each, its next operation, and what follows each result."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.operations: list[Operation | None] = []
        self._results: list[tuple[Hashable, ...]] = []
        self._numbers: dict[Hashable, int] = {}
        self._next: dict[tuple[int, Hashable], int] = {}
        self.moves: dict[tuple[int, int], list[tuple[str, World, int]]] = {}
        self.number(())

    def number(self, results: tuple[Hashable, ...]) -> int:
        """Return the number of the local state that is reached by these results."""
        steps = self.actor.steps()
        operation: Operation | None
        key: Hashable
        try:
            operation = next(steps)
            for result in results:
                operation = steps.send(result)
            key = _position(steps)
        except StopIteration:
            operation, key = None, _ENDED
        if key not in self._numbers:
            self._numbers[key] = len(self.operations)
            self.operations.append(operation)
            self._results.append(results)
        return self._numbers[key]

    def after(self, number: int, result: Hashable) -> int:
        """Return the local state that follows when the operation of this one gives `result`."""
        if (number, result) not in self._next:
            self._next[number, result] = self.number((*self._results[number], result))
        return self._next[number, result]


def _position(steps: Any) -> Hashable:
    """Return instruction and local variables of a generator and of those that it delegates to."""
    found = []
    while steps is not None and hasattr(steps, "gi_frame"):
        frame = steps.gi_frame
        values = tuple(
            (name, value)
            for name, value in sorted(frame.f_locals.items())
            if not callable(value) and not hasattr(value, "gi_frame")
        )
        found.append((steps.gi_code.co_name, frame.f_lasti, values))
        steps = steps.gi_yieldfrom
    return tuple(found)


class _Search:
    """The states that were reached, as small tuples: world, losses and crashes left, and each actor's local state."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.programs = [_Program(actor) for actor in model.actors]
        self.worlds: list[World] = []
        self._numbers: dict[World, int] = {}
        self.found: list[list[str]] = []

    def number(self, world: World) -> int:
        """Return the number of a world; its properties are checked when it is new."""
        if world not in self._numbers:
            self._numbers[world] = len(self.worlds)
            self.worlds.append(world)
            self.found.append(list(self.model.always(world)))
        return self._numbers[world]

    def moves(self, place: int, local: int, world: int) -> list[tuple[str, int, int]]:
        """Return label, world and local state of each outcome of an actor's next operation; none when it waits."""
        program = self.programs[place]
        known = program.moves.get((local, world))
        if known is None:
            operation, before = program.operations[local], self.worlds[world]
            known = []
            if operation is not None and (operation.ready is None or operation.ready(before)):
                outcomes = operation.outcomes(before)
                for after, result in outcomes:
                    choice = f" = {result}" if len(outcomes) > 1 or isinstance(result, bool) else ""
                    label = f"{program.actor.name}: {operation.label}{choice}"
                    known.append((label, self.number(after), program.after(local, result)))
            program.moves[local, world] = known
        return known

    def idle(self, place: int, local: int) -> bool:
        """Return whether an actor has ended or crashed."""
        return local == _CRASHED or self.programs[place].operations[local] is None

    def successors(self, state: tuple[int, ...]) -> tuple[list[tuple[str, tuple[int, ...]]], bool]:
        """Return what may happen next, and whether any actor moved of its own."""
        world, losses, crashes, *locals_ = state
        begun = all(
            self.idle(place, local) for place, local in enumerate(locals_) if not self.programs[place].actor.last
        )
        found: list[tuple[str, tuple[int, ...]]] = []
        for place, local in enumerate(locals_):
            actor = self.programs[place].actor
            if self.idle(place, local) or (actor.last and not begun):
                continue
            rest, tail = tuple(locals_[:place]), tuple(locals_[place + 1 :])
            for label, after, following in self.moves(place, local, world):
                found.append((label, (after, losses, crashes, *rest, following, *tail)))
            if crashes and actor.crashes:
                after = self.number(self.model.crash(self.worlds[world], actor.name))
                found.append((f"{actor.name}: CRASH", (after, losses, crashes - 1, *rest, _CRASHED, *tail)))
        moved = any(not label.endswith(": CRASH") for label, _ in found)
        holder = self.worlds[world].lock
        if losses and any(program.actor.name == holder and program.actor.loses_lock for program in self.programs):
            after = self.number(self.worlds[world]._replace(lock=None))
            found.append((f"{holder}: LOCK LOST", (after, losses - 1, crashes, *locals_)))
        return found, moved


def explore(model: Model, losses: int = 0, crashes: int = 0, stop: bool = False, limit: int = 5_000_000) -> Report:
    """Reach every state with at most so many lost locks and crashes; `stop` ends at the first violation."""
    search = _Search(model)
    start = (search.number(model.world), losses, crashes, *(0 for _ in model.actors))
    parents: dict[tuple[int, ...], tuple[tuple[int, ...], str] | None] = {start: None}
    todo, report = deque([start]), Report()

    def note(names: Iterable[str], state: tuple[int, ...]) -> None:
        for name in names:
            if name not in report.violations:
                report.violations[name] = _path(parents, state)

    while todo and not (stop and report.violations):
        state = todo.popleft()
        note(search.found[state[0]], state)
        following, moved = search.successors(state)
        if not moved:
            ended = all(search.idle(place, local) for place, local in enumerate(state[3:]))
            note(model.finally_(search.worlds[state[0]]) if ended else ["an actor waits for ever"], state)
        for label, after in following:
            if after not in parents:
                parents[after] = (state, label)
                todo.append(after)
        if len(parents) > limit:
            raise RuntimeError(f"more than {limit} states: make the scenario smaller")
    report.states = len(parents)
    return report


def _path(
    parents: dict[tuple[int, ...], tuple[tuple[int, ...], str] | None],
    state: tuple[int, ...],
) -> list[str]:
    """Return the labels on the way from the start to a state."""
    labels, step = [], parents[state]
    while step is not None:
        labels.append(step[1])
        step = parents[step[0]]
    return labels[::-1]
