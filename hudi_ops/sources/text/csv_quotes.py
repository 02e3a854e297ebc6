"""Check of CSV quotes: Arrow accepts text after a closing quote, and unclosed quotes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BLOCK_BYTES = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
HEXADECIMAL = r"^[ \t]*0[xX]"
_QUOTE = ord('"')
_BETWEEN_VALUES = np.zeros(256, bool)
_BETWEEN_VALUES[list(b",\r\n")] = True
_BETWEEN_VALUES_OR_QUOTE = _BETWEEN_VALUES.copy()
_BETWEEN_VALUES_OR_QUOTE[_QUOTE] = True


class BadQuote(NamedTuple):
    """Malformed quoted value, as offsets in the file's bytes, uncompressed.

    Attributes:
        opened_at: the value's opening quote.
        closed_at: the first byte behind its closing quote, which should have ended the value; None: no quote closes it.
    """

    opened_at: int
    closed_at: int | None


class QuoteCheck:
    """Check of the quotes of one CSV file from its start, by the rules of Arrow's reader.

    A quote opens a value only at its start; elsewhere in an unquoted value it is text. Within a quoted value two quotes mean
    one, and a single one closes it; a delimiter, the end of the line or the end of the file must follow.
    """

    def __init__(self) -> None:
        self._is_open = False
        self._opened_at = 0
        self._is_at_start = True
        """Whether a value begins after the last decided byte."""
        self._held = b""
        """Quotes at the end of the last block, reduced to one or two: their meaning depends on the next byte."""
        self._held_at = 0
        self._end = 0
        self._has_begun = False

    def feed(self, block: bytes) -> BadQuote | None:
        """Check the next bytes (none: end of file); return the first malformed value or None."""
        if not block:
            return self._last()
        start, self._end = self._end, self._end + len(block)
        if not self._has_begun:
            self._has_begun = True
            if block.startswith(_BYTE_ORDER_MARK):
                start, block = len(_BYTE_ORDER_MARK), block[len(_BYTE_ORDER_MARK) :]
        if not self._held and b'"' not in block:
            self._is_at_start = bool(_BETWEEN_VALUES[block[-1]]) if block else True
            return None
        body = block.rstrip(b'"')
        tail, tail_at = block[len(body) :], start + len(body)
        if not body:
            if not self._held:
                self._held_at = tail_at
            self._held = _shortened(self._held + tail)
            return None
        found = self._follow(self._held + body, start)
        self._is_at_start = bool(_BETWEEN_VALUES[body[-1]])
        self._held, self._held_at = _shortened(tail), tail_at
        return found

    def _last(self) -> BadQuote | None:
        # The end of the file ends a value, as the end of a line does.
        if self._held and (bad := self._follow(self._held + b"\n", self._end)) is not None:
            return bad
        self._held = b""
        return BadQuote(self._opened_at, None) if self._is_open else None

    def _follow(self, body: bytes, start: int) -> BadQuote | None:
        """Check the quotes in `body`: the held ones, and those from the offset `start`."""
        data = np.frombuffer(body, np.uint8)
        quotes = np.flatnonzero(data == _QUOTE)
        if not quotes.size:
            return None
        shift = start - len(self._held)
        return None if self._alternates(data, quotes, shift) else self._follow_runs(data, quotes, shift)

    def _alternates(self, data: npt.NDArray[np.uint8], quotes: npt.NDArray[np.int64], shift: int) -> bool:
        """Process the quotes if they open and close values in turn; False: they may be text."""
        was_open = int(self._is_open)
        opening, closing = quotes[was_open::2], quotes[1 - was_open :: 2]
        # The first half of a doubled quote counts as closing, the second as opening again.
        begins = _BETWEEN_VALUES_OR_QUOTE[data[opening - 1]]
        if opening.size and opening[0] == 0:
            begins[0] = self._is_at_start
        if not (begins.all() and _BETWEEN_VALUES_OR_QUOTE[data[closing + 1]].all()):
            return False
        self._is_open = bool((quotes.size + was_open) % 2)
        if self._is_open:
            gaps = np.diff(quotes, prepend=-2 if not was_open else quotes[0])[was_open::2]
            begun = np.flatnonzero(gaps > 1)
            if begun.size:
                self._opened_at = self._offset(int(opening[begun[-1]]), shift)
        return True

    def _follow_runs(self, data: npt.NDArray[np.uint8], quotes: npt.NDArray[np.int64], shift: int) -> BadQuote | None:
        """Process the quotes as runs: an odd number opens, closes, or is text."""
        is_first = np.diff(quotes, prepend=-2) > 1
        starts = np.flatnonzero(is_first)
        lengths = np.diff(starts, append=quotes.size)
        firsts = quotes[starts]
        ends = firsts + lengths
        opens = _BETWEEN_VALUES[data[firsts - 1]]
        if firsts[0] == 0:
            opens[0] = self._is_at_start
        is_open = self._states(opens, (lengths & 1).astype(bool))
        was_open = np.concatenate(([self._is_open], is_open[:-1]))
        begins = ~was_open & opens
        wrong = np.flatnonzero((was_open | begins) & ~is_open & ~_BETWEEN_VALUES[data[ends]])
        upto = int(wrong[0]) if wrong.size else begins.size - 1
        begun = np.flatnonzero(begins[: upto + 1])
        if begun.size:
            self._opened_at = self._offset(int(firsts[begun[-1]]), shift)
        if wrong.size:
            return BadQuote(self._opened_at, shift + int(ends[upto]))
        self._is_open = bool(is_open[-1])
        return None

    def _offset(self, at: int, shift: int) -> int:
        # Held quotes may have been reduced; their first position is known.
        return self._held_at if at < len(self._held) else shift + at

    def _states(self, opens: npt.NDArray[np.bool_], is_odd: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return whether a quoted value is open after each run."""
        # At a value's start an odd run opens a value, or closes an open one: it toggles. Elsewhere it closes a value or is
        # text: no value is open after it. An even run changes nothing: it is an empty value, doubled quotes, or text.
        toggles = np.cumsum(is_odd & opens)
        closed_at = np.maximum.accumulate(np.where(is_odd & ~opens, np.arange(is_odd.size), -1))
        before = np.where(closed_at >= 0, toggles[closed_at], -int(self._is_open))
        return np.asarray((toggles - before) & 1, bool)


