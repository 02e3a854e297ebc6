"""The scenarios of the cancel protocol, and the guards that each of them needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.model.cancel import (
    PLANNED,
    abort,
    archive,
    execute,
    ingest,
    model,
    plan_and_execute,
    request,
    sweep,
)
from tests.model.checker import Actor, Model, Report, Steps, World, explore
from tests.model.operations import FOREIGN, NEXT, SHARED, Rules
from tests.model.shared import execute_foreign, ingest_shared, mend, request_shared

SHARED_PLAN = PLANNED._replace(notes=frozenset({SHARED}))
"""A table with one plan that Apache Hudi shares."""


@dataclass(frozen=True)
class Scenario:
    """Actors that run at the same time, and the guards without which a property is violated."""

    name: str
    make: Callable[[Rules], tuple[World, list[Actor]]]
    guards: tuple[str, ...] = ()
    losses: int = 2
    crashes: int = 1
    larger: tuple[int, int] = (3, 2)
    """Lost locks and crashes of a soak."""
    shared: bool = False
    """Apache Hudi shares the table."""

    def model(self, rules: Rules) -> Model:
        """Return the model without the guards that `rules` leaves out."""
        world, actors = self.make(rules)
        mends = (lambda: mend(NEXT, rules)) if self.shared else None
        return model(world, *actors, rules=rules, mend=mends)

    def explore(self, without: str = "", soak: bool = False) -> Report:
        """Reach every state of the scenario; with a guard left out, until the first violation."""
        losses, crashes = self.larger if soak and not without else (self.losses, self.crashes)
        rules = Rules(frozenset({without} - {""}), self.shared)
        return explore(self.model(rules), losses, crashes, stop=bool(without))


def _all_of(*parts: Callable[[], Steps]) -> Callable[[], Steps]:
    """Return the steps of one process that does one thing after another."""

    def steps() -> Steps:
        for part in parts:
            yield from part()

    return steps


def _request(rules: Rules) -> tuple[World, list[Actor]]:
    return PLANNED, [
        Actor("executor", lambda: execute("executor", rules)),
        Actor("requester", lambda: request("requester", rules, times=2)),
        Actor("aborter", lambda: abort("aborter", rules)),
    ]


def _takeover(rules: Rules) -> tuple[World, list[Actor]]:
    return PLANNED, [
        Actor("executor", lambda: execute("executor", rules)),
        Actor("second", lambda: execute("second", rules)),
        Actor("requester", lambda: request("requester", rules)),
    ]


def _aborters(rules: Rules) -> tuple[World, list[Actor]]:
    world = World(
        log=(*PLANNED.log, ("takeover", 1, "dead"), ("cancel", "requester")),
        files=PLANNED.files | {"inflight", "data 1", "queue"},
    )
    return world, [
        Actor("aborter", lambda: abort("aborter", rules)),
        Actor("cleaner", lambda: abort("cleaner", rules)),
    ]


def _sweep(rules: Rules) -> tuple[World, list[Actor]]:
    clean = _all_of(
        lambda: request("cleaner", rules),
        lambda: abort("cleaner", rules),
        lambda: sweep(rules),
    )
    return PLANNED, [
        Actor("executor", lambda: execute("executor", rules, cleans=True)),
        Actor("cleaner", clean),
        Actor("archiver", lambda: archive("archiver", rules)),
    ]


def _ingestion(rules: Rules) -> tuple[World, list[Actor]]:
    return PLANNED, [
        Actor("executor", lambda: execute("executor", rules)),
        Actor("ingestion", lambda: ingest("ingestion", rules)),
        Actor("aborter", lambda: abort("aborter", rules)),
    ]


def _two_ingestions(rules: Rules) -> tuple[World, list[Actor]]:
    return PLANNED, [
        Actor("executor", lambda: execute("executor", rules)),
        Actor("ingestion", lambda: ingest("ingestion", rules)),
        Actor("other", lambda: ingest("other", rules)),
    ]


def _planner(rules: Rules) -> tuple[World, list[Actor]]:
    return World(), [
        Actor("planner", lambda: plan_and_execute("planner", rules)),
        Actor("ingestion", lambda: ingest("ingestion", rules)),
        Actor("requester", lambda: request("requester", rules)),
    ]


def _foreign(rules: Rules, reads_again: bool = False) -> Actor:
    """Return the executor of Apache Hudi; a lock that it lost is a known gap: docs/protocol, section 11."""
    return Actor(FOREIGN, lambda: execute_foreign(rules, reads_again), loses_lock=False)


def _withdraw(rules: Rules) -> tuple[World, list[Actor]]:
    return SHARED_PLAN, [
        _foreign(rules),
        Actor("requester", lambda: request_shared("requester", rules)),
        Actor("aborter", lambda: abort("aborter", rules)),
    ]


def _withdraw_from_one_that_reads_again(rules: Rules) -> tuple[World, list[Actor]]:
    return SHARED_PLAN, [
        _foreign(rules, reads_again=True),
        Actor("requester", lambda: request_shared("requester", rules)),
        Actor("aborter", lambda: abort("aborter", rules)),
    ]


def _withdraw_beside_a_writer(rules: Rules) -> tuple[World, list[Actor]]:
    return SHARED_PLAN, [
        _foreign(rules),
        Actor("requester", lambda: request_shared("requester", rules)),
        Actor("writer", lambda: mend("writer", rules)),
    ]


def _fence(rules: Rules) -> tuple[World, list[Actor]]:
    return SHARED_PLAN, [
        _foreign(rules),
        Actor("executor", lambda: execute("executor", rules)),
        Actor("requester", lambda: request_shared("requester", rules)),
    ]


def _fence_beside_a_writer(rules: Rules) -> tuple[World, list[Actor]]:
    world, actors = _fence(rules)
    return world, [*actors, Actor("writer", lambda: mend("writer", rules))]


def _two_requests(rules: Rules) -> tuple[World, list[Actor]]:
    return SHARED_PLAN, [
        Actor("executor", lambda: execute("executor", rules)),
        Actor("requester", lambda: request_shared("requester", rules)),
        Actor("other", lambda: request_shared("other", rules)),
    ]


def _shared_ingestion(rules: Rules) -> tuple[World, list[Actor]]:
    return SHARED_PLAN, [_foreign(rules), Actor("ingestion", lambda: ingest_shared("ingestion", rules))]


def _shared_ingestion_beside(rules: Rules) -> tuple[World, list[Actor]]:
    return SHARED_PLAN, [
        _foreign(rules),
        Actor("executor", lambda: execute("executor", rules)),
        Actor("ingestion", lambda: ingest_shared("ingestion", rules)),
    ]


def _shared_ingestion_and_request(rules: Rules) -> tuple[World, list[Actor]]:
    return SHARED_PLAN, [
        _foreign(rules),
        Actor("ingestion", lambda: ingest_shared("ingestion", rules)),
        Actor("requester", lambda: request_shared("requester", rules)),
    ]


SCENARIOS = [
    Scenario("request", _request, ("request before abort", "fate in the decision")),
    Scenario("takeover", _takeover, ("slot decides", "epoch in the decision"), larger=(2, 1)),
    Scenario("aborters", _aborters, ("rollback instant",)),
    Scenario("sweep", _sweep, ("second look", "archive waits for swept")),
    Scenario("ingestion", _ingestion, ("slot decides",)),
    Scenario("two ingestions", _two_ingestions, larger=(2, 1)),
    Scenario("plan meanwhile", _planner, ("slot decides",), larger=(2, 1)),
    Scenario(
        "withdraw", _withdraw, ("list again", "wait before the second list", "put back after a crash"), shared=True
    ),
    Scenario("withdraw, reads again", _withdraw_from_one_that_reads_again, ("list again",), shared=True),
    Scenario("withdraw, writer", _withdraw_beside_a_writer, ("no blind put back",), shared=True),
    Scenario("fence", _fence, ("fence before the cancel", "foreign inflight check", "list again"), shared=True),
    Scenario("fence, writer", _fence_beside_a_writer, losses=1, larger=(2, 1), shared=True),
    Scenario("two requests", _two_requests, larger=(2, 1), shared=True),
    Scenario(
        "shared ingestion",
        _shared_ingestion,
        ("withdraw before the complete", "list again", "wait before the second list", "put back after a crash"),
        shared=True,
    ),
    Scenario("shared ingestion, executor", _shared_ingestion_beside, ("no blind put back",), shared=True),
    Scenario("shared ingestion, request", _shared_ingestion_and_request, shared=True),
]
