"""Check `read_cost`: the log files that readers merge, and the compaction that ends that."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.config.requests.targets import ReadCostTargets
from hudi_ops.health.advice import is_missed, planned, waits
from hudi_ops.health.check import EVIDENCE_MAX, TABLE, Check, Evidence, Facts, Judgement, Measure, NotHere
from hudi_ops.health.look import Look
from hudi_ops.health.plans_before import PlansBefore, plans_before
from hudi_ops.services.compaction.read_cost import LoggedSlice, ReadCost, read_cost
from hudi_ops.services.compaction.service import COMPACTION


@dataclass(frozen=True, kw_only=True)
class ReadCostFacts(Facts):
    """Log files of the visible slices.

    Attributes:
        cost: of the table.
        compacted_ms: when a compaction completed last, in ms since 1970; None: none did.
        before: pending plans that come before a compaction of the worst slices.
    """

    cost: ReadCost
    compacted_ms: int | None
    before: PlansBefore


def _measure(look: Look) -> ReadCostFacts | NotHere:
    if look.state.config.table_type != "MERGE_ON_READ":
        return NotHere("a copy-on-write table has no log files")
    cost = read_cost(look.slices)
    groups = [(one.partition_path, one.file_id) for one in cost.worst]
    compacted_ms = look.completed_ms("compaction")
    before = plans_before(look.session, look.state, COMPACTION.action, groups)
    return ReadCostFacts(cost=cost, compacted_ms=compacted_ms, before=before)


def _judge(facts: ReadCostFacts, targets: ReadCostTargets, now_ms: int) -> Judgement:
    cost, units = facts.cost, {"log_files": "log files", "log_ratio": ""}
    measures = tuple(Measure(name, value, getattr(targets, name), units[name]) for name, value in cost.values().items())
    by_bytes = not is_missed(measures, "log_files") and is_missed(measures, "log_ratio")
    worst = sorted(cost.worst, key=lambda one: (-one.log_bytes, -one.log_files) if by_bytes else _by_files(one))
    evidence = tuple(_evidence(one) for one in worst[:EVIDENCE_MAX])
    if not any(one.is_missed for one in measures):
        return Judgement(measures, evidence)
    commands = planned(("compact", TABLE), facts.before)
    return Judgement(measures, evidence, commands, waits(facts.before), mended_ms=facts.compacted_ms)


def _by_files(one: LoggedSlice) -> tuple[int, int]:
    return -one.log_files, -one.log_bytes


def _evidence(one: LoggedSlice) -> Evidence:
    detail = f"{one.log_files:,} log files, {one.log_bytes:,} bytes; base file {one.base_bytes:,} bytes"
    return Evidence("file group", f"{one.partition_path}/{one.file_id}".lstrip("/"), detail)


CHECK = Check("read_cost", ReadCostFacts, _measure, _judge)
