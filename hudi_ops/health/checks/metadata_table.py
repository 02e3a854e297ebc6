"""The metadata table: pending instants of its timeline, and log files that readers merge."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.concurrency.lease.lease import Lease
from hudi_ops.config.requests.targets import MetadataTableTargets
from hudi_ops.health.check import TABLE, Check, Evidence, Facts, Judgement, Measure, NotHere
from hudi_ops.health.look import Look
from hudi_ops.services.cancel.pending_plans import time_of
from hudi_ops.services.metadata_table.describe import PendingDelta
from hudi_ops.services.recovery.ended_writers import LATE_MS
from hudi_ops.timeline.names import REWRITING_ACTIONS, WRITE_ACTIONS

_KEPT_MAX = 5


@dataclass(frozen=True)
class LeftDelta:
    """A pending instant without a live writer; `command` are the words that remove it."""

    instant: str
    action: str
    command: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class MetadataTableFacts(Facts):
    """Pending instants without a live writer, and the slice with the most log files.

    The instants are ten minutes old.

    Attributes:
        pending: number of these instants.
        oldest: some of them.
        log_files: log files of the slice.
        partition: in which it lies.
        compact_after: number of deltas after which a write of this session compacts the metadata table.
    """

    pending: int
    oldest: tuple[LeftDelta, ...]
    log_files: int
    partition: str
    compact_after: int


def measure(look: Look) -> MetadataTableFacts | NotHere:
    """Return the facts of the metadata table."""
    if not look.state.config.all_metadata_partitions:
        return NotHere("the table has no metadata table")
    found = look.metadata
    leases = {**look.unread_leases, **look.leases} if found.pending else {}
    clock = look.session.ctx.clock
    live = {one.instant for one in found.pending if one.instant in leases and not leases[one.instant].is_dead(clock)}
    late_ms = {
        one.instant: (time_of(look.state, one.instant) or 0) + LATE_MS
        for one in found.pending
        if one.instant not in live
    }
    # A writer without a heartbeat may be about to complete its instant.
    left = [one for one in found.pending if late_ms.get(one.instant, look.now_ms) < look.now_ms]
    changes = [ms + 1 for ms in late_ms.values() if ms >= look.now_ms]
    changes += [leases[instant].expires_ms + 1 for instant in live]
    used = [one for one in found.partitions if one.state == "used"]
    largest = max(used, key=lambda one: one.slice_log_files, default=None)
    return MetadataTableFacts(
        until_ms=min(changes, default=None),
        pending=len(left),
        oldest=tuple(
            LeftDelta(one.instant, one.action, _command(one, leases.get(one.instant))) for one in left[:_KEPT_MAX]
        ),
        log_files=found.slice_log_files,
        partition=largest.name if largest is not None else "",
        compact_after=look.session.metadata_compact_after,
    )


def _command(pending: PendingDelta, lease: Lease | None) -> tuple[str, ...]:
    """Return the command that removes a pending instant.

    What removes an instant of the data table removes its delta. Nothing of this library ends another pending instant, for example a
    compaction of the metadata table by another program: a rebuild drops it with the metadata table.
    """
    if pending.of_data in REWRITING_ACTIONS | {"indexing"}:
        return ("cancel", TABLE, pending.instant, "--force")
    if pending.of_data == "rollback":
        return ("recover", TABLE, "--abandoned")
    if pending.of_data == "clean":
        return ("clean", TABLE, "execute", "--instant", pending.instant, "--abandoned")
    if pending.of_data in WRITE_ACTIONS:
        return ("recover", TABLE) if lease is not None else ("rollback", TABLE, pending.instant, "--abandoned")
    return ("index", TABLE, "run", "--rebuild")


def judge(facts: MetadataTableFacts, targets: MetadataTableTargets, now_ms: int) -> Judgement:
    """Judge the metadata table by its targets."""
    pending = Measure("pending", facts.pending, targets.pending, "instants")
    logs = Measure("log_ratio", facts.log_files / facts.compact_after, targets.log_ratio)
    commands = [one.command for one in facts.oldest if pending.is_missed]
    commands += [("metadata", "compact", TABLE)] if logs.is_missed else []
    evidence = [
        Evidence("instant", one.instant, f"a pending {one.action} of the metadata table") for one in facts.oldest
    ]
    if facts.log_files:
        detail = f"log files of its largest slice: {facts.log_files}; writes compact after {facts.compact_after} deltas"
        evidence.append(Evidence("index", facts.partition, detail))
    note = "make sure that the other programs have ended: a pending instant may be one that they work on"
    return Judgement(
        (pending, logs), tuple(evidence), tuple(dict.fromkeys(commands)), note if pending.is_missed else ""
    )


CHECK = Check("metadata_table", MetadataTableFacts, measure, judge)
