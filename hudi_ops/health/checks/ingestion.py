"""Age of the newest write that brought rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from hudi_ops.commit.session import Session
from hudi_ops.config.requests.targets import IngestionTargets
from hudi_ops.health.check import Check, Evidence, Facts, Judgement, Measure, NotHere
from hudi_ops.health.look import Look
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import REWRITING_ACTIONS, ms_of_instant
from hudi_ops.timeline.state import TableState

COMMITS_READ = 2
"""Most commits whose metadata is read; the state of a table has read the newest one."""

_REWRITING = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})


@dataclass(frozen=True, kw_only=True)
class IngestionFacts(Facts):
    """The newest write that brought rows; `completed_ms` is in ms since 1970."""

    instant: str
    action: str
    completed_ms: int


def measure(look: Look) -> IngestionFacts | NotHere:
    """Return the newest write that brought rows."""
    found = _newest_ingestion(look.session, look.state, frozenset(look.view.files.instants[0]))
    if found is None:
        return NotHere("no write on the timeline has brought rows")
    completed_ms = ms_of_instant(found.completion_time, look.state.zone)
    return IngestionFacts(instant=found.time, action=found.kind, completed_ms=completed_ms)


def _newest_ingestion(session: Session, state: TableState, with_files: Collection[str]) -> Instant | None:
    """Return the last completed write that added or changed rows; None: there is none.

    Services are known by their pending words, and otherwise by the metadata of the newest `COMMITS_READ` candidates; so are writes
    without new rows (an alter, a delete, the first commit). Of older candidates the newest with files is returned unread.

    Args:
        session: of this process.
        state: of the table.
        with_files: instants of the table's files.

    Raises:
        Corrupt: the metadata of a candidate cannot be read.
    """
    writes = [one for one in state.timeline.newest_first if one.action not in REWRITING_ACTIONS]
    for write in writes[:COMMITS_READ]:
        metadata = session.commits.metadata(state.timeline, write)
        if metadata is None or metadata.is_merge or metadata.operation in _REWRITING:
            continue
        numbers = metadata.numbers
        if numbers.total("num_inserts") + numbers.total("num_update_writes") > 0:
            return write
    return next((write for write in writes[COMMITS_READ:] if write.time in with_files), None)


def judge(facts: IngestionFacts, targets: IngestionTargets, now_ms: int) -> Judgement:
    """Judge the age of the newest write by its target, if there is one."""
    age = Measure("age", max(0, now_ms - facts.completed_ms) / 1000, targets.age, "s")
    since_ms = round(facts.completed_ms + targets.age * 1000) if age.is_missed and targets.age is not None else None
    evidence = (Evidence("instant", facts.instant, f"the newest {facts.action} with rows"),)
    note = "no command brings new rows: look at the program that ingests them" if age.is_missed else ""
    return Judgement((age,), evidence, note=note, since_ms=since_ms)


CHECK = Check("ingestion", IngestionFacts, measure, judge)
