"""Check column statistics and bloom filters of the metadata table against the files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.files.statistics.column_ranges import merged_range
from hudi_ops.files.statistics.statistics import ColumnRange, FileStatistics
from hudi_ops.metadata.records.bloom_filters import decoded_filters
from hudi_ops.metadata.records.keys import bloom_filter_key, column_stats_key, partition_name, partition_stats_key
from hudi_ops.metadata.records.partitions import FOLDER, MetadataPartition
from hudi_ops.metadata.records.records import Records
from hudi_ops.metadata.records.stored_ranges import StoredRanges
from hudi_ops.verify.index.index_subject import Differences, IndexSubject
from hudi_ops.verify.report import Findings

_COLUMNS, _PARTITIONS, _FILTERS = (
    MetadataPartition.COLUMN_STATS,
    MetadataPartition.PARTITION_STATS,
    MetadataPartition.BLOOM_FILTERS,
)


def check_column_stats(subject: IndexSubject, findings: Findings) -> None:
    """Check the range of each column of each visible file.

    A missing range reads as null (docs/format §14.7), so a file with nulls only, such as one older than the column, needs none.
    """
    wanted = {
        column_stats_key(each.column, fact.partition_path, fact.name): (fact, each)
        for fact in subject.facts
        for each in fact.ranges
    }
    _check_ranges(subject, _COLUMNS, wanted, findings)


def check_partition_stats(subject: IndexSubject, findings: Findings) -> None:
    """Check the range of each column of each partition, over its visible or sampled files."""
    parts: dict[tuple[str, str], list[ColumnRange]] = {}
    some: dict[str, FileStatistics] = {}
    for fact in subject.facts:
        some[fact.partition_path] = fact
        for each in fact.ranges:
            parts.setdefault((each.column, fact.partition_path), []).append(each)
    wanted = {
        partition_stats_key(column, path): (some[path], merged_range(ranges))
        for (column, path), ranges in parts.items()
    }
    _check_ranges(subject, _PARTITIONS, wanted, findings)


def check_bloom_filters(subject: IndexSubject, findings: Findings) -> None:
    """Check that the filter of each visible base file equals that of its footer."""
    found = Differences(findings, _FILTERS)
    wanted = {
        bloom_filter_key(fact.partition_path, fact.name): fact
        for fact in subject.facts
        if not fact.is_log and fact.bloom is not None
    }
    rows = decoded_filters(_records(subject, _FILTERS, list(wanted)), _where(_FILTERS))
    held = dict(zip(rows["key"].to_pylist(), rows["filter"].to_pylist(), strict=True))
    findings.looked("bloom filters in the metadata table", len(held))
    for key, fact in wanted.items():
        if key not in held:
            found.report("error", "filters that are missing", f"no record of {fact.path} (key {key})", fact.path)
        elif held[key] != fact.bloom:
            found.report(
                "error",
                "other filters",
                f"the filter differs from that in the footer of {fact.path} (key {key})",
                fact.path,
            )
    found.close()


def _check_ranges(
    subject: IndexSubject,
    partition: MetadataPartition,
    wanted: Mapping[str, tuple[FileStatistics, ColumnRange]],
    findings: Findings,
) -> None:
    found = Differences(findings, partition)
    records = _records(subject, partition, list(wanted))
    findings.looked(f"{partition} in the metadata table", len(records.keys))
    stored = StoredRanges.read(records, _where(partition))
    missing = set(wanted) - {
        key for key, gone in zip(stored.keys.to_pylist(), stored.is_deleted.tolist(), strict=True) if not gone
    }
    for key in sorted(missing):
        fact, each = wanted[key]
        if partition is _COLUMNS and each.nulls == each.values:
            continue
        found.report(
            "error",
            "ranges that are missing",
            f"no record of column {each.column} of {_name_of(partition, fact)} (key {key}): filters may lose its rows",
            fact.path,
        )
    kinds = {each.column: each.least.type for _, each in wanted.values()}
    for column, kind in kinds.items():
        rows = stored.of_column(column, kind) if len(stored) else None
        held = {} if rows is None else {row["name"]: row for row in _with_plain_ends(rows).to_pylist()}
        for key, (fact, each) in wanted.items():
            name = _name_of(partition, fact)
            if each.column == column and key not in missing and name in held:
                _check_range(partition, fact, each, held[name], found)
    found.close()


def _with_plain_ends(rows: pa.Table) -> pa.Table:
    for name in ("least", "greatest"):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, _plain(rows.column(name)))
    return rows


def _plain(ends: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return bounds with dates and times as whole numbers: Python has the years 1 to 9999 only."""
    kind = ends.type
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return ends
    return ends.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())


