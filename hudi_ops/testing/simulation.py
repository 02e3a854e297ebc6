"""Runs of a scenario under every schedule, under random ones, or under a given one.

    def scenario() -> Simulation:
        simulation = Simulation(base, START_MS, FaultMenu(frozenset({Fault.CRASH_AFTER})))
        simulation.actor("a", lambda context: Table(context).ingest(rows_a))
        simulation.actor("b", lambda context: Table(context).ingest(rows_b))
        return simulation

    def check(history: RunRecord) -> None:
        assert verify_table(history.storage, deep=True).findings == ()

    print(explore(scenario, check, preemptions=1, faults=1, limit=None))

A failure is a `Violation`, whose text ends with the line that replays it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hudi_ops.errors import HudiOpsError
from hudi_ops.testing.choices import Choose, FaultMenu, RandomWalk, Scheduled
from hudi_ops.testing.marks import logged_marks
from hudi_ops.testing.scheduler import Simulation
from hudi_ops.testing.search import Search
from hudi_ops.testing.steps import RunRecord

__all__ = ["Explored", "FaultMenu", "RunRecord", "Simulation", "Violation", "explore", "replay", "run_once", "walk"]

Scenario = Callable[[], Simulation]
Check = Callable[[RunRecord], None]


class Violation(AssertionError):
    """A check failed, or an actor ended in an error that is not a `HudiOpsError`.

    Attributes:
        history: the run.
        schedule: replays it.
    """

    def __init__(self, history: RunRecord, why: BaseException, origin: str = "") -> None:
        self.history = history
        self.schedule = history.schedule
        super().__init__(
            "\n".join((
                f"{type(why).__name__}: {why}",
                *history.stories(),
                f"--- replay{origin} with:",
                f'replay(scenario, check, "{history.schedule}")',
            ))
        )  # fmt: skip


@dataclass
class Explored:
    """Counts of simulated runs.

    Attributes:
        schedules: runs that came to their end.
        pruned: runs that ended early, in a known state.
        left_out: schedules that were not run since they end like another one.
        states: distinct ends, by storage and outcomes; each was checked once.
        marks: what the product logged, the faults by operation, the outcomes; with counts.
        is_complete: whether every schedule within the bounds was run.
        seconds: how long it took.
    """

    schedules: int = 0
    pruned: int = 0
    left_out: int = 0
    states: int = 0
    marks: Counter[str] = field(default_factory=Counter)
    is_complete: bool = True
    seconds: float = 0.0

    def __str__(self) -> str:
        runs = self.schedules + self.pruned
        return (
            f"{self.schedules} schedules to the end, {self.pruned} until a known state, {self.left_out} left out; "
            f"{self.states} end states; {runs / max(self.seconds, 1e-9):.0f} runs/s"
            + ("" if self.is_complete else "; stopped at the limit")
        )


def explore(
    scenario: Scenario,
    check: Check,
    *,
    preemptions: int | None,
    faults: int,
    limit: int | None,
    reduce: bool = True,
) -> Explored:
    """Run a scenario under every schedule within the bounds.

    Args:
        scenario: makes the simulation; must make the same one each time.
        check: raises when a history breaks a promise. It is asked once for each end: equal storage, equal outcomes.
        preemptions: how often, at most, an actor is interrupted that could move on; None: without a bound.
        faults: how many things go wrong at most.
        limit: stop after this number of runs; None: run all.
        reduce: leave out schedules that end like others; False only to test this.

    Returns:
        How much was run.

    Raises:
        Violation: the first failure; it has the fewest decisions of all failures.
    """
    with _judging(check) as judge:
        search = Search(scenario, preemptions, faults, reduce=reduce)
        explored = judge.explored
        while not search.is_done:
            if limit is not None and explored.schedules + explored.pruned >= limit:
                explored.is_complete = False
                break
            history = search.next_run()
            if history is None:
                explored.pruned += 1
            else:
                judge.take(history)
        explored.left_out = search.left_out
    return explored


def walk(
    scenario: Scenario,
    check: Check,
    seeds: Iterable[int],
    *,
    preemptions: int | None = None,
    faults: int | None = None,
) -> Explored:
    """Run a scenario once for each seed, with choices drawn from it.

    Args:
        scenario: makes the simulation.
        check: raises when a history breaks a promise.
        seeds: as many runs as there are seeds.
        preemptions: how often, at most, an actor is interrupted; None: the seed decides.
        faults: how many things go wrong at most; None: as the menu of the scenario says.

    Returns:
        How much was run.

    Raises:
        Violation: the first failure, as it was found; `replay` repeats it.
    """
    with _judging(check) as judge:
        for seed in seeds:
            history = scenario().run(RandomWalk(seed), preemptions=preemptions, faults=faults)
            judge.take(history, f" seed {seed}")
    return judge.explored


def replay(scenario: Scenario, check: Check, schedule: str) -> RunRecord:
    """Run a scenario under one schedule, as a failure printed it.

    Returns:
        The run, when it breaks no promise.

    Raises:
        Violation: the failure again.
        InvalidRequest: the schedule does not fit the scenario.
    """
    chosen = Scheduled(schedule)
    with _judging(check) as judge:
        history = scenario().run(chosen, faults=len(schedule.split()))
        judge.take(history)
    chosen.refuse_unused()
    return history


def run_once(scenario: Scenario, check: Check, choose: Choose) -> RunRecord:
    """Run a scenario once, with choices made elsewhere, for example by `choices.Drawn`.

    Raises:
        Violation: the run breaks a promise.
    """
    with _judging(check) as judge:
        history = scenario().run(choose)
        judge.take(history)
    return history


class _Judge:
    """Checks each distinct end once, and counts."""

    def __init__(self, check: Check) -> None:
        self.explored = Explored()
        self._check = check
        self._seen: set[str] = set()

    def take(self, history: RunRecord, origin: str = "") -> None:
        explored = self.explored
        explored.schedules += 1
        for step in history.troubles:
            if step.trouble is not None:
                explored.marks[f"fault {step.trouble.value} {step.operation.name}"] += 1
        for outcome in history.outcomes.values():
            explored.marks[f"outcome {outcome.kind}"] += 1
        if history.end in self._seen:
            return
        self._seen.add(history.end)
        explored.states = len(self._seen)
        for outcome in history.outcomes.values():
            if outcome.error is not None and not isinstance(outcome.error, HudiOpsError):
                raise Violation(history, outcome.error, origin) from outcome.error
        try:
            self._check(history)
        except Exception as error:
            raise Violation(history, error, origin) from error


@contextmanager
def _judging(check: Check) -> Iterator[_Judge]:
    judge, started_s = _Judge(check), time.monotonic()
    with logged_marks() as marks:
        try:
            yield judge
        finally:
            judge.explored.marks += marks
            judge.explored.seconds = time.monotonic() - started_s
