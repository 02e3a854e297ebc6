"""Check `clean_lag`: files that a clean would delete now, and how long it has been due."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.commit.support import refuse_unserviced
from hudi_ops.config.requests.targets import CleanLagTargets
from hudi_ops.errors import Unsupported
from hudi_ops.health.check import TABLE, Check, Evidence, Facts, Judgement, Measure, NotHere
from hudi_ops.health.look import Look
from hudi_ops.health.unblock import end_of
from hudi_ops.services.cancel.endings import Words
from hudi_ops.services.clean.measure import CleanLag, clean_lag
from hudi_ops.services.write.automatic import EVERY


@dataclass(frozen=True, kw_only=True)
class CleanLagFacts(Facts):
    """Files that a clean by the table's policy would delete.

    Attributes:
        lag: of the table.
        ends: words of the command that ends a pending clean; empty: none is pending, or a live process executes it.
        awaits: number of writes after which a writer cleans by itself; 0: no writer does, or it is due.
    """

    lag: CleanLag
    ends: Words
    awaits: int


def measure(look: Look) -> Facts | NotHere:
    """Measure what a clean would delete; raise as `services.clean.measure.clean_lag`."""
    try:
        refuse_unserviced(look.state.config, "a clean")
    except Unsupported as error:
        return NotHere(error.what)
    lag = clean_lag(look.session, look.state, look.view, look.upkeep.clean, look.now_ms)
    pending = look.state.timeline.find(lag.pending, "clean") if lag.pending else None
    ends = end_of(look, pending) if pending is not None else ()
    return CleanLagFacts(lag=lag, ends=ends, awaits=_awaits(look, lag), until_ms=lag.until_ms)


def _awaits(look: Look, lag: CleanLag) -> int:
    """Return the number of writes until an automatic clean is due.

    It is 0 if one is due, or if cleans are not automatic.
    """
    if "clean" not in look.upkeep.automatic(look.recorded):
        return 0
    since = sum(one.time > lag.clean for one in look.state.timeline.completed_writes)
    return max(0, EVERY - since)


def judge(facts: CleanLagFacts, targets: CleanLagTargets, now_ms: int) -> Judgement:
    """Judge the bytes and the age of what a clean would delete."""
    lag = facts.lag
    measures = (
        Measure("share", lag.share, targets.share),
        # Between two automatic cleans old files are no backlog, however slowly a table is written.
        Measure("age", lag.age_s(now_ms), None if facts.awaits else targets.age, "s"),
    )
    share, age = (measure.is_missed for measure in measures)
    since_ms = None  # since when the share is missed is unknown
    if age and not share and lag.since_ms is not None and targets.age is not None:
        since_ms = lag.since_ms + int(targets.age * 1000)
    commands: list[tuple[str, ...]] = []
    if share or age:
        if lag.pending:
            commands += [facts.ends] if facts.ends else []
        commands.append(("clean", TABLE))
    return Judgement(
        measures,
        tuple(
            Evidence(
                "file group",
                f"{one.partition_path or '.'}/{one.file_id}",
                f"{one.bytes:,} bytes to delete, superseded since {one.superseded}",
            )
            for one in lag.groups
        ),
        tuple(commands),
        _note(facts) if lag.files else "",
        since_ms,
        lag.clean_ms,
    )


def _note(facts: CleanLagFacts) -> str:
    lag = facts.lag
    last = f"the last clean is {lag.clean}" if lag.clean else "no clean is on the timeline"
    pending = f"; clean {lag.pending} is pending" if lag.pending else ""
    writers = f"; writers clean after {facts.awaits} more writes" if facts.awaits else ""
    return f"a clean would delete {lag.files:,} files, {lag.bytes:,} bytes; {last}{pending}{writers}"


CHECK = Check("clean_lag", CleanLagFacts, measure, judge)
"""The check."""
