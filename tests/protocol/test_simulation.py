"""The simulator finds the bugs it is made for, in as many schedules as can be counted by hand, and finds them again."""

from __future__ import annotations

import math
import os
import random

import pytest
from hypothesis import Phase, given, settings, strategies as st

from hudi_ops.errors import Busy, InvalidRequest
from hudi_ops.testing.choices import ALL_FAULTS, Drawn, RandomWalk, first
from hudi_ops.testing.faults import Fault
from hudi_ops.testing.simulation import RunRecord, Simulation, Violation, explore, replay, run_once, walk
from hudi_ops.testing.steps import Event
from tests.protocol import toys
from tests.protocol.toys import simulation_of

SOAK = bool(os.environ.get("HUDI_OPS_SOAK"))


def anything(history: RunRecord) -> None:
    """No promise."""


def counted(history: RunRecord) -> None:
    """Every count that succeeded is in the number."""
    done = sum(outcome.succeeded for outcome in history.outcomes.values())
    assert toys.number_at(history) == done


def one_winner(history: RunRecord) -> None:
    assert [outcome.result for outcome in history.outcomes.values()].count("won") == 1


def never_half(history: RunRecord) -> None:
    assert (history.storage.head("x") is None) == (history.storage.head("y") is None)


def done_is_done(history: RunRecord) -> None:
    assert history.storage.head("x") is not None


def newest_stays(history: RunRecord) -> None:
    assert toys.number_at(history) == history.result("a")


def close_together(history: RunRecord) -> None:
    before, after = history.result("a")
    assert 0 <= after - before < 60_000


def worked_once(history: RunRecord) -> None:
    assert not (history.outcomes["a"].succeeded and history.storage.head("took over") is not None)


# ---- counts


