"""What is measured: the cases, the variants that take part in each, and the engine processes that run them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.harness.comparison import Process
from benchmarks.harness.rows import PARTITIONS

SINGLE = "one"
"""The case of one row into a hundred: it costs the protocol alone."""


@dataclass(frozen=True)
class Case:
    """One write that is measured.

    Attributes:
        name: as printed.
        base: rows that the table holds before, as `data.py` names them; empty: none.
        batch: rows that are written.
        groups: file groups of a bucketed table. Fewer than there are partitions: the table has no partitions.
        operation: `upsert`, `insert` or `bulk_insert`.
        table_type: `cow` (copy-on-write) or `mor` (merge-on-read).
    """

    name: str
    base: str
    batch: str
    groups: int
    operation: str
    table_type: str = "cow"

    @property
    def is_partitioned(self) -> bool:
        """Whether the table has partitions."""
        return self.groups >= len(PARTITIONS)

    @property
    def layout(self) -> str:
        """Cases of one layout begin from one prepared table."""
        return f"{self.table_type}-{self.base or 'empty'}-{self.groups}"

    def settings(self) -> dict[str, Any]:
        """What an engine process needs to know."""
        buckets = self.groups // len(PARTITIONS) if self.is_partitioned else self.groups
        return {
            "table_type": self.table_type,
            "partitioned": self.is_partitioned,
            "buckets": buckets,
            "operation": self.operation,
            "in_memory": self.batch == SINGLE,
        }


CASES = (
    Case("bulk", "", "bulk", 16, "bulk_insert"),
    Case("mix", "bulk", "mix", 16, "upsert"),
    Case("upd", "bulk", "upd", 16, "upsert"),
    Case("ins", "bulk", "ins", 16, "insert"),
    Case("upd-1", "bulk", "upd", 1, "upsert"),
    Case("upd-256", "bulk", "upd", 256, "upsert"),
    Case("few", "bulk", "few", 256, "upsert"),
    Case(SINGLE, "hundred", SINGLE, 8, "upsert"),
    Case("mor-mix", "bulk", "mix", 16, "upsert", "mor"),
    Case("mor-upd", "bulk", "upd", 16, "upsert", "mor"),
    Case("mor-one", "hundred", SINGLE, 8, "upsert", "mor"),
)


@dataclass(frozen=True)
class Variant:
    """One writer with its settings. `engine` names the process that runs it; variants of one engine share it."""

    name: str
    title: str
    engine: str
    options: tuple[tuple[str, Any], ...] = ()
    table_types: tuple[str, ...] = ("cow", "mor")

    def takes(self, case: Case) -> bool:
        """Whether the variant takes part: only bucketed tables are made with other numbers of file groups."""
        if case.table_type not in self.table_types:
            return False
        return self.name != "hudi-bloom" or case.groups == 16 or case.name == SINGLE


_COW, _MOR = ("cow",), ("mor",)
VARIANTS = (
    Variant("hudi", "Apache Hudi, bucket index", "hudi", (("index", "BUCKET"),)),
    Variant("hudi-bloom", "Apache Hudi, bloom index", "hudi", (("index", "BLOOM"),), _COW),
    Variant(
        "hudi-parquet", "Apache Hudi, bucket index, Parquet in its logs", "hudi", (("log_format", "parquet"),), _MOR
    ),
    Variant("spark", "hudi_ops, Spark engine", "spark"),
    Variant("local", "hudi_ops, local engine", "local"),
    Variant("local-bare", "hudi_ops, local engine, no meta columns", "local", (("meta_fields", False),), _COW),
    Variant("delta", "delta-rs, tuned", "delta"),
    Variant("floor", "pyarrow floor", "floor", (("meta_fields", True),)),
    Variant("floor-bare", "pyarrow floor, no meta columns", "floor", (("meta_fields", False),), _COW),
)

PROCESSES = {
    "hudi": Process(("benchmarks.ingest.run_hudi",), on_spark=True),
    "spark": Process(("benchmarks.ingest.run_ours", "--engine", "spark"), on_spark=True),
    "local": Process(("benchmarks.ingest.run_ours", "--engine", "local")),
    "delta": Process(("benchmarks.ingest.run_delta",)),
    "floor": Process(("benchmarks.ingest.run_floor",)),
}
