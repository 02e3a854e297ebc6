"""Pruning of files and partitions by statistics (docs/format §14.7).

Records are not merged for this: the valid ranges of a file or a partition are combined to bounds, over which conditions are
evaluated.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.formats.large_arrays import joined
from hudi_ops.kernels.bounds import ColumnBounds, bounds_table
from hudi_ops.kernels.condition import Condition, possible_units
from hudi_ops.metadata.prune.grouped_bounds import greatest_of, least_of
from hudi_ops.metadata.reader.table import MetadataTable
from hudi_ops.metadata.records.keys import bloom_filter_key, column_hash, partition_stats_key
from hudi_ops.metadata.records.partitions import FOLDER, MetadataPartition
from hudi_ops.metadata.records.records import Records
from hudi_ops.metadata.records.stored_ranges import StoredRanges

LOOKED_UP_MAX = 5000
"""More records than these are read by column rather than by key."""

_FIRST_BEYOND_SURROGATES = "\ue000"
"""Below it, Java's order of texts, by UTF-16 code units, and Arrow's, by UTF-8 bytes, agree."""

_is = pa.types
_Flags = npt.NDArray[np.bool_]


def possible_files(
    metadata: MetadataTable,
    condition: Condition,
    files: Sequence[tuple[str, str]],
    schema: pa.Schema,
    looked_up_max: int = LOOKED_UP_MAX,
    *,
    unasked: Collection[str] = (),
) -> _Flags:
    """Return which files may hold a row that passes, by `column_stats`.

    `files` are partition paths and names. A file without a record may.

    `schema` includes meta columns. At most `looked_up_max` records are looked up by key; of more, all of their columns are read.
    Statistics of `unasked` columns are ignored.
    """
    asked = _bounded(condition, schema, unasked)
    places = [bloom_filter_key(*file) for file in files] if asked else []
    keys = {column: [column_hash(column) + place for place in places] for column in asked}
    return _possible(metadata, MetadataPartition.COLUMN_STATS, condition, schema, keys, len(files), looked_up_max)


def possible_partitions(
    metadata: MetadataTable,
    condition: Condition,
    paths: Sequence[str],
    schema: pa.Schema,
    *,
    unasked: Collection[str] = (),
) -> _Flags:
    """Return which partitions may hold a row that passes, by the present `partition_stats`.

    `metadata` is current. Nothing is known of folders other than `paths`. Otherwise as `possible_files`.
    """
    asked = _bounded(condition, schema, unasked)
    keys = {column: [partition_stats_key(column, path) for path in paths] for column in asked}
    return _possible(metadata, MetadataPartition.PARTITION_STATS, condition, schema, keys, len(paths), LOOKED_UP_MAX)


def _bounded(condition: Condition, schema: pa.Schema, unasked: Collection[str]) -> list[str]:
    # For bytes in log files Apache Hudi writes bounds in the order of signed bytes, which no other reader uses.
    kinds = {name: schema.field(name).type for name in condition.columns if name not in unasked}
    return [name for name, kind in kinds.items() if not (_is.is_nested(kind) or is_binary(kind))]


def _possible(
    metadata: MetadataTable,
    partition: MetadataPartition,
    condition: Condition,
    schema: pa.Schema,
    keys: dict[str, list[str]],
    owners: int,
    looked_up_max: int,
) -> _Flags:
    if not keys or not owners:
        return np.ones(owners, bool)
    if len(keys) * owners <= looked_up_max:
        parts = metadata.parts(partition, keys=[key for of_column in keys.values() for key in of_column])
    else:
        parts = metadata.parts(partition, prefixes=[column_hash(column) for column in keys])
    said = _Said.of(parts, f"{FOLDER}/{partition.value}")
    is_of_files = partition is MetadataPartition.COLUMN_STATS
    made = {}
    for column in condition.columns:
        kind = schema.field(column).type
        if column in keys:
            bounds = _folded(said.of_column(column, kind, keys[column], is_of_files), kind, owners)
            made[column] = bounds if is_of_files else _maybe_null(bounds)
        else:
            made[column] = ColumnBounds.unknown(kind, owners)
    return possible_units(condition, bounds_table(made, owners))


@dataclass(frozen=True)
class _Said:
    """Ranges of several parts, decoded by runs of one schema, with a mask of the valid ones."""

    runs: list[tuple[StoredRanges, _Flags]]

    @classmethod
    def of(cls, groups: Sequence[Sequence[Records]], where: str) -> _Said:
        # A key is in one group only, so parts of several groups need no order.
        parts = sorted(
            ((at, part) for group in groups for at, part in enumerate(group)), key=lambda placed: placed[1].schema
        )
        read, orders = [], []
        for _, run in groupby(parts, key=lambda placed: placed[1].schema):
            alike = list(run)
            orders.append(np.repeat([at for at, _ in alike], [len(part.keys) for _, part in alike]).astype(np.int64))
            read.append(StoredRanges.read(_together([part for _, part in alike]), where))
        if not read:
            return cls([])
        keys = pa.concat_arrays([ranges.keys for ranges in read])
        known = pc.unique(keys)
        order = np.concatenate(orders)
        is_reset = np.concatenate([ranges.is_tight | ranges.is_deleted for ranges in read])
        place = pc.index_in(keys, known).to_numpy()
        since = np.full(len(known), -1, np.int64)
        np.maximum.at(since, place[is_reset], order[is_reset])
        for at, part in parts:
            gone = pc.index_in(part.deletes, known).drop_null().to_numpy()
            since[gone] = np.maximum(since[gone], at)
        holds = (order >= since[place]) & ~np.concatenate([ranges.is_deleted for ranges in read])
        ends = np.cumsum([len(ranges) for ranges in read])[:-1]
        return cls(list(zip(read, np.split(holds, ends), strict=True)))

    def of_column(self, column: str, kind: pa.DataType, wanted: Sequence[str], is_of_files: bool) -> pa.Table:
        """Return the valid ranges of a column, with `owner`: the key's position in `wanted`."""
        found = []
        for ranges, holds in self.runs:
            rows = pc.equal(ranges.columns, column).to_numpy(zero_copy_only=False) & ~ranges.is_deleted
            own = ranges.of_column(column, kind).append_column("key", ranges.keys.filter(pa.array(rows)))
            found.append(own.filter(pa.array(holds[rows])))
        if not found:
            return pa.table({"owner": pa.nulls(0, pa.int64())})
        table = pa.concat_tables(found).combine_chunks()
        owner = pc.index_in(table["key"], pa.array(wanted, pa.string()))
        table = table.append_column("owner", owner.cast(pa.int64()))
        table = table.append_column("is_sure", pa.array(_is_sure(table, kind, is_of_files)))
        return table.filter(pc.is_valid(table["owner"]))


