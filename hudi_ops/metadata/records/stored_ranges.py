"""Ranges of columns, read from `column_stats` and `partition_stats` (docs/format §14.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.metadata.records.column_stats import Longs, Ranges
from hudi_ops.metadata.records.records import Records
from hudi_ops.metadata.records.stat_values import NO_TYPE, ValueKind, logical_type, to_logical, value_kind, widened
from hudi_ops.metadata.records.values import types_and_fields

_NO_BRANCH = 0
_UNSAID = -1
_VALUE_TYPE = pa.struct({"typeOrdinal": pa.int32(), "additionalInfo": pa.string()})
_LONG_TEXT = pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary


@dataclass(frozen=True)
class Bounds:
    """One side of ranges: branch of the union (0: null), and position in the branch."""

    values: pa.UnionArray
    branch: npt.NDArray[np.int8]
    place: npt.NDArray[np.int32]

    @classmethod
    def of(cls, values: pa.UnionArray) -> Bounds:
        """Return the side that a union holds."""
        branch = values.type_codes.to_numpy().astype(np.int8) + np.int8(1)
        place = values.offsets.to_numpy()
        first = values.field(0)
        if first.null_count:  # nulls lie among the values of the first branch
            (which,) = np.nonzero(branch == 1)
            is_null = first.is_null().to_numpy(zero_copy_only=False)[place[which]]
            branch[which[is_null]] = _NO_BRANCH
        return cls(values, branch, place)

    def take(self, rows: Longs, branch: int) -> pa.Array:
        """Return the values of these rows, all of one branch."""
        return self.values.field(branch - 1).take(pa.array(self.place[rows])).field(0)


@dataclass(frozen=True, slots=True)
class RangeForm:
    """Encoding of a range's bounds: branch of their union (0: null), and stored type."""

    branch: int
    ordinal: int | None
    info: str | None

    @property
    def written(self) -> ValueKind | None:
        """The encoding for a writer; None where there is neither a bound nor a type."""
        if self.branch == _NO_BRANCH and self.ordinal in (None, NO_TYPE):
            return None
        logical = self.logical
        own = None if self.branch or logical is None else value_kind(logical, 2)
        return ValueKind(self.branch if own is None else own.branch, self.ordinal or 0, self.info)

    @property
    def logical(self) -> pa.DataType | None:
        """Logical type of the bounds; None where it is not known."""
        return logical_type(self.branch, self.ordinal, self.info)

    def ends(self, side: Bounds, rows: Longs) -> pa.Array:
        """Return one bound of ranges of this form, as it is stored."""
        if self.branch != _NO_BRANCH:
            return side.take(rows, self.branch)
        return pa.nulls(len(rows)) if self.written is None else pa.nulls(len(rows), self.written.physical)


