"""The goals of the benchmark of shapes: wall seconds of one call, and ratios to the pyarrow floor."""

from __future__ import annotations

from benchmarks.harness.goals import Goal

GOALS = (
    Goal(
        "2 rows into 1,000 columns: at most 0.5 s",
        ("1000 columns, first", "1000 columns, second"),
        "local",
        "wall_s",
        0.5,
        is_floor=False,
    ),
    Goal(
        "2 rows into 5,000 columns: at most 3 s",
        ("5000 columns, first", "5000 columns, second"),
        "local",
        "wall_s",
        3.0,
        is_floor=False,
    ),
    Goal("read of 1,000 columns: at most 0.3 s", ("1000 columns, read",), "local", "wall_s", 0.3, is_floor=False),
    Goal("read of 5,000 columns: at most 0.8 s", ("5000 columns, read",), "local", "wall_s", 0.8, is_floor=False),
    Goal(
        "a row into each of 5,000 partitions, CPU: at most 3x the floor",
        ("5000 partitions, first", "5000 partitions, second"),
        "floor",
        "cpu_s",
        3.0,
        over="local",
        is_floor=False,
    ),
    Goal(
        "a row into each of 5,000 partitions, wall: at most 3x the floor",
        ("5000 partitions, first", "5000 partitions, second"),
        "floor",
        "wall_s",
        3.0,
        over="local",
        is_floor=False,
    ),
)
