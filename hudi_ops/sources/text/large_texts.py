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
_QUOTE, _NEW_LINE = b'"\n'
_ENDS = {"csv": b",\n", "json": b",:{}[]\n"}
"""Bytes that end a value, outside of quotes."""

Mask = npt.NDArray[np.bool_]


class LargeText(NamedTuple):
    """Value above the limit: its row from 0, and its column; None: not known."""

    row: int
    column: str | None


def large_text(open_body: Callable[[], pa.NativeFile], kind: str, limit_bytes: int) -> LargeText | None:
    """Return the first value of a file that is larger than the limit, or None.

    Raises:
        OSError: the storage did not deliver the file, or it is damaged.
    """
    with open_body() as body:
        scan = _Scan(kind, limit_bytes)
        while block := body.read(_BLOCK_BYTES):
            if (found := scan.feed(block)) is not None:
                return found
    return None


def refuse_large_text(open_body: Callable[[], pa.NativeFile], kind: str, limit_bytes: int, where: str) -> None:
    """Refuse a file with a value that is larger than the limit.

    Raises:
        too_large: there is one; it is an `InvalidRequest` that names column and row.
        OSError: the storage did not deliver the file, or it is damaged.
    """
    found = large_text(open_body, kind, limit_bytes)
    if found is not None:
        raise too_large(where, found.column, found.row, limit_bytes)


class _Scan:
    """Scan of a file from its start, block by block."""

    def __init__(self, kind: str, limit_bytes: int) -> None:
        self._kind, self._limit_bytes = kind, limit_bytes
        self._in_quotes = False
        self._open_bytes = self._rows = self._columns = 0
        self._tail = b"\n"
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
        self._tail = (self._tail + block)[-_KEY_BYTES:]
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
            self._head = block[max(0, int(ends[-1]) - _KEY_BYTES) : int(ends[-1]) + 1]
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
        """Yield where quoted texts begin or end; a doubled quote of CSV is both."""
        is_in = self._in_quotes
        for at in np.flatnonzero(data == _QUOTE).tolist():
            before = block[at - _KEY_BYTES : at] if at >= _KEY_BYTES else self._tail + block[:at]
            if self._kind == "json":
                if (len(before) - len(before.rstrip(b"\\"))) % 2:
                    continue
            elif not is_in and before[-1:] not in {b",", b"\r", b"\n", b'"'}:
                continue  # a quote within an unquoted value is text
            is_in = not is_in
            yield at
