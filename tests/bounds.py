"""How far a test goes in each tier: examples, points of a sweep, seeds, rounds.

`tests/conftest.py` sets the tier before any test module is collected. A run without a tier has the bounds of `full`.
"""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")

TIER = "soak" if os.environ.get("HUDI_OPS_SOAK") else os.environ.get("HUDI_OPS_TIER", "full")
SOAK = TIER == "soak"


def bound(quick: T, full: T, soak: T) -> T:
    """Choose the bound, or the floor, of this run's tier."""
    return {"quick": quick, "full": full, "soak": soak}[TIER]


def examples(full: int, soak: int | None = None) -> int:
    """Choose a number of Hypothesis examples: quick has half of full, and a soak what is given for it, else as many as full."""
    return bound(max(1, full // 2), full, full if soak is None else soak)
