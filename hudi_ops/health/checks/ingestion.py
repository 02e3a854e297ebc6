"""Age of the newest write that brought rows."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.config.requests.targets import IngestionTargets
from hudi_ops.health.check import Check, Evidence, Facts, Judgement, Measure, NotHere
from hudi_ops.health.look import Look
from hudi_ops.services.inspect.newest_write import newest_ingestion
from hudi_ops.timeline.names import ms_of_instant


@dataclass(frozen=True, kw_only=True)
class IngestionFacts(Facts):
    """The newest write that brought rows; `completed_ms` is in ms since 1970."""

    instant: str
    action: str
    completed_ms: int


def measure(look: Look) -> IngestionFacts | NotHere:
    """Return the newest write that brought rows."""
    found = newest_ingestion(look.session, look.state, frozenset(look.view.files.instants[0]))
    if found is None:
        return NotHere("no write on the timeline has brought rows")
    completed_ms = ms_of_instant(found.completion_time, look.state.zone)
    return IngestionFacts(instant=found.time, action=found.kind, completed_ms=completed_ms)


def judge(facts: IngestionFacts, targets: IngestionTargets, now_ms: int) -> Judgement:
    """Judge the age of the newest write by its target, if there is one."""
    age = Measure("age", max(0, now_ms - facts.completed_ms) / 1000, targets.age, "s")
    since_ms = round(facts.completed_ms + targets.age * 1000) if age.is_missed and targets.age is not None else None
    evidence = (Evidence("instant", facts.instant, f"the newest {facts.action} with rows"),)
    note = "no command brings new rows: look at the program that ingests them" if age.is_missed else ""
    return Judgement((age,), evidence, note=note, since_ms=since_ms)


CHECK = Check("ingestion", IngestionFacts, measure, judge)