@dataclass(frozen=True)
class StoredRanges:
    """Ranges as records hold them, one a row, in the order of the records.

    Attributes:
        names: files, or partition paths.
        counts: values, nulls, size and uncompressed size.
        is_deleted: whether the record only marks the range as deleted; Apache Hudi deletes records instead.
        is_tight: whether it replaces an older one.
        ordinals: type ordinals of the bounds; null in index version 1.
        infos: additional information of the types.
    """

    keys: pa.StringArray
    names: pa.StringArray
    columns: pa.StringArray
    least: Bounds
    greatest: Bounds
    counts: Sequence[Longs]
    is_deleted: npt.NDArray[np.bool_]
    is_tight: npt.NDArray[np.bool_]
    ordinals: pa.Int32Array
    infos: pa.StringArray

    @classmethod
    def read(cls, records: Records, where: str) -> StoredRanges:
        """Read all records.

        Raises:
            Corrupt: a value does not follow the schema.
        """
        _, rows = types_and_fields(records.partition, records.values, records.schema, where)
        count = len(rows)
        fields = {name: rows.field(at) for at, name in enumerate(rows.type.names)}
        said = fields.get("valueType", pa.nulls(count, _VALUE_TYPE))
        return cls(
            records.keys,
            fields["fileName"],
            fields["columnName"],
            Bounds.of(fields["minValue"]),
            Bounds.of(fields["maxValue"]),
            (
                _longs(fields["valueCount"]),
                _longs(fields["nullCount"]),
                _longs(fields["totalSize"]),
                _longs(fields["totalUncompressedSize"]),
            ),
            _flags(fields["isDeleted"]),
            _flags(fields["isTightBound"]) if "isTightBound" in fields else np.zeros(count, bool),
            pc.struct_field(said, "typeOrdinal"),
            pc.struct_field(said, "additionalInfo"),
        )

    def __len__(self) -> int:
        return len(self.keys)

    def of_column(self, column: str, kind: pa.DataType) -> pa.Table:
        """Return ranges of one column in the table's present type (docs/format §14.7).

        Columns: `name`, `least`, `greatest` (of type `kind`), `nulls`, `values`, and `is_known`: whether no value lies outside of
        the bounds; with null bounds, whether every value is null. `is_readable` is False for bounds of a type that says nothing of
        the present one.
        """
        (rows,) = np.nonzero(pc.equal(self.columns, column).to_numpy(zero_copy_only=False) & ~self.is_deleted)
        ends = [pa.nulls(len(rows), kind), pa.nulls(len(rows), kind)]
        is_readable = np.ones(len(rows), bool)
        ids, forms = self.forms()
        for number in np.unique(ids[rows]).tolist():
            (held,) = np.nonzero(ids[rows] == number)
            form = forms[number]
            if form.branch == _NO_BRANCH:
                continue
            found = [_end(side, rows[held], form, kind) for side in (self.least, self.greatest)]
            if found[0] is None or found[1] is None:
                is_readable[held] = False
                continue
            ends = [_put(whole, held, part) for whole, part in zip(ends, found, strict=True)]
        names = self.names.take(pa.array(rows))
        values, nulls = self.counts[0][rows], self.counts[1][rows]
        is_known = is_readable & _is_told(kind, names, ends[0], values, nulls)
        return pa.table({
            "name": names,
            "least": ends[0],
            "greatest": ends[1],
            "nulls": nulls,
            "values": values,
            "is_known": is_known,
            "is_readable": is_readable,
        })

    def ranges(self) -> Ranges:
        """Return the ranges of which `range_values` writes the same records."""
        names, columns = self.names.dictionary_encode(), self.columns.dictionary_encode()
        ids, forms = self.forms()
        bounds = []
        for number, form in enumerate(forms):
            (rows,) = np.nonzero(ids == number)
            bounds.append((form.ends(self.least, rows), form.ends(self.greatest, rows)))
        return Ranges(
            self.index_version,
            columns.dictionary.to_pylist(),
            columns.indices.to_numpy().astype(np.int64),
            names.dictionary.to_pylist(),
            names.indices.to_numpy().astype(np.int64),
            [form.written for form in forms],
            ids,
            bounds,
            self.counts,
        )

    @property
    def index_version(self) -> int:
        """1 when no record names the type of its bounds."""
        return 1 if self.ordinals.null_count == len(self.ordinals) else 2

    def forms(self) -> tuple[Longs, list[RangeForm]]:
        """Return the encoding of each range: a number for each, and the forms by number."""
        infos = self.infos.dictionary_encode()
        is_same = self.least.branch == self.greatest.branch
        coded = np.stack([
            np.where(is_same, self.least.branch, np.int8(_NO_BRANCH)).astype(np.int64),
            self.ordinals.fill_null(_UNSAID).to_numpy().astype(np.int64),
            infos.indices.fill_null(_UNSAID).to_numpy().astype(np.int64),
        ])
        found, ids = np.unique(coded, axis=1, return_inverse=True)
        texts = infos.dictionary.to_pylist()
        forms = [
            RangeForm(branch, None if ordinal == _UNSAID else ordinal, None if info == _UNSAID else texts[info])
            for branch, ordinal, info in found.T.tolist()
        ]
        return ids.reshape(-1), forms


def _end(side: Bounds, rows: Longs, form: RangeForm, kind: pa.DataType) -> pa.Array | None:
    logical = form.logical
    return None if logical is None else widened(to_logical(side.take(rows, form.branch), logical), kind)


def _is_told(kind: pa.DataType, names: pa.Array, least: pa.Array, values: Longs, nulls: Longs) -> npt.NDArray[np.bool_]:
    """Return whether Apache Hudi's range of a base file is complete.

    Apache Hudi uses the footer, without bounds for a column chunk with NaN (Apache Hudi then writes 0) or with a text of more than
    4 KiB (then: all are null), and merges ranges of chunks, and of files, from that. Log files are read row by row.
    """
    is_log = pc.starts_with(names, ".").to_numpy(zero_copy_only=False)
    has_ends = least.is_valid().to_numpy(zero_copy_only=False)
    told: npt.NDArray[np.bool_] = has_ends | (nulls == values)
    if pa.types.is_floating(kind):
        told &= is_log | (values == 0)
    elif any(is_it(kind) for is_it in _LONG_TEXT):
        told &= is_log | (values == 0) | (nulls == 0)
    return told


def _put(whole: pa.Array, places: Longs, part: pa.Array) -> pa.Array:
    order = np.arange(len(whole))
    order[places] = len(whole) + np.arange(len(part))
    return pa.concat_arrays([whole, part]).take(pa.array(order))


def _longs(numbers: pa.Array) -> Longs:
    filled: Longs = (numbers.fill_null(0) if numbers.null_count else numbers).to_numpy()
    return filled


def _flags(flags: pa.Array) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = flags.to_numpy(zero_copy_only=False).astype(bool)
    return found
