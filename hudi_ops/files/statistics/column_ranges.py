"""Column ranges of a file: least and greatest value, nulls and sizes.

They come from the footer of a base file or from rows. A footer costs nothing to read, but is incomplete: Arrow ignores NaN, and
leaves out the bounds of a column chunk with a text of more than 4 KiB. Our base files name the float columns with NaN in a key of
their own; missing bounds are computed from the column's values.

Source: docs/format §14.7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_ops.files.base.base_file import float_columns
from hudi_ops.files.base.row_groups import ends_of, keeps_order, leaf_numbers
from hudi_ops.files.base.widen import widen
from hudi_ops.files.statistics.statistics import ColumnRange
from hudi_ops.formats.parquet.footer import nan_columns

Rows: TypeAlias = Callable[[str], Iterable[pa.Table]]
"""Function that yields the rows of a file, of which only the column with this name is read."""

_is = pa.types
_COMPARED = (
    _is.is_boolean,
    _is.is_integer,
    _is.is_float32,
    _is.is_float64,
    _is.is_decimal,
    _is.is_string,
    _is.is_binary,
    _is.is_fixed_size_binary,
    _is.is_date32,
    _is.is_time,
    _is.is_timestamp,
)
_CREATOR_THAT_KEEPS_NAN = "parquet-mr"
"""This writer treats NaN as the greatest value, so that it shows in the statistics; Arrow ignores it."""

_OUR_CREATOR = "parquet-cpp-arrow"
"""Another writer may copy row groups and keys of our files into its own: then neither key nor statistics tell of NaN."""


def ranges_of_base(
    file: pq.ParquetFile, schema: pa.Schema, columns: Sequence[str], rows: Rows | None = None
) -> tuple[ColumnRange, ...]:
    """Return the ranges of a base file.

    Args:
        schema: the columns that base files of the table have, in its present types.
        columns: wanted ones; those below structs have dotted names. One that the file lacks is null in all its rows; one that
            the table lacks, or whose values are not compared (lists, maps, structs), is left out.
        rows: the file's rows, where they are in memory anyway; None: a column that the footer is not enough for is read.

    Raises:
        ArrowInvalid: a page cannot be decoded, or a value does not fit the table's type. Raised by Arrow.
        OSError: the storage did not deliver it.
    """
    given = rows or (lambda name: _read(file, name))
    footer = _Footer.of(file)
    found = (_range_of_base(footer, schema, name, given) for name in columns)
    return tuple(found_range for found_range in found if found_range is not None)


def ranges_of_rows(tables: Iterable[pa.Table], schema: pa.Schema, columns: Sequence[str]) -> tuple[ColumnRange, ...]:
    """Return the ranges of rows of a log file: without sizes, and without values of deletes.

    A column that one of the tables lacks is null in it.

    Raises:
        ArrowInvalid: a value does not fit the table's type. Raised by Arrow.
    """
    kinds = {name: kind for name in columns if (kind := _compared_type(schema, name)) is not None}
    parts: dict[str, list[ColumnRange]] = {name: [] for name in kinds}
    for table in tables:
        for name, kind in kinds.items():
            parts[name].append(_range_of_rows(table, name, kind))
    return tuple(merged_range(parts[name] or [_nulls(name, kind, 0)]) for name, kind in kinds.items())


def merged_range(parts: Sequence[ColumnRange]) -> ColumnRange:
    """Merge ranges of one column and type, at least one."""
    if len(parts) == 1:
        return parts[0]
    least, _ = _ends(pa.concat_arrays([part.least for part in parts]))
    _, greatest = _ends(pa.concat_arrays([part.greatest for part in parts]))
    return ColumnRange(
        parts[0].column,
        least,
        greatest,
        nulls=sum(part.nulls for part in parts),
        values=sum(part.values for part in parts),
        size=sum(part.size for part in parts),
        uncompressed_size=sum(part.uncompressed_size for part in parts),
    )


@dataclass(frozen=True)
class _Footer:
    """Parquet's footer, its parts looked up once for all columns."""

    schema: pa.Schema
    rows: int
    groups: list[pq.RowGroupMetaData]
    leaves: dict[str, int | None]
    """Number of the leaf of each path; None where several have it."""
    roots: frozenset[str]
    keeps_nan: bool
    """Whether NaN shows in the statistics."""
    holds_nan: dict[str, bool]
    """Whether a float column holds NaN, where our key says it."""

    @classmethod
    def of(cls, file: pq.ParquetFile) -> _Footer:
        metadata = file.metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        creator, schema, named = metadata.created_by or "", file.schema_arrow, nan_columns(metadata.metadata)
        keeps_nan = creator.startswith(_CREATOR_THAT_KEEPS_NAN) and named is None
        is_told = named is not None and creator.startswith(_OUR_CREATOR)
        names = frozenset(named or ())
        holds_nan = {name: name in names for name in float_columns(schema)} if is_told else {}
        roots = frozenset(schema.names)
        return cls(schema, metadata.num_rows, groups, leaf_numbers(file), roots, keeps_nan, holds_nan)

    def chunks(self, name: str) -> list[pq.ColumnChunkMetaData] | None:
        """Return the chunks of a flat column; None where several leaves have its name, or none."""
        leaf = self.leaves.get(name)
        return None if leaf is None else [group.column(leaf) for group in self.groups]


