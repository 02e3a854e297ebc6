"""What is measured: a clean, an archive and a restore, who does them, and what we aim for."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.harness.comparison import Process
from benchmarks.harness.goals import Goal


@dataclass(frozen=True)
class Case:
    """One table, and the service that is measured upon it.

    Attributes:
        name: the service.
        commits: writes of the table, each of which touches every partition.
        quick: the same in a smoke run.
        partitions: of one file group each.
        cleaned: whether it was cleaned before.
    """

    name: str
    commits: int
    quick: int
    partitions: int
    cleaned: bool = False


CASES = (
    Case("clean", 200, 20, 8),
    Case("archive", 1_020, 60, 1, cleaned=True),
    Case("restore", 60, 12, 8),
)
RETAIN, KEEP_MIN, KEEP_MAX = 10, 20, 30


@dataclass(frozen=True)
class Variant:
    """An engine."""

    name: str
    title: str


VARIANTS = (Variant("ours", "hudi_ops"), Variant("hudi", "Apache Hudi"))

PROCESSES = {
    "ours": Process(("benchmarks.clean.run_ours",)),
    "hudi": Process(("benchmarks.clean.run_hudi",), on_spark=True),
}

GOALS = (
    Goal("CPU: at least 8x Apache Hudi", ("clean", "archive"), "ours", "cpu_s", 8.0, over="hudi"),
    Goal("1,000 instants archived in at most 3 s", ("archive",), "ours", "wall_s", 3.0, is_floor=False),
    Goal("the lock held at most 0.3 s a batch", ("archive",), "ours", "lock_s", 0.3, is_floor=False),
)
