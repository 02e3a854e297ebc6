"""Records of the partition `column_stats`, and encoding of ranges (docs/format §14.7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.errors import Unsupported
from hudi_ops.files.statistics.statistics import ColumnRange, FileStatistics
from hudi_ops.formats.avro.encode import Piece, encode_column, join
from hudi_ops.formats.avro.nodes import Node
from hudi_ops.formats.avro.varints import pieces, varint_rows, zigzag
from hudi_ops.metadata.records.keys import bloom_filter_key, column_stats_key, product_keys
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.records import Records, deletes_only, sorted_records
from hudi_ops.metadata.records.stat_values import NO_TYPE, ValueKind, to_physical, value_kind
from hudi_ops.metadata.records.values import FIRST, field_node, framed

_STATS: Final = MetadataPartition.COLUMN_STATS
_NULL: Final = b"\x00"
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of columns in files or partitions, one a row, as they are written.

    Attributes:
        index_version: 2 stores the type of bounds, 1 does not.
        columns: names of columns, each once.
        column_at: for each range the position of its column.
        names: files or partitions, each once.
        name_at: for each range the position of its name.
        kinds: encodings of bounds, each once; None for no type at all.
        kind_at: for each range the position of its kind.
        bounds: for each kind its least and greatest physical values, in the order of the ranges that have it; null: none.
        counts: values, nulls, size and uncompressed size of each range.
    """

    index_version: int
    columns: Sequence[str]
    column_at: Longs
    names: Sequence[str]
    name_at: Longs
    kinds: Sequence[ValueKind | None]
    kind_at: Longs
    bounds: Sequence[tuple[pa.Array, pa.Array]]
    counts: Sequence[Longs]


def column_stats_records(
    statistics: Sequence[FileStatistics], *, version: int, index_version: int | None = None
) -> Records:
    """Return records of all ranges of these files.

    A column without a range has no record, and Apache Hudi then takes it for one of nulls as soon as a filter reads another column,
    too: `stat_values.widest` gives bounds that are safe. `index_version` None: that of a new table.

    Raises:
        Unsupported: a range in a type that has no bounds in a metadata table.
    """
    found = [each for stat in statistics for each in stat.ranges]
    owner = np.repeat(np.arange(len(statistics)), [len(stat.ranges) for stat in statistics])
    ranges = ranges_of(
        found, [stat.name for stat in statistics], owner, index_version or default_index_version(version)
    )
    rest = pa.array([bloom_filter_key(stat.partition_path, stat.name) for stat in statistics], pa.string())
    keys = product_keys(ranges.columns, rest, pa.array(ranges.column_at), pa.array(owner))
    return sorted_records(_STATS, keys, range_values(_STATS, ranges, is_tight=False, version=version), version=version)


def default_index_version(version: int) -> int:
    """Return the statistics version of a new table; an upgraded table keeps its own."""
    return 2 if version >= 9 else 1


def removed_stats(files: Iterable[tuple[str, str]], columns: Sequence[str], *, version: int) -> Records:
    """Return deletes of the ranges of cleaned files; a key without a record is harmless."""
    gone = (column_stats_key(column, path, name) for path, name in files for column in columns)
    return deletes_only(_STATS, gone, version=version)


def ranges_of(found: Sequence[ColumnRange], names: Sequence[str], name_at: Longs, index_version: int) -> Ranges:
    """Group ranges by type, so that each type's bounds are one array.

    Raises:
        Unsupported: a type that has no bounds in a metadata table.
    """
    columns = {name: at for at, name in enumerate(dict.fromkeys(each.column for each in found))}
    types: dict[pa.DataType | None, int] = {}
    kind_at = np.fromiter(
        (types.setdefault(each.least.type if each.values else None, len(types)) for each in found), np.int64, len(found)
    )
    kinds: list[ValueKind | None] = []
    bounds = []
    for at, kind in enumerate(types):
        written = None if kind is None or pa.types.is_null(kind) else kind_of(kind, index_version)
        kinds.append(written)
        (which,) = np.nonzero(kind_at == at)
        if written is None:
            bounds.append((pa.nulls(len(which)), pa.nulls(len(which))))
            continue
        least = pa.concat_arrays([found[place].least for place in which.tolist()])
        greatest = pa.concat_arrays([found[place].greatest for place in which.tolist()])
        bounds.append((to_physical(least, written), to_physical(greatest, written)))
    counts = tuple(
        np.fromiter(numbers, np.int64, len(found))
        for numbers in (
            (each.values for each in found),
            (each.nulls for each in found),
            (each.size for each in found),
            (each.uncompressed_size for each in found),
        )
    )
    column_at = np.fromiter((columns[each.column] for each in found), np.int64, len(found))
    return Ranges(index_version, list(columns), column_at, names, name_at, kinds, kind_at, bounds, counts)


