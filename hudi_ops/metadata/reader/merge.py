"""Merge of older and newer records of one partition, by the rules of Apache Hudi.

Records with keys that only one side has are copied: only those of both are decoded, and only where the partition's rule needs
more than the newer record. Source: docs/format §14.7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import Internal
from hudi_ops.formats.avro.encode import encode_column
from hudi_ops.formats.large_arrays import joined, places_in
from hudi_ops.metadata.prune.grouped_bounds import greatest_of, least_of
from hudi_ops.metadata.records.column_stats import Longs, Ranges, range_values
from hudi_ops.metadata.records.file_lists import file_maps, file_values
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.records import Records, no_keys, sorted_records
from hudi_ops.metadata.records.schema import record_schema
from hudi_ops.metadata.records.stat_values import ValueKind, to_logical, to_physical, widened, widest
from hudi_ops.metadata.records.stored_ranges import Bounds, RangeForm, StoredRanges
from hudi_ops.metadata.records.values import field_node, framed, types_and_fields, without_file_name

_RECORDS = "records of a metadata table"
_WIDENED = (MetadataPartition.COLUMN_STATS, MetadataPartition.PARTITION_STATS)


def merge(older: Records, newer: Records, *, version: int) -> Records:
    """Merge older and newer records, the latter in log order.

    Deletes stay, since their keys may lie in records older than both. The result has the schema of table version `version`.

    Raises:
        Corrupt: a value does not follow its schema.
        Internal: records of two partitions.
    """
    if older.partition != newer.partition:
        raise Internal(
            "Records of two partitions of a metadata table cannot be merged",
            expected=str(older.partition),
            found=str(newer.partition),
            next_step="report this error with its text",
        )
    older, newer = (current(side, version=version).decoded() for side in (older, newer))
    if not older or not newer:
        return newer if newer else older
    place = places_in(older.keys, newer.keys).to_numpy(zero_copy_only=False)
    is_new = np.isnan(place) if place.dtype.kind == "f" else np.zeros(len(place), bool)
    is_kept = is_new.copy()
    if len(newer.deletes):
        is_kept &= places_in(older.keys, newer.deletes).is_null().to_numpy(zero_copy_only=False)
    (both,) = np.nonzero(~is_new)
    values = newer.values
    if len(both):
        at = place[both].astype(np.int64)
        merged = _merged_values(_some(older, both), _some(newer, at), version)
        if merged is not None:
            values = _with(values, at, merged)
    kept = pa.array(np.flatnonzero(is_kept))
    gone = joined([older.deletes, newer.deletes], pa.string()) if len(older.deletes) else newer.deletes
    return sorted_records(
        newer.partition,
        joined([older.keys.take(kept), newer.keys], pa.string()),
        joined([older.values.take(kept), values], pa.binary()),
        gone,
        version=version,
    )


def is_order_free(blocks: Sequence[Records], *, version: int) -> bool:
    """Return whether blocks of `files` may be merged before they meet older records.

    The result is the same, byte for byte, unless one block deletes a name that another block has, too: the deletion would cancel
    the entry of that block instead of the older file, and of two deletions the second stays.
    """
    if any(len(block.deletes) for block in blocks):
        return False
    written = [current(block, version=version).decoded() for block in blocks if len(block.keys)]
    if len(written) < 2:
        return True
    values = joined([block.values for block in written], pa.binary())
    _, maps = file_maps(values, written[0].schema, _RECORDS)
    keys = joined([block.keys for block in written], pa.string())
    owners = keys.take(pa.array(np.repeat(np.arange(len(maps)), _lengths(maps))))
    names = pc.binary_join_element_wise(owners, maps.keys, "/")
    gone = names.filter(pa.array(_infos(maps)[1]))
    return bool(pc.sum(pc.is_in(names, gone)).as_py() in {None, len(gone.unique())})


def compacted(records: Records, *, version: int) -> Records:
    """Return base file content of merged records, without deletes: no older record remains.

    Marks of deleted files stay in the records of `files`, as in Apache Hudi's.
    """
    written = current(records, version=version).decoded()
    return replace(written, values=without_file_name(written.values), deletes=no_keys())


def current(records: Records, *, version: int) -> Records:
    """Convert records to the schema of a table of this version."""
    schema = record_schema(version)
    if records.schema == schema:
        return records
    return _rewritten(records, version)


def _some(records: Records, places: Longs) -> Records:
    taken = pa.array(places)
    return replace(records, keys=records.keys.take(taken), values=records.values.take(taken), deletes=no_keys())


def _with(values: pa.Array, places: Longs, others: pa.Array) -> pa.Array:
    """Replace the values at these positions."""
    order = np.arange(len(values))
    order[places] = len(values) + np.arange(len(others))
    return joined([values, others], pa.binary()).take(pa.array(order))


def _merged_values(older: Records, newer: Records, version: int) -> pa.BinaryArray | None:
    """Return merged values of equal keys, in order; None where the newer ones stay."""
    if newer.partition == MetadataPartition.FILES:
        return _merged_files(older, newer, version)
    return _widened_ranges(older, newer, version) if newer.partition in _WIDENED else None


# Files


def _merged_files(older: Records, newer: Records, version: int) -> pa.BinaryArray:
    """Merge entries of file lists.

    A deletion cancels an existing file, else stays a mark; of two sizes the larger counts.
    """
    types, new = file_maps(newer.values, newer.schema, "newer records")
    _, old = file_maps(older.values, older.schema, "older records")
    old_at, new_at = (np.repeat(np.arange(len(each)), _lengths(each)) for each in (old, new))
    in_newer = pc.index_in(_labels(old, old_at), _labels(new, new_at))
    matched = in_newer.is_valid().to_numpy(zero_copy_only=False)
    partner = in_newer.drop_null().to_numpy().astype(np.int64)
    old_sizes, old_gone = _infos(old)
    sizes, gone = (each.copy() for each in _infos(new))
    is_cancelled = np.zeros(len(gone), bool)
    is_cancelled[partner] = gone[partner] & ~old_gone[matched]
    sizes[partner] = np.where(gone[partner], sizes[partner], np.maximum(sizes[partner], old_sizes[matched]))
    (kept_old,), (kept_new,) = np.nonzero(~matched), np.nonzero(~is_cancelled)
    owners = np.concatenate([old_at[kept_old], new_at[kept_new]])
    order = pa.array(np.argsort(owners, kind="stable"))
    names = pa.concat_arrays([old.keys.take(pa.array(kept_old)), new.keys.take(pa.array(kept_new))]).take(order)
    infos = pa.StructArray.from_arrays(
        [
            pa.array(np.concatenate([old_sizes[kept_old], sizes[kept_new]])).take(order),
            pa.array(np.concatenate([old_gone[kept_old], gone[kept_new]])).take(order),
        ],
        ["size", "isDeleted"],
    )
    offsets = np.zeros(len(new) + 1, np.int32)
    np.cumsum(np.bincount(owners, minlength=len(new)), out=offsets[1:])
    return file_values(types, pa.MapArray.from_arrays(pa.array(offsets), names, infos), version=version)


def _lengths(maps: pa.MapArray) -> Longs:
    lengths: Longs = np.diff(maps.offsets.to_numpy()).astype(np.int64)
    return lengths


def _labels(maps: pa.MapArray, owners: Longs) -> pa.StringArray:
    """Return names that are unique over all records: `/` is in no file's name."""
    return pc.binary_join_element_wise(pa.array(owners).cast(pa.string()), maps.keys, "/")


