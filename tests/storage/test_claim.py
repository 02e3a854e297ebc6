"""Goal: nobody who claims a name is ever lied to, whatever the storage reports.

Method: two claimers are stepped through every interleaving of their storage calls, up to a bound on preemptions, with
every fault kind at every call, up to a bound on faults; the verdicts are held against what lies under the name in the
end. Two wrong versions of `claim` go through the same search, to show that it finds lies where there are some.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from greenlet import getcurrent, greenlet

from hudi_ops.errors import AlreadyExists, Corrupt, HudiOpsError, Internal, NotFound, OutcomeUnknown, Unavailable
from hudi_ops.storage.claim import Claimed, claim, ensure
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage

SLOT = ".hoodie/.commit_log/00000000/000000000007.json"
ON_PUT = [None, *Fault]
ON_GET = [None, Fault.CRASH_BEFORE, Fault.ERROR_BEFORE]
Claimer = Callable[..., Claimed]
SOAK = [pytest.param(("A", "B"), 3, 4, 3, 200_000, id="soak")] if os.environ.get("HUDI_OPS_SOAK") else []


def read_id(body: bytes) -> str:
    decision_id, colon, _ = body.decode().partition(":")
    if not colon:
        raise Corrupt("no entry")
    return decision_id


class Choices:
    """Every sequence of choices, one after the other: an odometer over the choices of the last run."""

    def __init__(self) -> None:
        self._taken: list[tuple[int, int]] = []
        self._at = 0

    def choose(self, count: int) -> int:
        if self._at == len(self._taken):
            self._taken.append((0, count))
        choice, expected = self._taken[self._at]
        assert count == expected, "a run must follow from its choices"
        self._at += 1
        return choice

    def advance(self) -> bool:
        self._at = 0
        while self._taken:
            choice, count = self._taken.pop()
            if choice + 1 < count:
                self._taken.append((choice + 1, count))
                return True
        return False


@dataclass
class Run:
    """One schedule of two claimers over one storage."""

    choices: Choices
    claimer: Claimer
    decisions: tuple[str, str]
    faults_left: int
    preemptions_left: int
    attempts: int
    inner: MemoryStorage = field(default_factory=MemoryStorage)
    outcomes: dict[int, Claimed | BaseException] = field(default_factory=dict)

    def fault_at(self, number: int, point: str) -> Fault | None:
        getcurrent().parent.switch()  # pause before the call takes effect
        kinds = ON_PUT if point.startswith("put") else ON_GET
        fault = kinds[self.choices.choose(len(kinds))] if self.faults_left else None
        self.faults_left -= fault is not None
        return fault

    def act(self, actor: int, storage: FaultyStorage) -> None:
        decision = self.decisions[actor]
        entry = f"{decision}:written by {actor}".encode()
        try:
            self.outcomes[actor] = self.claimer(storage, SLOT, entry, decision, read_id, attempts=self.attempts)
        except (HudiOpsError, Crash) as error:
            self.outcomes[actor] = error

    def play(self) -> bytes | None:
        """Run to the end and return what lies under the name then."""
        storages = [FaultyStorage(self.inner, self) for _ in self.decisions]
        actors = [greenlet(self.act) for _ in self.decisions]
        current = None
        while alive := [actor for actor in range(2) if not actors[actor].dead]:
            late = [("land", actor) for actor in range(2) if storages[actor].in_flight]
            moves = [("step", actor) for actor in alive if actor == current or current not in alive]
            if self.preemptions_left:
                moves += [("step", actor) for actor in alive if ("step", actor) not in moves]
            kind, actor = [*moves, *late][self.choices.choose(len(moves) + len(late))]
            if kind == "land":
                storages[actor].land()
                continue
            self.preemptions_left -= current in alive and actor != current
            current = actor
            actors[actor].switch(actor, storages[actor])
        for storage in storages:
            while storage.in_flight and self.choices.choose(2):
                storage.land()
        return self.inner.get(SLOT) if self.inner.head(SLOT) else None

    def lies(self, slot: bytes | None) -> list[str]:
        """What was said to a caller and is not so."""
        owner = None if slot is None else read_id(slot)
        found = []
        for actor, outcome in self.outcomes.items():
            mine = owner == self.decisions[actor]
            if isinstance(outcome, Claimed):
                if outcome.won != mine or owner is None:
                    found.append(f"{actor} told won={outcome.won}, the name is of {owner}")
                elif outcome.body != slot:
                    found.append(f"{actor} told another body than lies there")
            elif isinstance(outcome, Unavailable) and slot == f"{owner}:written by {actor}".encode():
                found.append(f"{actor} told that nothing landed, and it did")
            elif not isinstance(outcome, Unavailable | OutcomeUnknown | Crash):
                found.append(f"{actor} told {outcome!r}")
        return found


def search(
    claimer: Claimer, decisions: tuple[str, str], faults: int, preemptions: int, attempts: int
) -> dict[str, int]:
    """Every run within the bounds; counts of runs, lies and outcomes."""
    choices = Choices()
    counts = {"runs": 0, "lies": 0, "won": 0, "lost": 0, "unavailable": 0, "unknown": 0, "crashed": 0}
    names = {Unavailable: "unavailable", OutcomeUnknown: "unknown", Crash: "crashed"}
    more = True
    while more:
        run = Run(choices, claimer, decisions, faults, preemptions, attempts)
        counts["lies"] += bool(run.lies(run.play()))
        counts["runs"] += 1
        for outcome in run.outcomes.values():
            if isinstance(outcome, Claimed):
                counts["won" if outcome.won else "lost"] += 1
            elif type(outcome) in names:
                counts[names[type(outcome)]] += 1
        more = choices.advance()
    return counts


def claim_trusting_the_error(
    storage: Storage, path: str, body: bytes, decision_id: str, read_id: Callable[[bytes], str], *, attempts: int
) -> Claimed:
    try:
        storage.put_if_absent(path, body)
    except AlreadyExists:
        return Claimed(False, b"")
    return Claimed(True, body)


def claim_forgetting_earlier_tries(
    storage: Storage, path: str, body: bytes, decision_id: str, read_id: Callable[[bytes], str], *, attempts: int
) -> Claimed:
    for _ in range(attempts):
        try:
            storage.put_if_absent(path, body)
            return Claimed(True, body)
        except (AlreadyExists, OutcomeUnknown):
            try:
                found = storage.get(path)
                return Claimed(read_id(found) == decision_id, found)
            except NotFound:
                continue
    raise Unavailable("gave up")


@pytest.mark.full("searches schedules for many seconds")
@pytest.mark.parametrize(
    ("decisions", "faults", "preemptions", "attempts", "floor"),
    [
        pytest.param(("A", "B"), 3, 2, 3, 50_000, id="two decisions"),
        pytest.param(("A", "A"), 3, 2, 3, 50_000, id="two tries of one decision"),
        pytest.param(("A", "B"), 2, 4, 2, 5_000, id="more preemptions"),
        *SOAK,
    ],
)
def test_nobody_is_lied_to(
    decisions: tuple[str, str], faults: int, preemptions: int, attempts: int, floor: int
) -> None:
    counts = search(claim, decisions, faults, preemptions, attempts)
    print(f"claim, {decisions}, up to {faults} faults, {preemptions} preemptions, {attempts} tries: {counts}")
    assert counts["lies"] == 0
    assert counts["runs"] >= floor, "the search explores less than it did"
    assert all(counts[name] for name in ("won", "unavailable", "unknown", "crashed")), counts


@pytest.mark.parametrize("wrong", [claim_trusting_the_error, claim_forgetting_earlier_tries])
def test_the_search_finds_lies_of_wrong_versions(wrong: Claimer) -> None:
    counts = search(wrong, ("A", "B"), 2, 1, 2)
    print(f"{wrong.__name__}: {counts}")
    assert counts["lies"] > 0


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault.ERROR_BEFORE, "won"),
        (Fault.ERROR_AFTER, "won"),
        (Fault.EXISTS_THOUGH_ABSENT, "won"),
        (Fault.EXISTS_BY_ITSELF, "won"),
        (Fault.LANDS_LATER, "won"),
        (Fault.CRASH_BEFORE, "crash"),
        (Fault.CRASH_AFTER, "crash"),
    ],
)
def test_a_lone_claimer_wins_after_one_fault(fault: Fault, expected: str) -> None:
    storage = FaultyStorage(MemoryStorage(), FaultPlan.at(1, fault), lag_operations=1)
    if expected == "crash":
        with pytest.raises(Crash):
            claim(storage, SLOT, b"A:1", "A", read_id)
        assert (storage.inner.head(SLOT) is not None) == (fault is Fault.CRASH_AFTER)
    else:
        assert claim(storage, SLOT, b"A:1", "A", read_id) == Claimed(True, b"A:1")
        assert storage.inner.get(SLOT) == b"A:1"
    assert len(storage.fired) == 1


@pytest.mark.parametrize(
    ("fault", "is_created"),
    [
        (Fault.ERROR_AFTER, False),
        (Fault.EXISTS_THOUGH_ABSENT, True),
        (Fault.EXISTS_BY_ITSELF, False),
        (Fault.LANDS_LATER, True),
    ],
)
def test_a_file_that_every_creator_writes_alike_is_there_after_one_fault(fault: Fault, is_created: bool) -> None:
    storage = FaultyStorage(MemoryStorage(), FaultPlan.at(1, fault))
    assert ensure(storage, SLOT, b"alike") == is_created, "it says so only if it surely created the file"
    assert storage.inner.get(SLOT) == b"alike"
    assert len(storage.fired) == 1


def test_the_bytes_of_an_earlier_try_count() -> None:
    storage = MemoryStorage()
    storage.put(SLOT, b"A:first try")
    assert claim(storage, SLOT, b"A:second try", "A", read_id) == Claimed(True, b"A:first try")
    assert claim(storage, SLOT, b"B:late", "B", read_id) == Claimed(False, b"A:first try")


def test_tries_are_bounded() -> None:
    exists = FaultyStorage(MemoryStorage(), FaultPlan(dict.fromkeys(range(1, 99), Fault.EXISTS_THOUGH_ABSENT)))
    with pytest.raises(OutcomeUnknown, match="3 tries"):
        claim(exists, SLOT, b"A:1", "A", read_id, attempts=3)
    assert exists.history == (f"put_if_absent:{SLOT}", f"get:{SLOT}") * 3
    down = FaultyStorage(MemoryStorage(), FaultPlan(dict.fromkeys(range(1, 99), Fault.ERROR_BEFORE)))
    with pytest.raises(Unavailable):
        claim(down, SLOT, b"A:1", "A", read_id)


def test_a_foreign_body_and_a_wrong_entry_are_named() -> None:
    storage = MemoryStorage()
    with pytest.raises(Internal, match="does not belong to the decision"):
        claim(storage, SLOT, b"A:1", "B", read_id)
    assert storage.head(SLOT) is None
    storage.put(SLOT, b"torn")
    with pytest.raises(Corrupt):
        claim(storage, SLOT, b"A:1", "A", read_id)


@pytest.mark.parametrize("backend", ["memory", "local"])
def test_threads_agree_on_every_owner(backend: str, tmp_path: Path) -> None:
    storage: Storage = MemoryStorage() if backend == "memory" else LocalStorage(tmp_path)
    rounds, start = 50, threading.Barrier(8)

    def race(me: int) -> list[Claimed]:
        faults = {number: list(Fault)[2 + (number + me) % 5] for number in range(1 + me % 3, 400, 3)}
        mine, claimed = FaultyStorage(storage, FaultPlan(faults), lag_operations=2), []
        for number in range(rounds):
            start.wait()
            claimed.append(claim(mine, f"log/{number}", f"{me}:{number}".encode(), str(me), read_id, attempts=20))
        return claimed

    with ThreadPoolExecutor(8) as pool:
        by_actor = list(pool.map(race, range(8)))
    for number in range(rounds):
        body = storage.get(f"log/{number}")
        assert [claimed[number].won for claimed in by_actor] == [str(me) == read_id(body) for me in range(8)]
        assert {claimed[number].body for claimed in by_actor} == {body}
