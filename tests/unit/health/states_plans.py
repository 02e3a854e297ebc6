"""Tables whose pending plans miss their targets."""

from __future__ import annotations

from pathlib import Path

from hudi_ops.timeline.content.plan_bytes import encode_compaction
from hudi_ops.timeline.content.plans import CompactionPlan
from hudi_ops.timeline.names import instant_of_ms
from tests.tables import DEFINITION, MERGE_ON_READ, WITH_METADATA
from tests.unit.health.aged import Aged, batch


def plans_missed(tmp_path: Path) -> str:
    """An old plan that is not cancellable, an overdue one, and a partition whose last three plans were cancelled."""
    aged = Aged(tmp_path, MERGE_ON_READ, *(batch(part, value) for value in (1, 2) for part in ("p0", "p1", "p2")))
    table = aged.table("planner")
    table.compaction.plan(partitions=("part=p0",), cancel="never")
    table.compaction.plan(partitions=("part=p1",), cancel="after 1h")
    for _ in range(3):
        made = table.compaction.plan(partitions=("part=p2",), cancel="cancellable")
        assert made.instant is not None
        table.cancel(made.instant, "the cluster is needed elsewhere")
    return aged.path


def clustering_starved(tmp_path: Path) -> str:
    """A table whose file groups were planned three times to be sorted, and each plan was cancelled."""
    aged = Aged(tmp_path, DEFINITION, batch("p0", 1), batch("p1", 1))
    for number in range(3):
        made = aged.table("planner").clustering.plan(sort_by="id", rewrite=True, on_overlap="cancel")
        assert made.instant is not None
        aged.table("writer").ingest(batch("p0", 2 + number))
        aged.table("remover").recover()
    return aged.path


def plans_of_others(tmp_path: Path) -> str:
    """Old plans of three services: a clean and an index build of ours, and a log compaction that only Apache Hudi executes."""
    aged = Aged(tmp_path, WITH_METADATA, *(batch("p0", value) for value in range(1, 5)))
    assert aged.table("cleaner").clean.plan(retain=1).instant is not None
    assert aged.table("planner").indexing.plan(partitions=["bloom_filters"]).instant is not None
    aged.put(
        f".hoodie/timeline/{instant_of_ms(aged.clock.now_ms())}.logcompaction.requested",
        encode_compaction(CompactionPlan(())),
    )
    return aged.path