def kind_of(kind: pa.DataType, index_version: int) -> ValueKind:
    """Return the encoding of bounds of a column of this type.

    Raises:
        Unsupported: there is none.
    """
    written = value_kind(kind, index_version)
    if written is None:
        raise Unsupported(
            f"A column of type {kind} has no statistics in a metadata table (index version {index_version})",
            expected="columns that `indexed_columns` names",
            found=str(kind),
            next_step="leave the column out of the statistics",
        )
    return written


def range_values(
    partition: str, ranges: Ranges, *, is_tight: bool | npt.NDArray[np.bool_], version: int
) -> pa.BinaryArray:
    """Encode records that hold these ranges; `is_tight` is given for each, or for all."""
    node = field_node(partition, version)
    rows = len(ranges.name_at)
    tight: Piece = bytes([0, is_tight]) if isinstance(is_tight, bool) else _flags(is_tight)
    body: list[Piece] = [
        _texts(ranges.names, ranges.name_at),
        _texts(ranges.columns, ranges.column_at),
        *(_bounds(node, ranges, place) for place in (0, 1)),
        *(_longs(each) for each in ranges.counts),
        tight,
    ]
    if version >= 9:
        said = [_type_info(kind) if ranges.index_version >= 2 else _NULL for kind in ranges.kinds]
        body.append(said[0] if len(said) == 1 else pa.array(said, pa.binary()).take(pa.array(ranges.kind_at)))
    return framed(partition, body, rows)


def _texts(texts: Sequence[str], places: Longs) -> pa.BinaryArray:
    written = []
    for text in texts:
        raw = text.encode()
        written.append(FIRST + _varint(len(raw)) + raw)
    return pa.array(written, pa.binary()).take(pa.array(places))


def _bounds(node: Node, ranges: Ranges, which: int) -> pa.BinaryArray:
    """Encode one side's union: each kind on its own, then in the rows' order."""
    branches = node.children[node.names.index("minValue")].children
    written: list[pa.Array] = [pa.array([_NULL], pa.binary())]
    order = np.zeros(len(ranges.kind_at), np.int64)
    count = 1
    for at, kind in enumerate(ranges.kinds):
        if kind is None:
            continue
        (rows,) = np.nonzero(ranges.kind_at == at)
        values = ranges.bounds[at][which]
        if values.null_count:
            rows = rows[values.is_valid().to_numpy(zero_copy_only=False)]
            values = values.drop_null()
        own = branches[kind.branch].children[0]
        written.append(join([_varint(kind.branch), *encode_column(own, values, "a bound")], len(values)))
        order[rows] = count + np.arange(len(values))
        count += len(values)
    return pa.concat_arrays(written).take(pa.array(order))


def _longs(numbers: Longs) -> Piece:
    """Encode nullable longs; none of them is null."""
    if not numbers.any():
        return FIRST + _NULL
    rows, lengths = varint_rows(zigzag(numbers))
    return pieces(np.concatenate([np.full((len(rows), 1), FIRST[0], np.uint8), rows], axis=1), lengths + 1)


def _flags(is_tight: npt.NDArray[np.bool_]) -> pa.BinaryArray:
    rows = np.zeros((len(is_tight), 2), np.uint8)
    rows[:, 1] = is_tight
    return pieces(rows)


def _type_info(kind: ValueKind | None) -> bytes:
    ordinal, info = (NO_TYPE, None) if kind is None else (kind.ordinal, kind.info)
    behind = _NULL if info is None else FIRST + _varint(len(info)) + info.encode()
    return FIRST + _varint(ordinal) + behind


def _varint(number: int) -> bytes:
    return varint_rows(zigzag(np.array([number])))[0].tobytes()
