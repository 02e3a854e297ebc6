"""Find a value of CSV or JSON lines above a limit, reading block by block."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.sources.limits import too_large

_BLOCK_BYTES = 1 << 20
_KEY = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:\s*$')
_KEY_BYTES, _NAMES_BYTES_MAX = 1 << 10, 1 << 20
_QUOTE_OR_ESCAPED = re.compile(rb'"|\\[\s\S]?')
_QUOTE, _NEW_LINE = b'"\n'
_VALUE_BEGINS_AFTER = b",\r\n"
_ENDS = {"csv": b",\n", "json": b",:{}[]\n"}
"""Bytes that end a value, outside of quotes."""

Mask = npt.NDArray[np.bool_]


class LargeText(NamedTuple):
    """Value above the limit: its row from 0, and its column; None: not known."""

    row: int
    column: str | None


def refuse_large_text(open_body: Callable[[], pa.NativeFile], kind: str, limit_bytes: int, where: str) -> None:
    """Refuse a file with a value that is larger than the limit.

    Raises:
        too_large: there is one; it is an `InvalidRequest` that names column and row.
        OSError: the storage did not deliver the file, or it is damaged.
    """
    with open_body() as body:
        scan = _Scan(kind, limit_bytes)
        while block := body.read(_BLOCK_BYTES):
            if (found := scan.feed(block)) is not None:
                raise too_large(where, found.column, found.row, limit_bytes)


class _Scan:
    """Scan of a file from its start, block by block."""

    def __init__(self, kind: str, limit_bytes: int) -> None:
        self._kind, self._limit_bytes = kind, limit_bytes
        self._in_quotes = self._has_closed = self._is_escaped = False
        self._open_bytes = self._rows = self._columns = 0
        self._last = _NEW_LINE
        self._tail = b""
        self._head = b""
        """First line of CSV; the bytes before the open value of JSON."""

    def feed(self, block: bytes) -> LargeText | None:
        data = np.frombuffer(block, np.uint8)
        quoted = self._quoted(block, data)
        ends = np.flatnonzero(np.isin(data, np.frombuffer(_ENDS[self._kind], np.uint8)) & ~quoted)
        sizes = np.diff(ends, prepend=-1 - self._open_bytes, append=len(block)) - 1
        large = np.flatnonzero(sizes > self._limit_bytes)
        begun = int(large[0]) if len(large) else len(ends)
        self._pass(block, data, ends[:begun])
        self._open_bytes = int(sizes[-1])
        self._last, self._tail = block[-1], (self._tail + block)[-_KEY_BYTES:]
        # The first line of CSV is no row.
        row = self._rows if self._kind == "json" else max(0, self._rows - 1)
        return LargeText(row, self._column()) if len(large) else None

    def _column(self) -> str | None:
        if self._kind == "json":
            found = _KEY.search(self._head)
            return found[1].decode(errors="replace") if found else None
        if not self._rows:
            return None  # it is a name itself
        names = self._head.decode("utf-8-sig", errors="replace").rstrip("\r\n").split(",")
        return names[self._columns].strip('"') if self._columns < len(names) else None

    def _pass(self, block: bytes, data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> None:
        """Count rows and columns up to the value that is open after these ends."""
        lines = np.flatnonzero(data[ends] == _NEW_LINE)
        if self._kind == "csv":
            if not self._rows:
                self._head = (self._head + (block[: ends[lines[0]]] if len(lines) else block))[:_NAMES_BYTES_MAX]
            self._columns = len(ends) - 1 - int(lines[-1]) if len(lines) else self._columns + len(ends)
        elif len(ends):
            self._head = (self._tail + block[: int(ends[-1]) + 1])[-_KEY_BYTES:]
        self._rows += len(lines)

    def _quoted(self, block: bytes, data: npt.NDArray[np.uint8]) -> Mask:
        """Return which bytes are in quotes."""
        changes = list(self._changes(block, data))
        flips = np.zeros(len(block) + 1, np.int8)
        flips[changes] = 1
        begins_in = self._in_quotes
        self._in_quotes ^= bool(len(changes) % 2)
        return np.asarray((np.cumsum(flips[:-1]) + begins_in) % 2 == 1, bool)

    def _changes(self, block: bytes, data: npt.NDArray[np.uint8]) -> Iterator[int]:
        """Yield where quoted texts begin or end."""
        return self._csv_changes(block, data) if self._kind == "csv" else self._json_changes(block)

    def _csv_changes(self, block: bytes, data: npt.NDArray[np.uint8]) -> Iterator[int]:
        # A quote opens a text only where a value begins; a doubled one closes it and opens it again.
        is_in, closed_at = self._in_quotes, -1 if self._has_closed else None
        for at in np.flatnonzero(data == _QUOTE).tolist():
            before = block[at - 1] if at else self._last
            if is_in:
                closed_at = at
            elif before not in _VALUE_BEGINS_AFTER and closed_at != at - 1:
                continue
            is_in = not is_in
            yield at
        self._has_closed = closed_at == len(block) - 1

    def _json_changes(self, block: bytes) -> Iterator[int]:
        ends_escaped = False
        for found in _QUOTE_OR_ESCAPED.finditer(block, int(self._is_escaped)):
            if found[0] == b'"':
                yield found.start()
            elif found[0] == b"\\":
                ends_escaped = True
        self._is_escaped = ends_escaped
