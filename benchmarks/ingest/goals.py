"""The goals of the ingest benchmark."""

from __future__ import annotations

from benchmarks.harness.goals import Goal
from benchmarks.ingest.cases import SINGLE

_UPSERTS = ("mix", "upd", "upd-1", "upd-256")
_WRITES = ("bulk", *_UPSERTS, "ins")
_APPENDS = ("mor-mix", "mor-upd")

GOALS = (
    Goal("local, CPU: at least 8x Apache Hudi (bucket)", _UPSERTS, "local", "cpu_s", 8.0, over="hudi"),
    Goal("local, CPU: at least 8x Apache Hudi (bloom)", ("mix", "upd"), "local", "cpu_s", 8.0, over="hudi-bloom"),
    Goal("Spark, CPU: at least 3.5x Apache Hudi (bucket)", _UPSERTS, "spark", "cpu_s", 3.5, over="hudi"),
    Goal("Spark, CPU: at least 3.5x Apache Hudi (bloom)", ("mix", "upd"), "spark", "cpu_s", 3.5, over="hudi-bloom"),
    Goal("local, CPU: at least 0.8x delta-rs MERGE", _UPSERTS, "local", "cpu_s", 0.8, over="delta"),
    Goal(
        "local without meta columns, CPU: at least 1.0x delta-rs MERGE",
        _UPSERTS,
        "local-bare",
        "cpu_s",
        1.0,
        "delta",
    ),
    Goal("local, CPU: at most 1.2x the floor", _WRITES, "floor", "cpu_s", 1.2, over="local", is_floor=False),
    Goal(
        "local without meta columns, CPU: at most 1.2x its floor",
        _WRITES,
        "floor-bare",
        "cpu_s",
        1.2,
        over="local-bare",
        is_floor=False,
    ),
    Goal("local, CPU: bulk insert at least 0.9x delta-rs", ("bulk",), "local", "cpu_s", 0.9, over="delta"),
    Goal("local, wall: one row in at most 0.08 s", (SINGLE,), "local", "wall_s", 0.08, is_floor=False),
    Goal(
        "local, bytes without filters: at most 1.05x the tuned writer's",
        _WRITES,
        "floor",
        "data_bytes",
        1.05,
        over="local",
        is_floor=False,
    ),
    Goal("merge-on-read, local, CPU: at least 8x Apache Hudi", _APPENDS, "local", "cpu_s", 8.0, over="hudi"),
    Goal("merge-on-read, local, wall: at least 3x delta-rs MERGE", _APPENDS, "local", "wall_s", 3.0, over="delta"),
    Goal("merge-on-read, Spark, CPU: at least 2.5x Apache Hudi", _APPENDS, "spark", "cpu_s", 2.5, over="hudi"),
)