def _range_of_base(footer: _Footer, schema: pa.Schema, name: str, rows: Rows) -> ColumnRange | None:
    kind = _compared_type(schema, name)
    if kind is None:
        return None
    if name.partition(".")[0] not in footer.roots:
        return _nulls(name, kind, footer.rows)
    stored, chunks = _type_of(footer.schema, name), footer.chunks(name)
    if stored is None or chunks is None:
        return None
    found = _range_of_chunks(footer, chunks, stored, name, kind)
    if found is None:
        parts = [_range_of_rows(table, name, kind) for table in rows(name)]
        found = merged_range(parts or [_nulls(name, kind, 0)])
    return replace(
        found,
        size=sum(chunk.total_compressed_size for chunk in chunks),
        uncompressed_size=sum(chunk.total_uncompressed_size for chunk in chunks),
    )


def _range_of_chunks(
    footer: _Footer, chunks: Sequence[pq.ColumnChunkMetaData], stored: pa.DataType, name: str, kind: pa.DataType
) -> ColumnRange | None:
    """Return the range by the footer; None when the footer is incomplete."""
    tells_nan = footer.keeps_nan or name in footer.holds_nan
    if not keeps_order(stored, kind) or (_is.is_floating(stored) and not tells_nan):
        return None
    holds_nan, nan = footer.holds_nan.get(name, False), pa.scalar(float("nan"), kind) if _is.is_floating(kind) else None
    parts = []
    for chunk in chunks:
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        ends = [pa.nulls(1, kind)] * 2
        if statistics.null_count < chunk.num_values:
            low, high = ends_of(statistics, stored, kind)
            if holds_nan and not statistics.has_min_max:
                low = high = nan  # Arrow leaves the bounds of floats out only where all of them are NaN
            if low is None or high is None:
                return None
            ends = [_wide_zero(pa.repeat(end, 1), sign) for end, sign in ((low, -0.0), (high, 0.0))]
        parts.append(ColumnRange(name, ends[0], ends[1], statistics.null_count, chunk.num_values))
    found = merged_range(parts or [_nulls(name, kind, 0)])
    return replace(found, greatest=pa.repeat(nan, 1)) if holds_nan else found


def _range_of_rows(rows: pa.Table, name: str, kind: pa.DataType) -> ColumnRange:
    root, *within = name.split(".")
    if not rows.schema.get_all_field_indices(root) or (within and _type_of(rows.schema, name) is None):
        return _nulls(name, kind, rows.num_rows)
    column = rows.column(root)
    if within:
        column = pc.struct_field(column, within)
    if column.type != kind:
        column = widen(column, kind)
    least, greatest = _ends(column)
    return ColumnRange(name, least, greatest, column.null_count, len(column))


def _ends(values: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
    """Return least and greatest value, or null; NaN is above all numbers, -0.0 below 0.0."""
    kind = values.type
    found = pc.min_max(values)
    ends = [pa.repeat(end, 1) if end.is_valid else pa.nulls(1, kind) for end in found.values()]
    if not _is.is_floating(kind):
        return ends[0], ends[1]
    if pc.any(pc.is_nan(values)).as_py():
        ends[1] = pa.array([float("nan")], kind)
    return _wide_zero(ends[0], -0.0), _wide_zero(ends[1], 0.0)


def _wide_zero(end: pa.Array, zero: float) -> pa.Array:
    """Widen a bound to the zero that includes the other zero."""
    return pa.array([zero], end.type) if _is.is_floating(end.type) and end[0].as_py() == 0 else end


def _nulls(name: str, kind: pa.DataType, rows: int) -> ColumnRange:
    return ColumnRange(name, pa.nulls(1, kind), pa.nulls(1, kind), rows, rows)


def _read(file: pq.ParquetFile, name: str) -> Iterator[pa.Table]:
    for number in range(file.num_row_groups):
        # One column of one row group: threads would cost more than they save.
        yield file.read_row_group(number, columns=[name], use_threads=False)


def _compared_type(schema: pa.Schema, name: str) -> pa.DataType | None:
    kind = _type_of(schema, name)
    return kind if kind is not None and any(test(kind) for test in _COMPARED) else None


def _type_of(schema: pa.Schema, name: str) -> pa.DataType | None:
    """Return the type of a column or a field below structs; None unless there is one."""
    fields: pa.Schema | pa.StructType = schema
    kind: pa.DataType | None = None
    for part in name.split("."):
        if kind is not None:
            if not _is.is_struct(kind):
                return None
            fields = kind
        at = fields.get_field_index(part)
        if at < 0:
            return None
        kind = fields.field(at).type
    return kind