class CheckedBody:
    """Bytes of a CSV file for Arrow's reader, up to the first malformed value."""

    def __init__(self, body: pa.NativeFile) -> None:
        self._body = body
        self._check = QuoteCheck()
        self.closed = False
        self._last = b""
        self._held = b""
        self.has_hexadecimal = False
        """Whether a value may be hexadecimal, which Arrow's reader takes for a whole number."""

    def read(self, size_bytes: int = -1) -> bytes:
        """Return the next bytes.

        Raises:
            ArrowInvalid: they hold or end a malformed value.
        """
        block = self._next(size_bytes)
        if size_bytes and self._check.feed(block) is not None:
            raise pa.ArrowInvalid("a quoted value is malformed")
        self.has_hexadecimal |= b"0x" in block or b"0X" in block or (self._last == b"0" and block[:1] in {b"x", b"X"})
        self._last = block[-1:] or self._last
        return block

    def _next(self, size_bytes: int) -> bytes:
        """Return the next bytes, at most `size_bytes`.

        A file that ends in a comma gets a line break: Arrow takes an empty value at the very end of a file for a quoted one if
        the value before it was quoted. The line break comes with the comma: as a block of its own it would leave the last line out
        of the first block, which tells the types.
        """
        if not size_bytes:
            return b""
        # One byte is left for the line break.
        limit = size_bytes - 1 if size_bytes > 1 else size_bytes
        block, self._held = (self._held[:limit], self._held[limit:]) if limit > 0 else (self._held, b"")
        block = block or self._body.read(limit)
        if block[-1:] == b"," and not self._held:
            self._held = self._body.read(limit) or b"\n"
            if self._held == b"\n" and size_bytes != 1:
                block, self._held = block + self._held, b""
        return block

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self._body.close()


def refuse_bad_quotes(open_body: Callable[[], pa.NativeFile]) -> None:
    """Raise an error for the first malformed value of a file.

    Raises:
        ArrowInvalid: there is one; names its lines, counted from 1.
    """
    check = QuoteCheck()
    with open_body() as body:
        while True:
            block = body.read(BLOCK_BYTES)
            bad = check.feed(block)
            if bad is not None or not block:
                break
    if bad is None:
        return
    opened = _line_of(open_body, bad.opened_at)
    if bad.closed_at is None:
        raise pa.ArrowInvalid(f"line {opened}: a quote opens a value, and no quote closes it before the file ends")
    line = _line_of(open_body, bad.closed_at)
    since = "" if line == opened else f" that began in line {opened}"
    raise pa.ArrowInvalid(f"line {line}: text follows the closing quote of a value{since}")


def _shortened(quotes: bytes) -> bytes:
    return quotes if len(quotes) < 3 else quotes[: 2 - len(quotes) % 2]


def _line_of(open_body: Callable[[], pa.NativeFile], offset: int) -> int:
    line, last = 1, b""
    with open_body() as body:
        while offset > 0 and (block := body.read(min(BLOCK_BYTES, offset))):
            line += block.count(b"\n") + block.count(b"\r") - (last + block).count(b"\r\n")
            last, offset = block[-1:], offset - len(block)
    return line
