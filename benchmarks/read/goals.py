"""The goals of the read benchmark: wall times of one read, the table opened anew, nothing kept of an earlier read."""

from __future__ import annotations

from benchmarks.harness.goals import Goal

_WHOLE = ("cow-all", "cow-two", "mor-all", "mor-two")
_PARTS = ("cow-part", "cow-key", "mor-part", "mor-key")
_MOST_S = {"cow-part": 0.018, "cow-key": 0.04, "mor-all": 0.25, "mor-two": 0.1, "mor-part": 0.03, "mor-key": 0.08}

GOALS = (
    Goal(
        "with statistics, wall: at most 1.1x of without",
        _WHOLE,
        "ours",
        "wall_s",
        1.1,
        over="ours-statistics",
        is_floor=False,
    ),
    Goal(
        "with statistics, wall: at most 6 ms more than without",
        _PARTS,
        "ours-statistics",
        "more_s",
        0.006,
        is_floor=False,
    ),
    *(
        Goal(f"wall: at most {bound_s * 1000:.0f} ms", (case,), "ours", "wall_s", bound_s, is_floor=False)
        for case, bound_s in _MOST_S.items()
    ),
    Goal("record index, wall: at most 15 ms", ("cow-key",), "ours-record-index", "wall_s", 0.015, is_floor=False),
)
