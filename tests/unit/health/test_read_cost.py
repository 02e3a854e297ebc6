"""The check `read_cost`: what it says, and that its commands mend the table."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter

from hudi_ops.config.requests.targets import HealthTargets, ReadCostTargets
from hudi_ops.health.check import Judgement, NotHere
from hudi_ops.health.checks.read_cost import CHECK, ReadCostFacts
from hudi_ops.health.plans_before import OtherPlan, PlansBefore
from hudi_ops.services.compaction.read_cost import ReadCost
from hudi_ops.table.table import Table
from tests.unit.health.added_calls import added_calls
from tests.unit.health.bench import facts_of, judged, looked, mend, value_of
from tests.unit.health.states_read_cost import batch, read_cost_missed, table_at


def test_a_compaction_mends_many_log_files(tmp_path: Path) -> None:
    path = read_cost_missed(tmp_path)
    found = judged(path, CHECK)
    assert [(one.name, one.is_missed) for one in found.measures] == [("log_files", True), ("log_ratio", True)]
    assert [one.detail.split(",")[0] for one in found.evidence] == ["11 log files", "11 log files"]
    assert Table.open(path).compaction.explain().measures == {
        f"read_cost.{one.name}": one.value for one in found.measures
    }
    assert added_calls(path, CHECK) == []
    stored = TypeAdapter(ReadCostFacts).dump_json(facts := facts_of(path, CHECK))
    assert TypeAdapter(ReadCostFacts).validate_json(stored) == facts
    mend(path, found)
    assert [one.value for one in judged(path, CHECK).measures] == [0, 0.0]


def test_plans_that_hold_the_slices_are_executed_first(tmp_path: Path) -> None:
    table = table_at(tmp_path / "t", table_type="mor", index="bloom")
    targets = HealthTargets(read_cost=ReadCostTargets(log_files=0))
    for _ in range(2):
        table.ingest(batch(0, 20), operation="bulk_insert")
        table.ingest(batch(20, 40), operation="bulk_insert")
    assert not judged(tmp_path / "t", CHECK, targets).is_missed
    table.ingest(batch(0, 40, 2))
    assert table.clustering.plan().instant is not None
    found = judged(tmp_path / "t", CHECK, targets)
    assert found.commands == (("cluster", "TABLE", "execute"), ("compact", "TABLE"))
    assert len(added_calls(str(tmp_path / "t"), CHECK)) == 1
    mend(tmp_path / "t", found)
    table.ingest(batch(0, 40, 3))
    assert table.compaction.plan().instant is not None
    table.ingest(batch(0, 40, 4))
    found = judged(tmp_path / "t", CHECK, targets)
    assert found.commands == (("compact", "TABLE"), ("compact", "TABLE"))
    mend(tmp_path / "t", found)
    assert value_of(judged(tmp_path / "t", CHECK, targets), "log_files") == 0


def test_a_copy_on_write_table_has_no_read_cost(tmp_path: Path) -> None:
    table_at(tmp_path / "t", table_type="cow", index="bloom")
    assert isinstance(CHECK.measure(looked(tmp_path / "t")), NotHere)


def test_a_ratio_needs_base_files_and_plans_of_others_are_named() -> None:
    def judge(base_bytes: int, before: PlansBefore) -> Judgement:
        facts = ReadCostFacts(cost=ReadCost(1, 500, base_bytes, ()), compacted_ms=None, before=before)
        return CHECK.judge(facts, ReadCostTargets(), 0)

    assert value_of(judge(0, PlansBefore()), "log_ratio") is None
    assert not judge(0, PlansBefore()).is_missed
    assert value_of(judge(1, PlansBefore()), "log_ratio") == 500
    own = judge(1, PlansBefore(begun=("20260101000000000",)))
    assert own.commands == (("compact", "TABLE"),)
    assert "plan 20260101000000000, which another process has begun" in own.note
    begun = judge(1, PlansBefore(others=(OtherPlan("20260101000000000", "cluster", is_begun=True),)))
    assert begun.commands == (("compact", "TABLE"),)
    assert "plan 20260101000000000, which an executor has begun" in begun.note
