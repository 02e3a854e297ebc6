"""Where the items of one long Avro list begin: read from every byte at once, then followed from the first one."""

from __future__ import annotations

from itertools import accumulate, repeat
from typing import Final

import numpy as np

from hudi_ops.formats.avro.nodes import Form, Node
from hudi_ops.formats.avro.varints import Bytes, Longs, read_varints, unzigzag

WINDOW_BYTES: Final = 1 << 16


def can_leap(node: Node) -> bool:
    """Whether an item's end can be told from any byte: not that of lists and maps, which must be read in turn."""
    return node.form not in {Form.ARRAY, Form.MAP} and all(can_leap(child) for child in node.children)


def item_chain(nodes: tuple[Node, ...], data: Bytes, at: int, end: int, count: int) -> tuple[Longs, int]:
    """Follow the items of one list.

    Args:
        nodes: what an item consists of; `can_leap` holds for each.
        data: padded content.
        at: where the first item begins.
        end: where the record ends.
        count: how many items there are.

    Returns:
        Where the items begin, as far as they can be followed, and the place behind the last of them. There are fewer than
        `count` when an item is damaged: the next one, at the returned place.
    """
    found: list[Longs] = []
    left = count
    while left and at < end:
        size = min(WINDOW_BYTES, end - at)
        after = leap_all(nodes, data, np.arange(at, at + size), end)
        # Steps within the window; behind it, and at damage, the chain stays where it is.
        step = np.full((size + 1, 1), size, np.int64)
        step[:-1, 0] = np.where(after < 0, size, np.minimum(after - at, size))
        chain = np.fromiter(accumulate(repeat(0, min(left, size) - 1), step.item, initial=0), np.int64)
        chain = chain[chain < size]
        if after[chain[-1]] < 0:
            bad = int(np.argmax(after[chain] < 0))
            found.append(at + chain[:bad])
            return np.concatenate(found), at + int(chain[bad])
        found.append(at + chain)
        left -= len(chain)
        at = int(after[chain[-1]])
    return np.concatenate(found) if found else np.zeros(0, np.int64), at


def leap_all(nodes: tuple[Node, ...], data: Bytes, at: Longs, end: int) -> Longs:
    """The places behind values that begin at these places, one after the other; -1 where none can be there."""
    for node in nodes:
        at = _leap(node, data, at, end)
    return at


def _leap(node: Node, data: Bytes, at: Longs, end: int) -> Longs:
    if node.form is Form.NULL:
        return at
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
