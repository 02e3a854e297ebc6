"""What is measured beside Apache Hudi: writes where a metadata table is kept, and builds of its partitions; variants, goals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.harness.comparison import Process
from benchmarks.harness.goals import Goal
from benchmarks.ingest.cases import SINGLE, Case as IngestCase

DEFAULT_PARTITIONS = ("files", "column_stats", "partition_stats")
"""Of a new table's metadata table, with Apache Hudi and with us."""

_STATISTICS = ("column_stats", "partition_stats")
"""Apache Hudi builds the one with the other, whatever its options say."""
BESIDE_INDEXER = "beside-indexer"


@dataclass(frozen=True)
class Case(IngestCase):
    """One write, or one build.

    Attributes:
        build: partitions that are built, of a table of which `files` alone is kept; none: rows are written.
        times: the write is done so often, one after the other.
        by_service: Apache Hudi plans and executes the build, as its `HoodieIndexer` does.
    """

    build: tuple[str, ...] = ()
    times: int = 1
    by_service: bool = False

    @property
    def command(self) -> str:
        """What the engine processes are told."""
        if not self.build:
            return "write"
        return "index" if self.by_service else "build"

    @property
    def layout(self) -> str:
        """Cases of one layout begin from one prepared table."""
        return f"{super().layout}{'-files' if self.build else ''}"

    def settings(self) -> dict[str, Any]:
        """What an engine process needs to know."""
        return {**super().settings(), "build": list(self.build), "times": self.times}


CASES = (
    Case(SINGLE, "hundred", SINGLE, 8, "upsert"),
    Case("mor-one", "hundred", SINGLE, 8, "upsert", "mor"),
    Case("upd", "bulk", "upd", 16, "upsert"),
    Case("mor-upd", "bulk", "upd", 16, "upsert", "mor"),
    Case("record-index", "bulk", "", 16, "", build=("record_index",)),
    Case("column-stats", "bulk", "", 16, "", build=_STATISTICS),
    Case("mix", "bulk", "mix", 16, "upsert"),
    Case("mor-mix", "bulk", "mix", 16, "upsert", "mor"),
    Case("one-12", "hundred", SINGLE, 8, "upsert", times=12),
    Case("column-stats-256", "bulk", "", 256, "", build=_STATISTICS),
    Case(BESIDE_INDEXER, "bulk", "", 16, "", build=("record_index", "column_stats"), by_service=True),
)


@dataclass(frozen=True)
class Variant:
    """One program. `engine` names its process; `metadata` says which partitions its tables begin with where rows are written."""

    name: str
    title: str
    engine: str
    metadata: tuple[str, ...] = DEFAULT_PARTITIONS
    is_on_hudis_table: bool = False

    def takes(self, case: Case) -> bool:
        """Whether the variant takes part: writes begin from tables of one's own, and builds from those with a metadata table."""
        return bool(self.metadata) if case.build else not self.is_on_hudis_table

    def partitions(self, case: Case) -> tuple[str, ...]:
        """Which partitions the prepared table has."""
        return ("files",) if case.build else self.metadata


VARIANTS = (
    Variant("hudi", "Apache Hudi", "hudi"),
    Variant("hudi-without", "Apache Hudi, no metadata table", "hudi", ()),
    Variant("local", "hudi_ops, local engine", "local"),
    Variant("local-without", "hudi_ops, local engine, no metadata table", "local", ()),
    Variant("local-hudi", "hudi_ops, local engine, on Apache Hudi's table", "local", is_on_hudis_table=True),
)

PROCESSES = {
    "hudi": Process(("benchmarks.metadata.run_hudi",), on_spark=True),
    "local": Process(("benchmarks.metadata.run_ours",)),
}

_STATS = ("column-stats", "column-stats-256")
GOALS = (
    Goal("one row, wall: at most 0.2 s", (SINGLE, "mor-one"), "local", "wall_s", 0.2, is_floor=False),
    Goal("copy-on-write, CPU: at least 8x Apache Hudi", ("upd", "mix"), "local", "cpu_s", 8.0, over="hudi"),
    Goal("merge-on-read, CPU: at least 12x Apache Hudi", ("mor-upd", "mor-mix"), "local", "cpu_s", 12.0, over="hudi"),
    Goal("record index built, CPU: at least 3x Apache Hudi", ("record-index",), "local", "cpu_s", 3.0, over="hudi"),
    Goal(
        "record index built, the same table, CPU: at least 3x Apache Hudi",
        ("record-index",),
        "local-hudi",
        "cpu_s",
        3.0,
        over="hudi",
    ),
    Goal("column statistics built, CPU: at least 8x Apache Hudi", _STATS, "local", "cpu_s", 8.0, over="hudi"),
    Goal(
        "column statistics built, the same table, CPU: at least 8x Apache Hudi",
        _STATS,
        "local-hudi",
        "cpu_s",
        8.0,
        over="hudi",
    ),
    Goal(
        "indexes built as a service, CPU: at least 3x HoodieIndexer",
        (BESIDE_INDEXER,),
        "local",
        "cpu_s",
        3.0,
        over="hudi",
    ),
    Goal(
        "indexes built as a service, the same table, CPU: at least 3x HoodieIndexer",
        (BESIDE_INDEXER,),
        "local-hudi",
        "cpu_s",
        3.0,
        over="hudi",
    ),
)
