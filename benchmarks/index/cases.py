"""What is measured: cases, their variants, and what we aim for."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.harness.comparison import Process
from benchmarks.harness.goals import Goal

BUCKETS = 8
"""Of a partition, in all cases but those of tagging and plans."""


@dataclass(frozen=True)
class Case:
    """One question.

    Attributes:
        size: of tagging, the buckets; of dual writes, the rows of each bucket; of plans, the groups.
        has_metadata: whether the table has a metadata table.
        is_affected: of dual writes, whether the pending resize splits the buckets that are written to.
        has_logs: of resizes, whether a tenth of the rows was updated before.
    """

    name: str
    variants: tuple[str, ...]
    size: int = 0
    has_metadata: bool = False
    is_affected: bool = True
    has_logs: bool = False


_TAGS, _DUAL, _RESIZE = ("simple", "consistent", "resized", "bloom"), ("alone", "beside"), ("hudi", "local")
CASES = (
    Case("tagging-64", _TAGS, 64),
    Case("tagging-512", _TAGS, 512),
    Case("tagging-4096", _TAGS, 4_096),
    Case("dual-50000", _DUAL, 50_000),
    Case("dual-12500", _DUAL, 12_500),
    Case("dual-metadata", _DUAL, 50_000, has_metadata=True),
    Case("dual-others", _DUAL, 12_500, is_affected=False),
    Case("resize", _RESIZE),
    Case("resize-logs", _RESIZE, has_logs=True),
    Case("plan-1000", ("choice", "plan"), 1_000),
)


@dataclass(frozen=True)
class Variant:
    """What is measured in a case."""

    name: str
    title: str

    def has(self, case: Case) -> bool:
        """Whether it takes part in a case."""
        return self.name in case.variants


VARIANTS = (
    Variant("simple", "simple buckets"),
    Variant("consistent", "consistent buckets, initial ring"),
    Variant("resized", "consistent buckets, a ring with other nodes than the initial one"),
    Variant("bloom", "bloom index"),
    Variant("alone", "write, no resize is pending"),
    Variant("beside", "the same write, a resize is pending"),
    Variant("hudi", "Apache Hudi, run_clustering"),
    Variant("local", "hudi_ops, local engine"),
    Variant("choice", "choice and draft of the plan"),
    Variant("plan", "whole plan: list, choose, draft, publish"),
)

PROCESSES = {
    "hudi": Process(("benchmarks.index.run_hudi",), on_spark=True),
    "local": Process(("benchmarks.index.run_ours",)),
}

_TAGGING = tuple(case.name for case in CASES if case.variants == _TAGS)
GOALS = (
    Goal(
        "consistent tagging, CPU: at most 1.1x simple", _TAGGING, "simple", "cpu_s", 1.1, "consistent", is_floor=False
    ),
    Goal("resized rings, CPU: at most 1.1x simple", _TAGGING, "simple", "cpu_s", 1.1, "resized", is_floor=False),
    Goal("simple tagging, CPU: at least 3x bloom", _TAGGING, "simple", "cpu_s", 3.0, "bloom"),
    Goal("consistent tagging, CPU: at least 3x bloom", _TAGGING, "consistent", "cpu_s", 3.0, "bloom"),
    Goal("resized rings, CPU: at least 3x bloom", _TAGGING, "resized", "cpu_s", 3.0, "bloom"),
    Goal(
        "dual write, CPU: at most 1.8x on affected buckets",
        ("dual-50000", "dual-12500", "dual-metadata"),
        "alone",
        "cpu_s",
        1.8,
        "beside",
        is_floor=False,
    ),
    Goal(
        "dual write, CPU: at most 1.05x on others", ("dual-others",), "alone", "cpu_s", 1.05, "beside", is_floor=False
    ),
    Goal("resize, CPU: at least 6x Apache Hudi", ("resize", "resize-logs"), "local", "cpu_s", 6.0, "hudi"),
    Goal("plan of 1,000 groups, CPU: at most 0.1 s", ("plan-1000",), "choice", "cpu_s", 0.1, is_floor=False),
    Goal("plan of 1,000 groups, wall: at most 0.1 s", ("plan-1000",), "choice", "wall_s", 0.1, is_floor=False),
    Goal("whole plan of 1,000 groups, CPU: at most 0.1 s", ("plan-1000",), "plan", "cpu_s", 0.1, is_floor=False),
)
