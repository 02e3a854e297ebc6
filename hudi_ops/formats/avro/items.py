"""Find the items of a long Avro list: an end for each possible start, then the chain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate, repeat
from typing import Final, cast

import numpy as np

from hudi_ops.formats.avro.nodes import Form, Node
from hudi_ops.formats.avro.varints import Bytes, Longs, read_varints, unzigzag

WINDOW_BYTES: Final = 1 << 16


def can_leap(node: Node) -> bool:
    """Return whether an item's end can be computed from any byte: not of lists and maps."""
    return node.form not in {Form.ARRAY, Form.MAP} and all(can_leap(child) for child in node.children)


class ItemChain:
    """Follow the items of a list from one to the next; one window of bytes is read at a time.

    Args:
        nodes: the parts of an item; `can_leap` holds for each.
        end: where the record ends.
        first_byte: the byte that every item begins with; places with other bytes are skipped. None: any byte.
    """

    def __init__(
        self,
        nodes: tuple[Node, ...],
        data: Bytes,
        end: int,
        *,
        window_bytes: int = WINDOW_BYTES,
        first_byte: int | None = None,
    ) -> None:
        self._nodes, self._data, self._end = nodes, data, end
        self._window_bytes, self._first_byte = window_bytes, first_byte
        self._start = self._stop = 0

    def follow(self, at: int, count: int) -> tuple[Longs, int]:
        """Follow `count` items; return where they begin, and the place behind the last of them.

        There are fewer than `count` when the item at the returned place is damaged, or cannot be leapt.
        """
        found: list[Longs] = []
        left = count
        while left and at < self._end:
            if not self._start <= at < self._stop:
                self._look(at)
            # One call into C an item: the place behind an item, looked up in a table of all places.
            steps = repeat(0, min(left, len(self._places) + 1) - 1)
            behind = cast("Callable[[int, int], int]", self._step.item)
            followed: Iterator[int] = accumulate(steps, behind, initial=at - self._start)
            chain = np.fromiter(followed, np.int64)
            chain = chain[chain < self._stop - self._start]
            last = int(np.searchsorted(self._places, chain[-1]))
            if last == len(self._places) or self._places[last] != chain[-1] or self._after[last] < 0:
                found.append(self._start + chain[:-1])
                return np.concatenate(found), self._start + int(chain[-1])
            found.append(self._start + chain)
            left -= len(chain)
            at = int(self._after[last])
        return np.concatenate(found) if found else np.zeros(0, np.int64), at

    def _look(self, start: int) -> None:
        """Read a window: every place in it that an item may begin at."""
        self._start, self._stop = start, min(start + self._window_bytes, self._end)
        size = self._stop - start
        window = self._data[start : self._stop]
        self._places = np.arange(size) if self._first_byte is None else np.nonzero(window == self._first_byte)[0]
        self._after = after = leap_all(self._nodes, self._data, self._places + start, self._end)
        # The next place after each place of the window; `size` behind the window and where bytes are damaged.
        self._step = np.full((size + 1, 1), size, np.int32)
        self._step[self._places, 0] = np.where(after < 0, size, np.minimum(after - start, size))


def leap_all(nodes: tuple[Node, ...], data: Bytes, at: Longs, end: int) -> Longs:
    """Return the positions behind sequences of values; -1 where none is possible."""
    for node in nodes:
        at = _leap(node, data, at, end)
    return at


def _leap(node: Node, data: Bytes, at: Longs, end: int) -> Longs:
    if node.form is Form.NULL:
        return at
    if node.form in {Form.ARRAY, Form.MAP}:
        return np.full(len(at), -1)
    if node.form is Form.RECORD:
        return leap_all(node.children, data, at, end)
    if node.fixed_bytes is not None:
        return _within(at + node.fixed_bytes, at >= 0, end)
    begin = np.maximum(at, 0)
    raw, after = read_varints(data, begin)
    is_good = (at >= 0) & (after > begin) & (after <= end)
    if node.form in {Form.BYTES, Form.STRING}:
        length = unzigzag(raw)
        is_good &= (length >= 0) & (length <= end - after)
        return _within(after + np.where(is_good, length, 0), is_good, end)
    if node.form is not Form.UNION:
        return _within(after, is_good, end)
    branch = unzigzag(raw)
    found = np.full(len(at), -1, np.int64)
    for place, child in enumerate(node.children):
        (which,) = np.nonzero(is_good & (branch == place))
        found[which] = _leap(child, data, after[which], end)
    return found


def _within(after: Longs, is_good: np.ndarray, end: int) -> Longs:
    return np.where(is_good & (after <= end), after, -1)
