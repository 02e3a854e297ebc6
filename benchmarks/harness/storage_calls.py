"""Counts the calls that one write makes on storage: what a commit costs where every call is a round trip."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

_CALLS = frozenset({
    "get",
    "open_input",
    "head",
    "list",
    "list_folder",
    "list_new",
    "put",
    "put_if_absent",
    "delete",
    "delete_all",
    "sweep_temp",
})
"""`delete_all` is one request on an object store, and one call a file elsewhere."""
_COUNTED_AS = {"list_new": "list_folder"}
"""The same request on an object store."""


class CountingStorage:
    """Passes everything on to a storage and counts the calls of its contract by name.

    Args:
        inner: the storage that does it.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.paths: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name not in _CALLS:
            return value

        call = _COUNTED_AS.get(name, name)

        def counted(*given: Any, **named: Any) -> Any:
            with self._lock:
                self.calls[call] += 1
                first = given[0] if given else ""
                self.paths.append((call, str(first[-1] if isinstance(first, list) else first)))
            return value(*given, **named)

        return counted