@pytest.mark.parametrize(("steps", "preemptions", "schedules"), [(4, 0, 2), (4, 1, 8), (19, 2, 686), (7, 3, 266)])
def test_two_actors_have_as_many_schedules_as_counted_by_hand(steps: int, preemptions: int, schedules: int) -> None:
    inner = steps - 1  # places at which an actor can be interrupted: before each operation but its first
    by_hand = sum(
        2 * math.comb(inner, (many + 1) // 2) * math.comb(inner, many // 2) for many in range(preemptions + 1)
    )
    explored = explore(
        lambda: simulation_of(toys.puts(steps, "a"), toys.puts(steps, "b")),
        anything,
        preemptions=preemptions,
        faults=0,
        limit=None,
        reduce=False,
    )
    assert explored.schedules == by_hand == schedules


def test_three_actors_have_as_many_schedules_as_counted_by_hand() -> None:
    explored = explore(
        lambda: simulation_of(*(toys.puts(8, name) for name in "abc")),
        anything,
        preemptions=1,
        faults=0,
        limit=None,
        reduce=False,
    )
    # 3! orders; the first actor interrupted in favour of one of two, two orders after; the second one interrupted.
    assert explored.schedules == 6 + 3 * 7 * 2 * 2 + 6 * 7


def test_every_fault_is_tried_at_every_operation() -> None:
    explored = explore(
        lambda: simulation_of(toys.puts(5, "a"), kinds=[Fault.CRASH_AFTER, Fault.ERROR_BEFORE]),
        anything,
        preemptions=0,
        faults=1,
        limit=None,
    )
    assert explored.schedules == 1 + 5 * 2
    assert (explored.marks["fault F2 put"], explored.marks["fault F3 put"]) == (5, 5)


def test_what_nobody_else_can_notice_is_not_interrupted() -> None:
    explored = explore(
        lambda: simulation_of(toys.puts(19, "a"), toys.puts(19, "b")), anything, preemptions=2, faults=0, limit=None
    )
    assert (explored.schedules, explored.states) == (2, 1)
    assert explored.left_out == 2 * 18


def programs(seed: int) -> list[toys.Run]:
    """Two or three random programs upon few files, with a lock, sleeps, and decisions made upon what was read."""
    chance = random.Random(seed)

    def program(name: str) -> toys.Run:
        plan = [(chance.choice("gglfppidscw"), chance.choice("xy")) for _ in range(chance.randint(2, 4))]

        def act(ctx, kind: str, path: str, number: int) -> str:
            match kind:
                case "g":
                    return str(toys.number_at(ctx, path))
                case "l":
                    return str(len(ctx.storage.list("")))
                case "f":
                    return str(len(ctx.storage.list_folder("d").files))
                case "p":
                    ctx.storage.put(path, f"{ord(name)}{number}".encode())
                case "i":
                    ctx.storage.put_if_absent(f"d/{path}", name.encode())
                case "d":
                    ctx.storage.delete(path)
                case "s":
                    ctx.clock.sleep_s(10)
                case "c":
                    return str(ctx.clock.now_ms())
                case "w":
                    with ctx.locks.acquire(60.0, name):
                        toys.count_blindly(ctx)
            return ""

        def run(ctx) -> str:
            said = []
            for number, (kind, path) in enumerate(plan):
                said.append(act(ctx, kind, path, number))
                if said[-1] == "1":
                    ctx.storage.put("one", name.encode())
            return " ".join(said)

        return run

    return [program(name) for name in "abc"[: chance.choice((2, 2, 3))]]


@pytest.mark.parametrize("seed", range(200 if SOAK else 12))
def test_the_reduction_keeps_every_end(seed: int) -> None:
    kinds = random.Random(seed).sample(sorted(ALL_FAULTS, key=lambda one: one.value), 3)
    ends: dict[bool, dict[str, str]] = {True: {}, False: {}}
    for reduce in (True, False):
        explored = explore(
            lambda: simulation_of(*programs(seed), kinds=kinds),
            lambda history, reduce=reduce: ends[reduce].update({history.end: history.schedule}),
            preemptions=1 + (seed % 4 == 0),
            faults=seed % 2,
            limit=6_000,
            reduce=reduce,
        )
        assert explored.is_complete, explored
        print(f"seed {seed}, reduce {reduce}: {explored}")
    missing = {end: schedule for end, schedule in ends[False].items() if end not in ends[True]}
    assert missing == {}
    assert set(ends[True]) <= set(ends[False])


# ---- bugs

TROUBLES = [
    (Fault.CRASH_BEFORE, [toys.put_both], never_half),
    (Fault.CRASH_AFTER, [toys.put_both], never_half),
    (Fault.ERROR_BEFORE, [toys.put_without_care], done_is_done),
    (Fault.ERROR_AFTER, [toys.count_again_when_unknown], counted),
    (Fault.LANDS_LATER, [toys.replace_when_unknown], newest_stays),
    (Fault.EXISTS_THOUGH_ABSENT, [toys.take], one_winner),
    (Fault.EXISTS_BY_ITSELF, [toys.take], one_winner),
    (Event.LOCK_LOST, [toys.count_locked, toys.count_locked], counted),
    (Event.LOCK_LOST, [toys.count_while_it_is_mine, toys.count_while_it_is_mine], counted),
    (Event.LOCK_LOST_NOTICED, [toys.count_locked, toys.count_locked], counted),
    (Event.LOCK_REFUSED, [toys.count_even_if_busy, toys.count_locked], counted),
    (Event.CLOCK_FORWARD, [toys.take_two_times], close_together),
    (Event.CLOCK_BACK, [toys.take_two_times], close_together),
    (Event.PAUSE, [toys.write_under_lease(beats=True), toys.take_over], worked_once),
    (Event.SLOW, [toys.write_under_lease(beats=False), toys.take_over], worked_once),
]


@pytest.mark.parametrize(("trouble", "runs", "check"), TROUBLES, ids=lambda one: getattr(one, "name", ""))
def test_each_trouble_finds_its_bug_and_nothing_is_found_without_it(trouble, runs, check) -> None:
    def scenario(*kinds) -> Simulation:
        return simulation_of(*runs, kinds=kinds)

    explore(scenario, check, preemptions=2, faults=0, limit=None)
    with pytest.raises(Violation) as found:
        explore(lambda: scenario(trouble), check, preemptions=1, faults=1, limit=None)
    assert [step.trouble for step in found.value.history.troubles] == [trouble]
    with pytest.raises(Violation) as again:
        replay(lambda: scenario(trouble), check, found.value.schedule)
    assert again.value.history.digest == found.value.history.digest
    # Random walks find it as well.
    with pytest.raises(Violation, match="replay seed"):
        walk(lambda: scenario(trouble), check, range(3_000))


def test_every_trouble_has_a_bug_here() -> None:
    assert {trouble for trouble, _, _ in TROUBLES} == set(ALL_FAULTS)


@pytest.mark.parametrize(
    ("run", "check"),
    [(toys.count_blindly, counted), (toys.look_then_take, one_winner)],
    ids=["blind", "check-then-act"],
)
def test_every_driver_finds_a_race(run: toys.Run, check) -> None:
    def scenario() -> Simulation:
        return simulation_of(run, run)

    explore(scenario, check, preemptions=0, faults=0, limit=None)
    with pytest.raises(Violation) as found:
        explore(scenario, check, preemptions=1, faults=0, limit=None)
    assert found.value.schedule.count(">") == 1, "the shortest schedule comes first"
    with pytest.raises(Violation):
        walk(scenario, check, range(200))

    @settings(max_examples=200, database=None, phases=[Phase.generate, Phase.shrink], derandomize=True)
    @given(st.data())
    def drawn(data) -> None:
        run_once(scenario, check, Drawn(lambda count: data.draw(st.integers(0, count - 1))))

    with pytest.raises(Violation) as shrunk:
        drawn()
    assert len(shrunk.value.schedule.split()) == 1


@pytest.mark.parametrize("run", [toys.count_locked, toys.count_even_if_busy])
def test_a_lock_that_works_is_enough(run: toys.Run) -> None:
    explored = explore(lambda: simulation_of(run, run, run), counted, preemptions=2, faults=0, limit=None)
    assert explored.states >= 1


def test_slots_need_no_lock() -> None:
    def check(history: RunRecord) -> None:
        assert len(history.storage.list()) == 3

    explored = explore(lambda: simulation_of(*[toys.count_in_slots] * 3), check, preemptions=3, faults=0, limit=None)
    assert explored.states == 6


def test_who_notices_that_the_lock_is_lost_stops() -> None:
    # Lost before it looks; what is lost between look and write nobody can notice.
    history = run_once(
        lambda: simulation_of(toys.count_while_it_is_mine, kinds=[Event.LOCK_LOST_NOTICED]),
        counted,
        lambda choice: int(not choice.is_move and str(choice.operation) == "head:something"),
    )
    assert history.outcomes["a"].kind == "Busy"


# ---- time


def test_time_passes_only_when_everybody_waits() -> None:
    def sleeper(ctx) -> int:
        ctx.clock.sleep_s(5)
        return ctx.clock.now_ms()

    history = simulation_of(sleeper, toys.puts(3, "b")).run(first)
    assert history.result("a") == toys.START_MS + 5_000
    assert [step.actor for step in history.steps] == ["b", "b", "b", "@time", "a"]


def test_a_wait_for_the_lock_ends_in_virtual_time() -> None:
    def holder(ctx) -> None:
        with ctx.locks.acquire(60.0, "long"):
            ctx.clock.sleep_s(600)

    def waiter(ctx) -> None:
        with ctx.locks.acquire(60.0, "short"):
            raise AssertionError

    history = simulation_of(holder, waiter).run(first)
    assert isinstance(history.outcomes["b"].error, Busy)
    assert "held by a" in str(history.outcomes["b"].error)


def test_waiters_are_served_in_order() -> None:
    def enter(ctx) -> int:
        with ctx.locks.acquire(60.0, "enter") as held:
            ctx.storage.put("x", b"")
            return held.token

    turns = iter(["b", "c", "a"])

    def choose(choice) -> int:
        if choice.actor == "a" and choice.operation.name == "put" and "b" in [one.label for one in choice.options]:
            return [one.label for one in choice.options].index(next(turns))
        return 0

    history = simulation_of(enter, enter, enter).run(choose)
    assert [history.result(name) for name in "abc"] == [1, 2, 3]


def test_beats_happen_while_time_passes_unless_the_process_stands_still() -> None:
    def beating(ctx) -> int:
        beats = []
        with ctx.beats.every(30.0, lambda: beats.append(ctx.clock.now_ms())):
            ctx.storage.put("x", b"")
        return len(beats)

    for kind, beats in ((Event.SLOW, 4), (Event.PAUSE, 0)):
        history = simulation_of(beating, kinds=[kind]).run(lambda choice: int(not choice.is_move))
        assert history.result("a") == beats


def test_an_actor_starts_when_it_may() -> None:
    simulation = simulation_of(toys.puts(3, "a"), kinds=[Fault.CRASH_AFTER])
    simulation.actor("heir", toys.puts(1, "h"), when=lambda: bool((one := simulation.outcome("a")) and one.is_dead))
    assert simulation.run(first).outcomes["heir"].kind == "never ran"
    history = replay(lambda: heir_of_a_dead(), anything, "1!F2")
    assert [step.actor for step in history.steps] == ["a", "a", "heir"]


def heir_of_a_dead() -> Simulation:
    simulation = simulation_of(toys.puts(3, "a"), kinds=[Fault.CRASH_AFTER])
    simulation.actor("heir", toys.puts(1, "h"), when=lambda: bool((one := simulation.outcome("a")) and one.is_dead))
    return simulation


# ---- failures are told, and repeated


def test_a_failure_tells_each_story_and_how_to_replay_it() -> None:
    def scenario() -> Simulation:
        return simulation_of(toys.count_blindly, toys.count_blindly)

    with pytest.raises(Violation) as found:
        explore(scenario, counted, preemptions=1, faults=0, limit=None)
    text = str(found.value)
    assert "--- a: None" in text
    assert "--- b: None" in text
    assert f'replay(scenario, check, "{found.value.schedule}")' in text
    assert "put           n" in text


def test_an_error_that_is_not_the_products_is_a_violation() -> None:
    def broken(ctx) -> None:
        ctx.storage.get("nothing there".removeprefix("nothing "))

    def really_broken(ctx) -> None:
        raise ZeroDivisionError

    replay(lambda: simulation_of(broken), anything, "")
    with pytest.raises(Violation, match="ZeroDivisionError"):
        replay(lambda: simulation_of(really_broken), anything, "")


@pytest.mark.parametrize("schedule", ["nonsense", "1!F99", "0>nobody", "500>a"])
def test_a_schedule_that_does_not_fit_is_refused(schedule: str) -> None:
    with pytest.raises(InvalidRequest):
        replay(lambda: simulation_of(*[toys.puts(3, "x")] * 2, kinds=[Fault.CRASH_AFTER]), anything, schedule)


def test_a_simulation_runs_once_and_has_one_actor_of_a_name() -> None:
    simulation = simulation_of(toys.puts(1, "a"))
    with pytest.raises(InvalidRequest):
        simulation.actor("a", toys.puts(1, "a"))
    simulation.run(first)
    with pytest.raises(InvalidRequest):
        simulation.run(first)


def test_equal_choices_make_equal_runs() -> None:
    def scenario() -> Simulation:
        return simulation_of(
            toys.write_under_lease(beats=True), toys.take_over, toys.count_even_if_busy, kinds=ALL_FAULTS, most=3
        )

    digests = set()
    for seed in range(40):
        history = scenario().run(RandomWalk(seed))
        assert scenario().run(RandomWalk(seed)).digest == history.digest
        assert replay(scenario, anything, history.schedule).digest == history.digest
        digests.add(history.digest)
    assert len(digests) > 10
