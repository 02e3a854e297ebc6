"""What is measured: one slice and eight, the variants, and the engine processes that run them; and what we aim for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.harness.comparison import Process
from benchmarks.harness.goals import Goal
from benchmarks.harness.rows import PARTITIONS


@dataclass(frozen=True)
class Case:
    """A table of so many file slices: one without partitions, or one a partition."""

    name: str
    slices: int

    def settings(self) -> dict[str, Any]:
        """What an engine process needs to know."""
        return {"partitioned": self.slices == len(PARTITIONS), "buckets": 1}


CASES = (Case("one-slice", 1), Case("eight-slices", len(PARTITIONS)))


@dataclass(frozen=True)
class Variant:
    """An engine upon a table. `engine` names the process that compacts; the one of `tables_of` wrote the table."""

    name: str
    title: str
    engine: str
    tables_of: str = ""

    @property
    def writer(self) -> str:
        """The engine that prepares the table."""
        return self.tables_of or self.engine


VARIANTS = (
    Variant("hudi", "Apache Hudi", "hudi"),
    Variant("spark", "hudi_ops, Spark engine", "spark"),
    Variant("spark-hudi", "hudi_ops, Spark engine, table of Apache Hudi", "spark", "hudi"),
    Variant("local", "hudi_ops, local engine", "local"),
    Variant("local-hudi", "hudi_ops, local engine, table of Apache Hudi", "local", "hudi"),
    Variant("delta", "delta-rs, MERGE of the folded batches", "delta"),
    Variant("floor", "pyarrow floor", "floor"),
)

PROCESSES = {
    "hudi": Process(("benchmarks.compaction.run_hudi",), on_spark=True),
    "spark": Process(("benchmarks.compaction.run_ours", "--engine", "spark"), on_spark=True),
    "local": Process(("benchmarks.compaction.run_ours", "--engine", "local")),
    "delta": Process(("benchmarks.compaction.run_delta",)),
    "floor": Process(("benchmarks.compaction.run_floor",)),
}

_ALL = tuple(case.name for case in CASES)
GOALS = (
    Goal("local, CPU: at least 6x Apache Hudi, its table", _ALL, "local-hudi", "cpu_s", 6.0, over="hudi"),
    Goal("local, CPU: at least 6x Apache Hudi, each its own table", _ALL, "local", "cpu_s", 6.0, over="hudi"),
    Goal("Spark, CPU: at least 3x Apache Hudi, its table", _ALL, "spark-hudi", "cpu_s", 3.0, over="hudi"),
    Goal("Spark, CPU: at least 3x Apache Hudi, each its own table", _ALL, "spark", "cpu_s", 3.0, over="hudi"),
    Goal("local, CPU: at most 1.3x the floor", _ALL, "floor", "cpu_s", 1.3, over="local", is_floor=False),
)
