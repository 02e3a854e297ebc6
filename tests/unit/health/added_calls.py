"""Count the storage calls that a check adds to those of the table's state and view."""

from __future__ import annotations

from typing import Any

from hudi_ops.health.check import Check
from tests.unit.health.bench import looked


class _Counted:
    """Storage that notes the calls of it."""

    def __init__(self, behind: Any) -> None:
        self._behind = behind
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._behind, name)
        if not callable(found):
            return found

        def noted(*values: Any, **keywords: Any) -> Any:
            self.calls.append(f"{name} {values[0] if values else ''}")
            return found(*values, **keywords)

        return noted


def added_calls(path: str, check: Check) -> list[str]:
    """The calls of a check of the table of a path, once state and view are loaded."""
    look = looked(path)
    assert len(look.slices)
    one_look: Any = look.session.ctx.storage
    one_look.behind = counted = _Counted(one_look.behind)
    check.measure(look)
    return counted.calls
