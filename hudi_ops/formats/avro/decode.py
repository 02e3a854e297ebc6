"""Decoder of Avro values to Arrow arrays, one column of all records at a time.

A lane is one value's position in the bytes: each record has one, each item of a list has one of its own. A step reads the same part
of the schema in every lane at once and advances all of them, so the work in Python follows the schema, not the rows.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.errors import Corrupt, Unsupported
from hudi_ops.formats.avro.decimals import decimals_of
from hudi_ops.formats.avro.items import ItemChain, can_leap
from hudi_ops.formats.avro.nodes import Form, Node
from hudi_ops.formats.avro.varints import Bytes, Longs, as_text, first_invalid, fixed_at, read_varints, spans, unzigzag

_INT_RANGE: Final = (-(2**31), 2**31 - 1)
_IDLE_ITEMS_MAX: Final = 1 << 20
"""Bound of items that take no bytes, such as those of lists of nulls, in all records together: nothing in the file bounds their
number.
"""

_BLOCKS_MAX, _TURNS_MAX = 1 << 12, 1 << 17
"""Most steps in Python for one list: each takes some 100 microseconds. Writers put a list into one block."""

_FEW_LANES: Final = 16
_TURNS_BEFORE_LEAPS: Final = 16
"""Bound of turns per list. Items are found turn by turn in all lists together, until only a few lists remain and this number of
turns has passed for each of them: a turn takes about 100 microseconds for all lists, a leap about as long for 10 to 20 items
of one.
"""


class Lanes:
    """Positions in the bytes, ascending and disjoint.

    Attributes:
        at: where each lane is.
        end: where its record ends.
    """

    __slots__ = ("at", "end", "record")

    def __init__(self, at: Longs, end: Longs, record: Longs) -> None:
        self.at, self.end, self.record = at, end, record

    def __len__(self) -> int:
        return len(self.at)

    def some(self, which: npt.NDArray[np.int64]) -> Lanes:
        """Return a copy of only these lanes."""
        return Lanes(self.at[which], self.end[which], self.record[which])


class Decoder:
    """Decoder of records of one schema in one piece of bytes."""

    def __init__(self, data: Bytes, path: str) -> None:
        self._data, self._path = data, path

    def records(self, node: Node, lanes: Lanes, wanted: Collection[str] | None) -> tuple[list[str], list[pa.Array]]:
        """Return the wanted columns; every record must end where its length says.

        Raises:
            Corrupt: a record does not follow its schema; names the record.
            Unsupported: a list consists of more blocks than any writer makes.
        """
        names, arrays = [], []
        for name, child in zip(node.names, node.children, strict=True):
            is_wanted = wanted is None or name in wanted
            array = self.read(child, lanes, is_wanted)
            if is_wanted and array is not None:
                names.append(name)
                arrays.append(array)
        self._check(lanes.at == lanes.end, lanes, "other bytes after its last value", "values that fill it")
        return names, arrays

    def read(self, node: Node, lanes: Lanes, wanted: bool) -> pa.Array | None:
        """Read the value in each lane, or only move the lanes behind it: then None."""
        if node.form is Form.NULL:
            return pa.nulls(len(lanes), node.arrow) if wanted else None
        if node.form is Form.UNION:
            return self._union(node, lanes, wanted)
        if node.form is Form.RECORD:
            return self._record(node, lanes, wanted)
        if node.form in {Form.ARRAY, Form.MAP}:
            return self._repeated(node, lanes, wanted)
        if node.form in {Form.BYTES, Form.STRING}:
            return self._sized(node, lanes, wanted)
        if node.fixed_bytes is not None:
            return self._fixed(node, lanes, wanted)
        return self._number(node, lanes, wanted)

    def _number(self, node: Node, lanes: Lanes, wanted: bool) -> pa.Array | None:
        values = self._varint(lanes)
        if node.form is Form.ENUM:
            self._check(
                (values >= 0) & (values < len(node.names)), lanes, "another number", f"a symbol of {node.names}"
            )
            return pa.array(node.names, pa.string()).take(pa.array(values)) if wanted else None
        low, high = _INT_RANGE
        if node.form is Form.INT and len(values) and (values.min() < low or values.max() > high):
            self._check((values >= low) & (values <= high), lanes, "a long", "an int")
        if not wanted:
            return None
        numbers = pa.array(values if node.form is Form.LONG else values.astype(np.int32)).view(node.arrow)
        if pa.types.is_time(node.arrow) and (bad := first_invalid(numbers)) is not None:
            self._refuse(lanes, bad, "no time of a day", str(node.arrow))
        return numbers

    def _varint(self, lanes: Lanes) -> Longs:
        values, after = read_varints(self._data, lanes.at)
        self._check(
            (after > lanes.at) & (after <= lanes.end), lanes, "no integer", "one of at most 64 bits, within the record"
        )
        lanes.at = after
        return unzigzag(values)

    def _fixed(self, node: Node, lanes: Lanes, wanted: bool) -> pa.Array | None:
        begin, size = lanes.at, node.fixed_bytes or 0
        lanes.at = begin + size
        self._check(lanes.at <= lanes.end, lanes, "its end", f"{size} bytes")
        if not wanted:
            return None
        if node.form is Form.BOOLEAN:
            values = self._data[begin]
            if len(values) and values.max() > 1:
                self._check(values <= 1, lanes, "another byte", "a boolean")
            return pa.array(values == 1)
        if node.form is Form.FIXED:
            lengths = np.full(len(begin), size)
            if node.is_decimal:
                return self._decimals(node, lanes, begin, lengths)
            values = spans(self._data, begin, lengths)
            return pa.Array.from_buffers(node.arrow, len(begin), [None, values.buffers()[2] or pa.py_buffer(b"")])
        return pa.array(fixed_at(self._data, begin, "<f4" if node.form is Form.FLOAT else "<f8"))

    def _sized(self, node: Node, lanes: Lanes, wanted: bool) -> pa.Array | None:
        lengths = self._varint(lanes)
        begin = lanes.at
        self._check(
            (lengths >= 0) & (lengths <= lanes.end - begin),
            lanes,
            "a length that leads out of it",
            "one within the record",
        )
        lanes.at = begin + lengths
        if not wanted:
            return None
        if node.is_decimal:
            return self._decimals(node, lanes, begin, lengths)
        values = spans(self._data, begin, lengths)
        if node.form is Form.BYTES:
            return values
        text, bad = as_text(values)
        if bad is not None:
            self._refuse(lanes, bad, "bytes that are not UTF-8", "text")
        return text

    def _decimals(self, node: Node, lanes: Lanes, begin: Longs, lengths: Longs) -> pa.Array:
        values, bad = decimals_of(self._data, begin, lengths, node.arrow)
        if bad is not None:
            self._refuse(lanes, bad, "a number that does not fit", str(node.arrow))
        return values

    def _record(self, node: Node, lanes: Lanes, wanted: bool) -> pa.Array | None:
        children = [self.read(child, lanes, wanted) for child in node.children]
        if not wanted:
            return None
        if not children:
            return pa.Array.from_buffers(node.arrow, len(lanes), [None])
        return pa.StructArray.from_arrays(children, fields=list(node.arrow))

    def _union(self, node: Node, lanes: Lanes, wanted: bool) -> pa.Array | None:
        branch = self._varint(lanes)
        count = len(node.children)
        if len(branch) and (branch.min() < 0 or branch.max() >= count):
            self._check(
                (branch >= 0) & (branch < count), lanes, "another branch", f"one of {count} branches of a union"
            )
        valued = [at for at, child in enumerate(node.children) if child.form is not Form.NULL]
        if len(valued) > 1:
            return self._dense(node, lanes, branch, wanted)
        if not valued:
            return pa.nulls(len(lanes), pa.null()) if wanted else None
        child = node.children[valued[0]]
        is_valid = branch == valued[0]
        if is_valid.all():
            return self.read(child, lanes, wanted)
        (which,) = np.nonzero(is_valid)
        inner = lanes.some(which)
        values = self.read(child, inner, wanted)
        lanes.at[which] = inner.at
        return _spread(values, is_valid) if wanted and values is not None else None

    def _dense(self, node: Node, lanes: Lanes, branch: Longs, wanted: bool) -> pa.Array | None:
        """Read a union of several types; nulls lie among the values of the first type."""
        codes = np.zeros(len(lanes), np.int8)
        offsets = np.zeros(len(lanes), np.int32)
        children: list[pa.Array] = []
        is_null = np.isin(branch, [at for at, child in enumerate(node.children) if child.form is Form.NULL])
        for at, child in enumerate(node.children):
            if child.form is Form.NULL:
                continue
            is_here = branch == at
            (which,) = np.nonzero(is_here)
            inner = lanes.some(which)
            values = self.read(child, inner, wanted)
            lanes.at[which] = inner.at
            if not children and wanted and is_null.any():
                is_here |= is_null
                (which,) = np.nonzero(is_here)
                values = _spread(values, ~is_null[which])
            codes[which] = len(children)
            offsets[which] = np.arange(len(which))
            children.append(values)
        if not wanted:
            return None
        names = [field.name for field in node.arrow]
        return pa.UnionArray.from_dense(pa.array(codes), pa.array(offsets), children, names)

    def _repeated(self, node: Node, lanes: Lanes, wanted: bool) -> pa.Array | None:
        """Read lists and maps: blocks of items, each after its count, up to an empty block."""
        totals = np.zeros(len(lanes), np.int64)
        found: list[list[pa.Array]] = []
        owners: list[Longs] = []
        active = np.arange(len(lanes))
        while len(active):
            self._bound(lanes.some(active[:1]), len(found), _BLOCKS_MAX, "blocks in a list")
            inner = lanes.some(active)
            counts = self._varint(inner)
            (sized,) = np.nonzero(counts < 0)
            if len(sized):
                counts[sized] = self._sized_block(inner, sized, counts[sized])
            lanes.at[active] = inner.at
            keep = counts > 0
            active, counts = active[keep], counts[keep]
            if not len(active):
                break
            inner = lanes.some(active)
            found.append(self._items(node, inner, counts, wanted))
            lanes.at[active] = inner.at
            totals[active] += counts
            owners.append(np.repeat(active, counts))
        if not wanted:
            return None
        columns = [_concat([each[place] for each in found], child.arrow) for place, child in enumerate(node.children)]
        if len(owners) > 1:
            order = pa.array(np.argsort(np.concatenate(owners), kind="stable"))
            columns = [column.take(order) for column in columns]
        offsets = np.zeros(len(lanes) + 1, np.int64)
        np.cumsum(totals, out=offsets[1:])
        places = pa.array(offsets.astype(np.int32))
        if node.form is Form.MAP:
            return pa.MapArray.from_arrays(places, *columns, type=node.arrow)
        return pa.ListArray.from_arrays(places, columns[0], type=node.arrow)

    def _sized_block(self, lanes: Lanes, sized: Longs, counts: Longs) -> Longs:
        """Read and check block sizes; a negative count says that the size in bytes follows."""
        inner = lanes.some(sized)
        size = self._varint(inner)
        is_good = (size >= 0) & (size <= inner.end - inner.at) & (counts > -(2**62))
        self._check(is_good, inner, "a block that leads out of it", "one within the record")
        lanes.at[sized] = inner.at
        return -counts

    def _items(self, node: Node, lanes: Lanes, counts: Longs, wanted: bool) -> list[pa.Array]:
        """Read `counts` items in each lane, those of a lane together: one array per child."""
        least = sum(child.min_bytes for child in node.children)
        limit = (lanes.end - lanes.at) // least if least else np.full(len(lanes), _IDLE_ITEMS_MAX // len(lanes))
        self._check(counts <= limit, lanes, "more items than it has bytes for", "items within the record")
        owner = np.repeat(np.arange(len(lanes)), counts)
        inner = Lanes(self._item_starts(node, lanes, counts), lanes.end[owner], lanes.record[owner])
        columns = [self.read(child, inner, wanted) for child in node.children]
        lanes.at = inner.at[np.cumsum(counts) - 1]
        return columns

    def _item_starts(self, node: Node, lanes: Lanes, counts: Longs) -> Longs:
        """Return where each item begins, the items of a lane together."""
        first = np.cumsum(counts) - counts
        widths = [0 if child.form is Form.NULL else child.fixed_bytes for child in node.children]
        sizes = [width for width in widths if width is not None]
        if len(sizes) == len(widths):
            within = np.arange(int(counts.sum())) - np.repeat(first, counts)
            return np.repeat(lanes.at, counts) + within * sum(sizes)
        starts = np.empty(int(counts.sum()), np.int64)
        walker = lanes.some(np.arange(len(lanes)))
        is_leaping = all(map(can_leap, node.children))
        active = np.arange(len(lanes))
        for turn in range(int(counts.max())):
            active = active[counts[active] > turn]
            if is_leaping and len(active) <= _FEW_LANES and turn >= _TURNS_BEFORE_LEAPS * len(active):
                self._leap(node, walker, active, starts, first + turn, counts - turn)
                break
            self._bound(walker.some(active[:1]), turn, _TURNS_MAX, "lists inside of a list")
            starts[first[active] + turn] = walker.at[active]
            inner = walker.some(active)
            for child in node.children:
                self.read(child, inner, wanted=False)
            walker.at[active] = inner.at
        return starts

    def _bound(self, lanes: Lanes, turn: int, limit: int, what: str) -> None:
        if turn >= limit:
            raise Unsupported(
                f"An Avro block of {self._path} has a list in record {lanes.record[0]} that is not read",
                expected=f"at most {limit} {what}",
                found="more",
                next_step="compact the table with the Apache Hudi that wrote the block",
                path=self._path,
                record=int(lanes.record[0]),
            )

    def _leap(self, node: Node, walker: Lanes, active: Longs, starts: Longs, first: Longs, left: Longs) -> None:
        """Find the remaining items of a few long lists, one list at a time."""
        for lane in active:
            at, end = int(walker.at[lane]), int(walker.end[lane])
            chain, behind = ItemChain(node.children, self._data, end).follow(at, int(left[lane]))
            if len(chain) < left[lane]:
                damaged = Lanes(np.array([behind]), walker.end[lane : lane + 1], walker.record[lane : lane + 1])
                self._check(np.array([behind < end]), damaged, "fewer items than it says", f"{left[lane]} items more")
                for child in node.children:
                    self.read(child, damaged, wanted=False)  # raises the error that names the cause
                self._refuse(damaged, 0, "a broken item", "an item of the list")
            starts[first[lane] : first[lane] + len(chain)] = chain

    def _check(self, is_good: npt.NDArray[np.bool_], lanes: Lanes, found: str, expected: str) -> None:
        if not is_good.all():
            self._refuse(lanes, int(np.argmin(is_good)), found, expected)

    def _refuse(self, lanes: Lanes, lane: int, found: str, expected: str) -> NoReturn:
        raise Corrupt(
            f"An Avro block of {self._path} is damaged in record {lanes.record[lane]}",
            expected=expected,
            found=f"{found}, at byte {lanes.at[lane]} of the records",
            next_step="run `hudi-ops verify`; restore the file from a copy",
            path=self._path,
            record=int(lanes.record[lane]),
        )


def _spread(values: pa.Array, is_valid: npt.NDArray[np.bool_]) -> pa.Array:
    """Place values where the mask is true, and nulls elsewhere."""
    places = np.cumsum(is_valid) - 1
    return (
        values.take(pa.array(np.maximum(places, 0), mask=~is_valid))
        if len(values)
        else pa.nulls(len(is_valid), values.type)
    )


def _concat(parts: list[pa.Array], kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays(parts) if parts else pa.nulls(0, kind)
