"""Writers that ended without a completion: dead leases, and writes without a heartbeat."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.config.requests.targets import WritersTargets
from hudi_ops.health.check import EVIDENCE_MAX, Check, Evidence, Facts, Judgement, Measure
from hudi_ops.health.look import Look
from hudi_ops.services.recovery.ended_writers import RECOVER, EndedWriter, EndedWriters, ended_writers


@dataclass(frozen=True, kw_only=True)
class WritersFacts(Facts):
    """Writers that ended, or count as ended once their lease expires."""

    writers: EndedWriters


def measure(look: Look) -> WritersFacts:
    """Return the facts of the writers that ended."""
    found = ended_writers(look.session, look.state, look.leases, look.unread_leases, look.now_ms)
    return WritersFacts(until_ms=found.changes_ms, writers=found)


def judge(facts: WritersFacts, targets: WritersTargets, now_ms: int) -> Judgement:
    """Judge the writers by their targets."""
    found = facts.writers
    dead = [one for one in found.dead if now_ms > one.late_ms]
    silent = [one for one in found.silent if now_ms > one.late_ms]
    of_dead = Measure("dead", len(dead) + found.others_dead, targets.dead, "leases")
    of_silent = Measure("silent", len(silent) + found.others_silent, targets.silent, "instants")
    # A rollback first: what it undoes, `recover` need not look at.
    wrong = [*(silent if of_silent.is_missed else ()), *(dead if of_dead.is_missed else ())]
    commands = [one.command for one in wrong if one.command]
    if of_dead.is_missed and found.others_dead:
        commands.append(RECOVER)
    return Judgement(
        (of_dead, of_silent),
        tuple([*map(_dead, dead), *map(_silent, silent)][:EVIDENCE_MAX]),
        tuple(dict.fromkeys(commands)),
        "make sure that the other programs have ended: --abandoned states that"
        if any("--abandoned" in one.command for one in wrong)
        else "",
        min((one.late_ms for one in wrong), default=None),
    )


def _dead(one: EndedWriter) -> Evidence:
    return Evidence("owner", one.owner, f"its lease of {one.action or 'instant'} {one.instant} is dead")


def _silent(one: EndedWriter) -> Evidence:
    return Evidence("instant", one.instant, f"a pending {one.action} without a heartbeat")


CHECK = Check("writers", WritersFacts, measure, judge)