def is_binary(kind: pa.DataType) -> bool:
    """Return whether values of a type are bytes."""
    return bool(_is.is_binary(kind) or _is.is_large_binary(kind) or _is.is_fixed_size_binary(kind))


def _together(parts: Sequence[Records]) -> Records:
    """Concatenate parts of one schema, in which keys may occur twice."""
    keys = joined([part.keys for part in parts], pa.string())
    return replace(parts[0], keys=keys, values=joined([part.values for part in parts], pa.binary()))


def _folded(found: pa.Table, kind: pa.DataType, owners: int) -> ColumnBounds:
    """Merge the ranges of each owner; one without a known range has no bounds."""
    if not found.num_rows:
        return ColumnBounds.unknown(kind, owners)
    owner = found["owner"].to_numpy()
    is_sure = np.zeros(owners, bool)
    is_sure[owner] = True
    is_sure[owner[~found["is_sure"].to_numpy().astype(bool)]] = False
    nulls, values = found["nulls"].to_numpy(), found["values"].to_numpy()
    has_nulls, has_values = np.zeros(owners, bool), np.zeros(owners, bool)
    has_nulls[owner[nulls > 0]] = True
    has_values[owner[values > nulls]] = True
    ends = []
    for name, reduce in (("least", least_of), ("greatest", greatest_of)):
        end = found[name].combine_chunks()
        is_bound = is_sure.copy()
        is_bound[owner[_is_beyond(end, kind)]] = False
        ends.append(_where(is_bound, reduce(end, owner, owners)))
    return ColumnBounds(*ends, *(_where(is_sure, pa.array(flags)) for flags in (has_nulls, has_values)))


def _maybe_null(bounds: ColumnBounds) -> ColumnBounds:
    """Mark all partitions as possibly holding nulls: older files do not count in ranges."""
    return replace(bounds, has_nulls=pc.if_else(bounds.has_nulls, True, pa.scalar(None, pa.bool_())))


def _is_sure(found: pa.Table, kind: pa.DataType, is_of_files: bool) -> _Flags:
    """Return the rows whose bounds and counts are certain, marked by `is_known`.

    Apache Hudi takes a base file's range from the footer, and merges a partition's range from its files. A column chunk with NaN
    then adds 0 to a range, so a range without 0 has no such part. Times in 96 bits have no statistics, and count as null.
    """
    is_known: _Flags = found["is_known"].to_numpy().astype(bool)
    nulls = found["nulls"].to_numpy()
    is_log = np.zeros(len(nulls), bool)
    if is_of_files:
        is_log = pc.starts_with(found["name"], ".").to_numpy().astype(bool)
    elif _is.is_floating(kind) or _is.is_string(kind) or _is.is_binary(kind):
        # In partition_stats a name that begins with a dot is a partition's, not a log file's.
        is_known &= ~pc.starts_with(found["name"], ".").to_numpy().astype(bool)
    if _is.is_floating(kind):
        beyond = pc.or_(pc.greater(found["least"], 0), pc.less(found["greatest"], 0))
        is_known |= pc.fill_null(beyond, False).to_numpy().astype(bool)
        # Infinity stands for NaN where this library wrote it, and Apache Hudi's own log files have NaN, which would exclude
        # everything.
        ends = [found["least"], found["greatest"]]
        is_odd = pc.or_(pc.invert(pc.is_finite(ends[0])), pc.invert(pc.is_finite(ends[1])))
        is_known &= ~pc.fill_null(is_odd, False).to_numpy().astype(bool)
    if _is.is_timestamp(kind):
        is_known &= is_log | (nulls == 0)
    is_known &= nulls >= 0
    return is_known


def _is_beyond(ends: pa.Array, kind: pa.DataType) -> _Flags:
    """Return which bounds are texts that Java may order differently from Arrow."""
    if not (_is.is_string(kind) or _is.is_large_string(kind)):
        return np.zeros(len(ends), bool)
    found = pc.match_substring_regex(ends, f"[{_FIRST_BEYOND_SURROGATES}-\U0010ffff]")
    beyond: _Flags = pc.fill_null(found, False).to_numpy(zero_copy_only=False)
    return beyond


def _where(is_sure: _Flags, values: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(is_sure), values, pa.scalar(None, values.type))