def _written(end: object) -> object:
    """Return a bound as stored: NaN, the greatest value, as infinity (docs/format §14.7)."""
    return math.inf if isinstance(end, float) and math.isnan(end) else end


def _check_range(
    partition: MetadataPartition,
    fact: FileStatistics,
    each: ColumnRange,
    held: Mapping[str, object],
    found: Differences,
) -> None:
    least, greatest = (_written(_plain(end)[0].as_py()) for end in (each.least, each.greatest))
    stored = f"[{held['least']!r}, {held['greatest']!r}]"
    what = f"column {each.column} of {_name_of(partition, fact)} is {stored}, expected [{least!r}, {greatest!r}]"
    if not held["is_readable"]:
        return  # no reader uses bounds of such a type
    if not held["is_known"]:
        # Apache Hudi writes this value if a footer has none; no reader uses it.
        if least is not None and held["least"] is None:
            found.report(
                "warning", "ranges that are not known", f"{what}: Apache Hudi may leave it out of filters", fact.path
            )
    elif least is None:
        return
    elif held["least"] is None or _is_above(held["least"], least) or _is_above(greatest, held["greatest"]):
        ends = [_as_java_orders(end) for end in (held["least"], least, greatest, held["greatest"])]
        by_java = [end for end in ends if end is not None]
        if len(by_java) == len(ends) and by_java == sorted(by_java):
            text = f"{what}: Apache Hudi orders bytes as signed and texts by UTF-16, filters do not"
            found.report("warning", "ranges in another order", text, fact.path)
        else:
            found.report("error", "ranges that are too narrow", f"{what}: filters lose its rows", fact.path)
    elif partition is _COLUMNS and not fact.is_log and (held["least"] != least or held["greatest"] != greatest):
        found.report("warning", "ranges that are too wide", f"{what}: filters read the file without need", fact.path)


def _as_java_orders(end: object) -> bytes | None:
    """Return the bytes by which Java orders texts and bytes in ranges; None for other types.

    Source: docs/format §14.9.
    """
    if isinstance(end, bytes):
        return bytes(byte ^ 0x80 for byte in end)
    return end.encode("utf-16-be", "surrogatepass") if isinstance(end, str) else None


def _is_above(one: object, other: object) -> bool:
    """Return whether a bound is above another; NaN is the greatest, as in Java and Spark."""
    if isinstance(one, float) and isinstance(other, float):
        if other != other:
            return False
        if one != one:
            return True
    return bool(one > other)  # type: ignore[operator]


def _records(subject: IndexSubject, partition: MetadataPartition, keys: Sequence[str]) -> Records:
    """Return the records with these keys: looked up for a sample, else read with all others."""
    if subject.sample is not None:
        return subject.metadata.lookup(partition, list(keys))
    records = subject.metadata.read(partition)
    place = pc.index_in(pa.array(keys, pa.string()), records.keys).drop_null()
    places = place.take(pc.sort_indices(place))
    none = records.deletes.slice(0, 0)
    return Records(partition, records.keys.take(places), records.values.take(places), none, records.schema)


def _name_of(partition: MetadataPartition, fact: FileStatistics) -> str:
    return fact.name if partition is _COLUMNS else partition_name(fact.partition_path)


def _where(partition: MetadataPartition) -> str:
    return f"{FOLDER}/{partition}"
