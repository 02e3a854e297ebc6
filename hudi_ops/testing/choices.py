"""Choices of a simulation, the drivers that make them, and the schedules that repeat them.

Option 0 always means "as before": the same actor moves on, without a fault. A schedule names the other choices only,
each with the number of its step: `17>b` lets b move there, `31!F2` disturbs that step with fault F2.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from hudi_ops.errors import InvalidRequest
from hudi_ops.testing.faults import Fault
from hudi_ops.testing.steps import Event, PendingCall, Trouble, trouble_of

_DECISION = re.compile(r"(?P<step>\d+)(?P<kind>[>!])(?P<what>\S+)")


@dataclass(frozen=True)
class FaultMenu:
    """Faults that may happen: their kinds, their number in one run, and the actors concerned.

    Args:
        kinds: faults of storage calls, and events, that may happen; empty: none.
        most: how many in one run; drivers may allow fewer.
        actors: names of the actors that faults may happen to; None: all.
        pause_ms: how long `PAUSE` and `SLOW` last; by default longer than a lease lives.
        jump_ms: how far a wall clock jumps.
    """

    kinds: frozenset[Trouble] = frozenset()
    most: int = 1
    actors: frozenset[str] | None = None
    pause_ms: int = 130_000
    jump_ms: int = 3_600_000

    def offers(self, actor: str, operation: PendingCall, *, holds_lock: bool) -> list[Trouble]:
        """Return the faults and events that are possible at one operation, in a fixed order."""
        if self.actors is not None and actor not in self.actors:
            return []
        on_storage = operation.name not in {"acquire", "release", "sleep"}
        offered: list[Trouble] = [
            fault for fault in Fault if fault in self.kinds and on_storage and fault.applies_to(operation.name)
        ]
        for event in Event:
            fits = (
                operation.name == "acquire"
                if event is Event.LOCK_REFUSED
                else event not in {Event.LOCK_LOST, Event.LOCK_LOST_NOTICED} or holds_lock
            )
            if event in self.kinds and fits:
                offered.append(event)
        return offered


ALL_FAULTS: frozenset[Trouble] = frozenset((*Fault, *Event))
"""All kinds of faults and events."""


@dataclass(frozen=True, slots=True)
class Option:
    """One possible continuation: an actor's name or a fault's code, and its cost.

    The cost is 1 for a preemption or a fault.

    `is_vain`: it leads back to an actor that was interrupted, and cannot have noticed it yet. `moves_time`: it wakes a sleeper
    early, while others could still move.
    """

    label: str
    cost: int = 0
    is_vain: bool = False
    moves_time: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """Choice that the simulation asks a driver for.

    Attributes:
        step: number of the step that is about to be made.
        is_move: an actor is chosen, which moves; otherwise a fault is chosen.
        actor: the actor that moved last, or that the fault would happen to; empty when it cannot move.
        operation: the pending operation of that actor.
        is_fresh: that actor has not touched the storage yet, or not since it slept.
        has_changed: its last operation changed something.
        pending: the pending operations of all actors.
        options: at least two; the first means "as before".
    """

    step: int
    is_move: bool
    actor: str
    operation: PendingCall | None
    is_fresh: bool
    has_changed: bool
    pending: frozenset[PendingCall]
    options: tuple[Option, ...]


Choose: TypeAlias = Callable[[Choice], int]
"""Returns the index of the chosen option."""


def first(choice: Choice) -> int:
    """Choose the undisturbed run: each actor moves for as long as it can."""
    return 0


@dataclass(frozen=True, slots=True, order=True)
class Decision:
    """A choice that was not the first option."""

    step: int
    is_move: bool
    label: str

    def __str__(self) -> str:
        return f"{self.step}{'>' if self.is_move else '!'}{self.label}"


def parse_schedule(text: str) -> tuple[Decision, ...]:
    """Parse the decisions of a printed schedule.

    Raises:
        InvalidRequest: it is no schedule.

    >>> [str(one) for one in parse_schedule("17>b 31!F2")]
    ['17>b', '31!F2']
    """
    decisions = []
    for word in text.split():
        match = _DECISION.fullmatch(word)
        if match is None or (match["kind"] == "!" and trouble_of(match["what"]) is None):
            raise InvalidRequest(
                f"no schedule: {word!r}",
                expected="words such as 17>b and 31!F2",
                found=word,
                next_step="give the schedule as the failure printed it",
            )
        decisions.append(Decision(int(match["step"]), match["kind"] == ">", match["what"]))
    return tuple(decisions)


class Scheduled:
    """Makes the choices of a schedule, and the first option everywhere else."""

    def __init__(self, schedule: str | tuple[Decision, ...]) -> None:
        decisions = parse_schedule(schedule) if isinstance(schedule, str) else schedule
        self._left: dict[tuple[int, bool], str] = {(one.step, one.is_move): one.label for one in decisions}

    def __call__(self, choice: Choice) -> int:
        """Return the option that the schedule names for this step.

        Raises:
            InvalidRequest: there is no such option here.
        """
        label = self._left.pop((choice.step, choice.is_move), None)
        if label is None:
            return 0
        labels = [option.label for option in choice.options]
        if label not in labels:
            raise InvalidRequest(
                f"the schedule does not fit: step {choice.step} has no option {label}",
                expected=", ".join(labels),
                found=label,
                next_step="replay it with the scenario and the code that it was printed by",
            )
        return labels.index(label)

    @property
    def is_pending(self) -> bool:
        """Whether some decisions have not been used yet."""
        return bool(self._left)

    def refuse_unused(self) -> None:
        """Check that every decision was used.

        Raises:
            InvalidRequest: some were not: the schedule is of another scenario, or of other code.
        """
        if self._left:
            raise InvalidRequest(
                f"the schedule does not fit: {len(self._left)} of its decisions were never asked for",
                found=", ".join(f"step {step}: {label}" for (step, _), label in sorted(self._left.items())),
                next_step="replay it with the scenario and the code that it was printed by",
            )


@dataclass
class RandomWalk:
    """Choices drawn from a seed.

    The rate of disturbances is drawn from the seed too, since different bugs need different rates.
    """

    seed: int
    _random: random.Random = field(init=False, repr=False)
    _rates: Mapping[bool, float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - repeatable, not secret
        self._rates = {
            True: self._random.choice((0.01, 0.03, 0.1, 0.3)),
            False: self._random.choice((0.005, 0.02, 0.1)),
        }

    def __call__(self, choice: Choice) -> int:
        """Return the next option."""
        if choice.options[1].cost and self._random.random() >= self._rates[choice.is_move]:
            return 0
        return self._random.randrange(len(choice.options))


class Drawn:
    """Choices from Hypothesis, which shrinks a failure to the fewest and smallest choices.

    Args:
        draw_below: for example `lambda n: data.draw(st.integers(0, n - 1))`.
    """

    def __init__(self, draw_below: Callable[[int], int]) -> None:
        self._draw_below = draw_below

    def __call__(self, choice: Choice) -> int:
        """Return the next option."""
        return self._draw_below(len(choice.options))
