"""Parse JSON files; every kind of damage raises one error, which names the file."""

from __future__ import annotations

import json
from typing import Any

from hudi_ops.errors import Corrupt

DEPTH_MAX = 200
"""Levels of nesting. Written values have less than a tenth of them; the code that walks a value recurses."""


def load_json(data: bytes | str, path: str, expected: str, next_step: str = "restore the file from a copy") -> Any:
    """Parse JSON text.

    Raises:
        Corrupt: no JSON, no UTF-8, or nested more deeply than `DEPTH_MAX`.
    """
    try:
        value = json.loads(data)
    except RecursionError:
        found = "values that are nested too deeply"
    except ValueError as error:
        found = str(error)
    else:
        if not may_be_deep(data) or not is_too_deep(value):
            return value
        found = f"values that are nested more than {DEPTH_MAX} levels deep"
    raise Corrupt(f"{path} is not readable JSON", expected=expected, found=found, next_step=next_step)


def may_be_deep(data: bytes | str) -> bool:
    """Return whether JSON text has enough brackets to exceed `DEPTH_MAX`; the value decides."""
    openings = data.count(b"[") + data.count(b"{") if isinstance(data, bytes) else data.count("[") + data.count("{")
    return openings > DEPTH_MAX


def is_too_deep(value: Any) -> bool:
    """Return whether a JSON value is nested deeper than `DEPTH_MAX`, without recursion."""
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
