"""Write maps of JSON text as lists of records, since Arrow's reader takes no map.

A map is an object in JSON. `{"k": 1}` becomes `[{"key": "k", "value": 1}]`, where the schema has a map. Names and values stay as
they are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.sources.text.json_scan import Mask, Tokens, WholeLines, tokens_of

_is = pa.types
_OPEN, _OPEN_LIST, _CLOSE, _COLON, _COMMA = b"{[}:,"


def has_map(kind: pa.DataType) -> bool:
    """Return whether a type is a map, or holds one at any depth."""
    return bool(_is.is_map(kind)) or any(has_map(kind.field(at).type) for at in range(kind.num_fields))


class MapsAsLists(WholeLines):
    """Bytes of a JSON lines file, with its maps as lists of records."""

    def __init__(self, body: pa.NativeFile, schema: pa.Schema) -> None:
        super().__init__(body)
        self._row = pa.struct(list(schema))

    def changed(self, lines: bytes) -> bytes:
        """Return lines with their maps as lists."""
        return with_lists(lines, self._row)


def with_lists(lines: bytes, row: pa.StructType) -> bytes:
    """Return whole lines of JSON, of the type `row`, with their maps as lists of records."""
    data = np.frombuffer(lines, np.uint8)
    text = _Text(data, tokens_of(data))
    tokens = text.tokens
    maps = np.zeros(tokens.at.size, bool)
    for found in text.maps(row, (tokens.kind == _OPEN) & (tokens.depth == 1)):
        maps |= found
    if not maps.any():
        return lines
    within = maps[text.container] & (text.container >= 0)
    closes = within & (tokens.kind == _CLOSE)
    is_empty = maps & text.is_empty
    closes_empty = closes & is_empty[text.container]
    return _replaced(
        data,
        (
            (tokens.at[maps & ~is_empty], b'[{"key":'),
            (tokens.at[is_empty], b"["),
            (tokens.at[within & (tokens.kind == _COMMA)], b'},{"key":'),
            (tokens.at[within & (tokens.kind == _COLON)], b',"value":'),
            (tokens.at[closes & ~closes_empty], b"}]"),
            (tokens.at[closes_empty], b"]"),
        ),
    )


class _Text:
    """Tokens of some lines, and the container of each: the token that opens it."""

    def __init__(self, data: npt.NDArray[np.uint8], tokens: Tokens) -> None:
        self._data = data
        self.tokens = tokens
        self._opens = np.isin(tokens.kind, [_OPEN, _OPEN_LIST])
        self._before = np.concatenate((tokens.kind[:1] * 0, tokens.kind[:-1]))
        closes = np.isin(tokens.kind, list(b"}]"))
        # In order of depth, then of place, each container begins with its opening token and ends with its closing one.
        order = np.argsort(tokens.depth + closes, kind="stable")
        self.container = np.empty(order.size, np.int64)
        opened = np.maximum.accumulate(np.where(self._opens[order], np.arange(order.size), -1))
        self.container[order] = np.where(opened >= 0, order[opened], -1)

    @cached_property
    def is_empty(self) -> Mask:
        """Whether nothing stands between a token and the next one but blanks."""
        quotes = np.searchsorted(self.tokens.quotes, self.tokens.at)
        return np.append((quotes[1:] == quotes[:-1]) & (self.tokens.kind[1:] == _CLOSE), False)

    def maps(self, kind: pa.DataType, values: Mask) -> Iterator[Mask]:
        """Yield the tokens that open a map, among these values of a type and what they hold."""
        if not has_map(kind) or not values.any():
            return
        opening = values & (self.tokens.kind == (_OPEN_LIST if _is.is_list(kind) else _OPEN))
        if _is.is_list(kind):
            yield from self.maps(kind.value_type, self._within(opening))
        elif _is.is_map(kind):
            yield opening
            yield from self.maps(kind.item_type, self._within(opening))
        elif _is.is_struct(kind):
            inner = self._within(opening)
            for field in kind:
                if has_map(field.type):
                    yield from self.maps(field.type, self._named(inner, field.name.encode()))

    def _within(self, opening: Mask) -> Mask:
        """Return the containers that are values of these containers."""
        parent = np.concatenate((self.container[:1] * 0 - 1, self.container[:-1]))
        return self._opens & (parent >= 0) & opening[parent]

    def _named(self, values: Mask, name: bytes) -> Mask:
        """Return the values whose name in their object is `name`."""
        chosen = np.flatnonzero(values & (self._before == _COLON))
        ends = np.searchsorted(self.tokens.quotes, self.tokens.at[chosen - 1])
        chosen, ends = chosen[ends >= 2], ends[ends >= 2]
        first, last = self.tokens.quotes[ends - 2] + 1, self.tokens.quotes[ends - 1]
        is_it = last - first == len(name)
        for at, byte in enumerate(name):
            is_it &= self._data[np.minimum(first + at, self._data.size - 1)] == byte
        found = np.zeros(values.size, bool)
        found[chosen[is_it]] = True
        return found


def _replaced(data: npt.NDArray[np.uint8], edits: tuple[tuple[npt.NDArray[np.int64], bytes], ...]) -> bytes:
    """Return the bytes with the one at each place replaced by a text."""
    lengths = np.ones(data.size, np.int64)
    for places, text in edits:
        lengths[places] = len(text)
    starts = np.cumsum(lengths) - lengths
    out = np.zeros(int(lengths.sum()), np.uint8)
    out[starts] = data
    for places, text in edits:
        for at, byte in enumerate(text):
            out[starts[places] + at] = byte
    return out.tobytes()