def _infos(maps: pa.MapArray) -> tuple[Longs, npt.NDArray[np.bool_]]:
    return maps.items.field(0).to_numpy(), maps.items.field(1).to_numpy(zero_copy_only=False).astype(bool)


# Ranges


def _widened_ranges(older: Records, newer: Records, version: int) -> pa.BinaryArray | None:
    """Widen newer ranges that are not tight by the older ones.

    Tight ones, and deleted ones of either side, leave the newer unchanged.
    """
    new = StoredRanges.read(newer, "newer records")
    if (new.is_tight | new.is_deleted).all():
        return None
    old = StoredRanges.read(older, "older records")
    (wide,) = np.nonzero(~(new.is_tight | new.is_deleted | old.is_deleted))
    if not len(wide):
        return None
    subset = [StoredRanges.read(_some(each, wide), _RECORDS) for each in (older, newer)]
    values = range_values(newer.partition, _union(*subset), is_tight=False, version=version)
    return _with(newer.values, wide, values)


def _union(old: StoredRanges, new: StoredRanges) -> Ranges:
    """Merge ranges: bounds and counts of both, in the newer type of each column."""
    old_ids, old_forms = old.forms()
    new_ids, new_forms = new.forms()
    pairs, kind_at = np.unique(new_ids * len(old_forms) + old_ids, return_inverse=True)
    kinds: list[ValueKind | None] = []
    bounds = []
    for number, pair in enumerate(pairs.tolist()):
        (rows,) = np.nonzero(kind_at == number)
        of_new, of_old = new_forms[pair // len(old_forms)], old_forms[pair % len(old_forms)]
        form = of_old if of_new.written is None else of_new
        kinds.append(form.written)
        if form.written is None:
            bounds.append((pa.nulls(len(rows)), pa.nulls(len(rows))))
            continue
        logical = form.logical or form.written.physical
        sides = [
            _reach(_fitted(of_old, old_side, rows, logical, side), _fitted(of_new, new_side, rows, logical, side), side)
            for side, (old_side, new_side) in enumerate(((old.least, new.least), (old.greatest, new.greatest)))
        ]
        bounds.append((to_physical(sides[0], form.written), to_physical(sides[1], form.written)))
    counts = tuple(mine + others for mine, others in zip(old.counts, new.counts, strict=True))
    return replace(new.ranges(), kinds=kinds, kind_at=kind_at.reshape(-1), bounds=bounds, counts=counts)


def _fitted(form: RangeForm, side: Bounds, rows: Longs, logical: pa.DataType, which: int) -> pa.Array:
    """Convert one bound of ranges to this type; one of another kind excludes nothing."""
    if form.branch == 0:
        return pa.nulls(len(rows), logical)
    own = form.logical
    ends = side.take(rows, form.branch)
    fitted = ends if own is None and ends.type == logical else widened(to_logical(ends, own), logical) if own else None
    return pa.concat_arrays([widest(logical)[which]] * len(rows)) if fitted is None else fitted


def _reach(old: pa.Array, new: pa.Array, side: int) -> pa.Array:
    reduce = (least_of, greatest_of)[side]
    return reduce(pa.concat_arrays([old, new]), np.tile(np.arange(len(new)), 2), len(new))


# Schemas


def _rewritten(records: Records, version: int) -> Records:
    partition, values, schema = records.partition, records.values, records.schema
    gone = records.deletes
    if partition == MetadataPartition.FILES:
        values = file_values(*file_maps(values, schema, _RECORDS), version=version)
    elif partition in _WIDENED:
        ranges = StoredRanges.read(records, _RECORDS)
        if ranges.is_deleted.any():
            gone = joined([gone, records.keys.filter(pa.array(ranges.is_deleted))], pa.string())
            records = _some(records, np.flatnonzero(~ranges.is_deleted))
            ranges = StoredRanges.read(records, _RECORDS)
        values = range_values(partition, ranges.ranges(), is_tight=ranges.is_tight, version=version)
    else:
        node = field_node(partition, version)
        _, found = types_and_fields(partition, values, schema, _RECORDS)
        columns = [
            found.field(field.name) if field.name in found.type.names else pa.nulls(len(found), field.type)
            for field in node.arrow
        ]
        structs = pa.StructArray.from_arrays(columns, fields=list(node.arrow))
        values = framed(partition, encode_column(node, structs, str(partition)), len(structs))
    return sorted_records(partition, records.keys, values, gone, version=version)
