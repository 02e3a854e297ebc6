"""Find brackets, commas and colons of JSON outside texts, without parsing it."""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Places: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_QUOTE, _BACKSLASH = b'"\\'
_NULL_FIRST = re.compile(rb"\n(?:\xef\xbb\xbf)?[ \t\r]*null")
_NULL_LINE = re.compile(rb"[^,:\[\s]\s*" + _NULL_FIRST.pattern)
"""A null at the beginning of a line, and outside any object: within one, a comma, a colon or a bracket comes before it."""

_TAIL_BYTES = 256
_IS_TOKEN = np.zeros(256, bool)
_IS_TOKEN[list(b"{}[],:")] = True


class Tokens(NamedTuple):
    """Brackets, commas and colons of a text.

    Attributes:
        at: their offsets.
        kind: the byte there.
        depth: how many containers are open after each.
        quotes: offsets of the quotes that open and close texts.
    """

    at: Places
    kind: npt.NDArray[np.uint8]
    depth: Places
    quotes: Places


def tokens_of(data: npt.NDArray[np.uint8]) -> Tokens:
    """Return the tokens of some whole lines."""
    quotes = np.flatnonzero(data == _QUOTE)
    backslashes = np.flatnonzero(data == _BACKSLASH)
    if backslashes.size:
        # An odd number of backslashes escapes the quote behind them.
        firsts = np.flatnonzero(np.diff(backslashes, prepend=-2) > 1)
        lengths = np.diff(firsts, append=backslashes.size)
        escaped = (backslashes[firsts] + lengths)[lengths % 2 == 1]
        quotes = quotes[~np.isin(quotes, escaped)]
    at = np.flatnonzero(_IS_TOKEN[data])
    at = at[np.searchsorted(quotes, at) % 2 == 0]
    kind = data[at]
    step = np.isin(kind, list(b"{[")).astype(np.int64) - np.isin(kind, list(b"}]"))
    return Tokens(at, kind, np.cumsum(step), quotes)


class NoNullLines:
    """Bytes of a JSON file up to the first line that is `null` instead of an object.

    Arrow's reader would end the process if such a line begins a block. It refuses other values by itself.
    """

    def __init__(self, body: pa.NativeFile) -> None:
        self._body = body
        self._tail = b"}\n"
        self.closed = False

    def read(self, size_bytes: int = -1) -> bytes:
        """Return the next bytes.

        Raises:
            ArrowInvalid: a line in them is `null`.
        """
        block: bytes = self._body.read(size_bytes)
        text = self._tail + block
        if _NULL_FIRST.search(text) and _NULL_LINE.search(text):
            raise pa.ArrowInvalid("a line is null, not an object")
        self._tail = text[-_TAIL_BYTES:]
        return block

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self._body.close()


class WholeLines:
    """Bytes of a file for Arrow's reader, changed or checked some whole lines at a time."""

    def __init__(self, body: pa.NativeFile | NoNullLines | WholeLines) -> None:
        self._body = body
        self._held, self._ready, self._is_at_end = b"", b"", False
        self.closed = False
        self.line_bytes: int | None = None
        """Size of a line above which reading raises `ArrowInvalid`; None: any size."""

    def changed(self, lines: bytes) -> bytes:
        """Return what Arrow reads in place of these lines."""
        raise NotImplementedError

    def read(self, size_bytes: int = -1) -> bytes:
        """Return at most this many of the next bytes.

        Raises:
            ArrowInvalid: a line is larger than `line_bytes`.
        """
        while not self._ready and not self._is_at_end:
            block: bytes = self._body.read(size_bytes)
            self._is_at_end = not block
            lines, newline, rest = block.rpartition(b"\n") if block else (b"", b"\n", b"")
            if newline:
                self._ready = self.changed(self._held + lines + (newline if block else b""))
                self._held = rest
            else:
                self._held += rest
                if self.line_bytes is not None and len(self._held) > self.line_bytes:
                    raise pa.ArrowInvalid("JSON parse error: a line is larger than the block size")
        end = len(self._ready) if size_bytes < 0 else size_bytes
        found, self._ready = self._ready[:end], self._ready[end:]
        return found

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self._body.close()


class BoundedDepth(WholeLines):
    """Bytes of a JSON file up to the first value that is nested too deep.

    Arrow's reader would end the process.
    """

    def __init__(self, body: pa.NativeFile | NoNullLines, depth_max: int) -> None:
        super().__init__(body)
        self._depth_max = depth_max

    def changed(self, lines: bytes) -> bytes:
        """Return the lines as they are.

        Raises:
            ArrowInvalid: one is nested too deep.
        """
        depth = tokens_of(np.frombuffer(lines, np.uint8)).depth
        if depth.size and int(depth.max()) > self._depth_max:
            raise pa.ArrowInvalid(f"{TOO_DEEP} {self._depth_max} levels")
        return lines


TOO_DEEP = "values are nested in more than"
