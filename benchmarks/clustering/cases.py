"""What is measured: orders of rows, the variants, and the engine processes that run them; and what we aim for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.harness.comparison import Process
from benchmarks.harness.goals import Goal

FILES = 4
"""Files of each partition before the clustering."""
BOX_FILES = 50
"""Files of the table that a box filter reads some of."""
ROOM_BYTES = 1 << 30
SMALL_BYTES = 16 << 20
"""Memory of a task in which no partition of a million rows in eight fits."""


@dataclass(frozen=True)
class Case:
    """An order of rows. With a box, the files are counted that a filter of 10 % by 10 % reads."""

    name: str
    curve: str
    columns: tuple[str, ...]
    is_box: bool = False
    memory_bytes: int = ROOM_BYTES

    def settings(self) -> dict[str, Any]:
        """What an engine process needs to know."""
        return {
            "curve": self.curve,
            "columns": list(self.columns),
            "partitioned": not self.is_box,
            "files": FILES,
            "outputs": BOX_FILES if self.is_box else 1,
            "memory_bytes": self.memory_bytes,
        }


_TWO = ("begin_lat", "fare")
CASES = (
    Case("sort", "linear", ("rider",)),
    Case("sort-on-disk", "linear", ("rider",), memory_bytes=SMALL_BYTES),
    Case("z-order", "z-order", _TWO),
    Case("hilbert", "hilbert", _TWO),
    Case("box-z-order", "z-order", _TWO, is_box=True),
    Case("box-hilbert", "hilbert", _TWO, is_box=True),
)


@dataclass(frozen=True)
class Variant:
    """An engine, and the curves that it has."""

    name: str
    title: str
    curves: frozenset[str]

    def has(self, case: Case) -> bool:
        """Whether the engine takes part in a case."""
        if case.is_box or case.memory_bytes < ROOM_BYTES:
            return self.name == "local"
        return case.curve in self.curves


_OURS = frozenset({"linear", "z-order", "hilbert"})
VARIANTS = (
    Variant("hudi", "Apache Hudi, run_clustering", frozenset({"linear"})),
    Variant("spark", "hudi_ops, tasks on the Spark engine", _OURS),
    Variant("local", "hudi_ops, tasks on the local engine", _OURS),
    Variant("delta", "delta-rs, optimize.z_order", frozenset({"z-order"})),
    Variant("floor", "pyarrow floor, with a bloom filter", frozenset({"linear"})),
    Variant("bare", "pyarrow floor, without a bloom filter", frozenset({"linear"})),
)

PROCESSES = {
    "hudi": Process(("benchmarks.clustering.run_hudi",), on_spark=True),
    "spark": Process(("benchmarks.clustering.run_ours", "--engine", "spark"), on_spark=True),
    "local": Process(("benchmarks.clustering.run_ours", "--engine", "local")),
    "delta": Process(("benchmarks.clustering.run_delta",)),
    "floor": Process(("benchmarks.clustering.run_floor", "--filter")),
    "bare": Process(("benchmarks.clustering.run_floor",)),
}

_BOXES = ("box-z-order", "box-hilbert")
GOALS = (
    Goal("local, CPU: at least 10x Apache Hudi", ("sort",), "local", "cpu_s", 10.0, over="hudi"),
    Goal("Spark, CPU: at least 4x Apache Hudi", ("sort",), "spark", "cpu_s", 4.0, over="hudi"),
    Goal("local, CPU: at most 1.4x the floor", ("sort",), "floor", "cpu_s", 1.4, over="local", is_floor=False),
    Goal("local, wall: at most 1.4x the floor", ("sort",), "floor", "wall_s", 1.4, over="local", is_floor=False),
    Goal("local, CPU: at least 1.2x delta-rs", ("z-order",), "local", "cpu_s", 1.2, over="delta"),
    Goal("local, wall: at least 1.2x delta-rs", ("z-order",), "local", "wall_s", 1.2, over="delta"),
    Goal("a box of 10 % by 10 % reads at most 0.4 of the files", _BOXES, "local", "box_share", 0.4, is_floor=False),
)
