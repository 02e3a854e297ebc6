"""Check `clean_lag`: files that a clean would delete now, and how long it has been due."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.commit.support import refuse_unserviced
from hudi_ops.config.requests.targets import CleanLagTargets
from hudi_ops.errors import Unsupported
from hudi_ops.health.check import TABLE, Check, Evidence, Facts, Judgement, Measure, NotHere
from hudi_ops.health.look import Look
from hudi_ops.services.clean.measure import CleanLag, clean_lag


@dataclass(frozen=True, kw_only=True)
class CleanLagFacts(Facts):
    """Files that a clean by the table's policy would delete."""

    lag: CleanLag


def measure(look: Look) -> Facts | NotHere:
    """Measure what a clean would delete; raise as `services.clean.measure.clean_lag`."""
    try:
        refuse_unserviced(look.state.config, "a clean")
    except Unsupported as error:
        return NotHere(error.what)
    lag = clean_lag(look.session, look.state, look.view, look.upkeep.clean, look.now_ms)
    return CleanLagFacts(lag=lag, until_ms=lag.until_ms)


def judge(facts: CleanLagFacts, targets: CleanLagTargets, now_ms: int) -> Judgement:
    """Judge the bytes and the age of what a clean would delete."""
    lag = facts.lag
    measures = (
        Measure("share", lag.share, targets.share),
        Measure("age", lag.age_s(now_ms), targets.age, "s"),
    )
    share, age = (measure.is_missed for measure in measures)
    since_ms = None  # since when the share is missed is unknown
    if age and not share and lag.since_ms is not None and targets.age is not None:
        since_ms = lag.since_ms + int(targets.age * 1000)
    commands: list[tuple[str, ...]] = []
    if share or age:
        if lag.pending:
            commands.append(("clean", TABLE, "execute", "--instant", lag.pending))
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
        _note(lag) if lag.files else "",
        since_ms,
    )


def _note(lag: CleanLag) -> str:
    last = f"the last clean is {lag.clean}" if lag.clean else "no clean is on the timeline"
    pending = f"; clean {lag.pending} is pending" if lag.pending else ""
    return f"a clean would delete {lag.files:,} files, {lag.bytes:,} bytes; {last}{pending}"


CHECK = Check("clean_lag", CleanLagFacts, measure, judge)
"""The check."""
