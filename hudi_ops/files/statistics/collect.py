"""Statistics of one data file, from its writer or read back from storage.

Source: docs/format §14.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_ops.errors import Internal
from hudi_ops.files.base.base_file import BROKEN, conform, raise_read_error
from hudi_ops.files.log.entries import entries_of_deletes, entries_of_rows
from hudi_ops.files.log.log_file import LogFileReader
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.names import parse_data_file
from hudi_ops.files.slice.slice_keys import keys_of_base
from hudi_ops.files.statistics.column_ranges import Rows, merged_range, ranges_of_base, ranges_of_rows
from hudi_ops.files.statistics.statistics import ColumnRange, FileStatistics, StatisticsRequest
from hudi_ops.formats.log.blocks import BlockKind, scan_blocks
from hudi_ops.formats.parquet import footer as parquet_footer
from hudi_ops.formats.parquet.large_footer import LargeFooter
from hudi_ops.kernels.keys.keys import KeySpec
from hudi_ops.kernels.merging.log_merge import LogEntries
from hudi_ops.kernels.merging.merge import existing
from hudi_ops.sources.parquet_source import INT96_UNIT
from hudi_ops.storage.protocol import Storage


@dataclass(frozen=True)
class FileStatisticsTask:
    """Data file of which statistics are wanted; picklable.

    Attributes:
        schema: columns of the table's base files, in its present types; see `stored_schema`.
        keys: how record keys are made in a table without meta columns; None: files have them in a column.
        rules: how the table merges log records; needed for the keys of a log file.
        previous: the base file that a base file replaced, without log files between: then `added` and `removed` are exact.
            Without it all keys may have been added, and none is certainly removed.
    """

    storage: Storage
    path: str
    size_bytes: int
    schema: pa.Schema
    wanted: StatisticsRequest
    keys: KeySpec | None = None
    rules: MergeRules | None = None
    previous: str | None = None


def statistics_of_file(task: FileStatisticsTask) -> FileStatistics:
    """Return the statistics of a stored file, equal to those of its writer.

    Of a base file the footer is read, and columns where the footer is not enough: wanted keys, and floats of files that do not
    say whether these hold NaN.

    Raises:
        Corrupt: it cannot be read.
        Unsupported: a log file holds rows that this library cannot read.
        NotFound: it is gone.
        Unavailable: the storage did not deliver it.
        Internal: not a data file; or the keys of a log file without merge rules.
    """
    name = parse_data_file(task.path.rpartition("/")[2])
    if name is None:
        raise Internal("Statistics were requested of a file that holds no rows", found=task.path)
    if name.is_cdc:
        none = pa.array([], pa.string()) if task.wanted.keys else None
        return _statistics(task.path, task.size_bytes, is_log=True, added=none, removed=none)
    try:
        return _of_log(task) if name.is_log else _of_base(task)
    except BROKEN as error:
        raise_read_error(task.path, error)


def statistics_of_base(
    path: str,
    body: pa.Buffer,
    schema: pa.Schema,
    wanted: StatisticsRequest,
    *,
    rows: pa.Table | None = None,
    added: pa.Array | None = None,
    removed: pa.Array | None = None,
) -> FileStatistics | None:
    """Return the statistics of a new base file; None if nothing is wanted.

    Without `rows`, columns are decoded where the footer is not enough. `added` keys are new to the group, `removed` ones have left
    it.
    """
    if not wanted:
        return None
    source = pa.BufferReader(body)
    file = pq.ParquetFile(source, metadata=None if wanted.bloom else LargeFooter(source, path).parquet)
    given = None if rows is None else lambda name: [rows]
    return _base_statistics(path, body.size, file, schema, wanted, given, added, removed)


def statistics_of_log(
    path: str,
    body: pa.Buffer,
    schema: pa.Schema,
    wanted: StatisticsRequest,
    rows: pa.Table | None,
    entries: Iterable[LogEntries],
) -> FileStatistics | None:
    """Return the statistics of a new log file; None if nothing is wanted.

    `entries` are its rows and deletes as readers see them.
    """
    if not wanted:
        return None
    parts = [ranges_of_rows([], schema, wanted.columns)]
    if rows is not None and wanted.columns:
        for span in scan_blocks(pa.BufferReader(body), path):
            if span.kind is BlockKind.PARQUET_DATA:
                file = pq.ParquetFile(pa.BufferReader(body.slice(span.content_offset, span.content_bytes)))
                parts.append(_of_block(file, schema, wanted, lambda name: [rows]))
            elif span.kind is BlockKind.AVRO_DATA:
                parts.append(ranges_of_rows([rows], schema, wanted.columns))
    added, removed = _changed(entries) if wanted.keys else (None, None)
    return _statistics(path, body.size, is_log=True, ranges=_together(parts), added=added, removed=removed)


def _of_base(task: FileStatisticsTask) -> FileStatistics:
    added = removed = None
    if task.wanted.keys:
        added = pc.unique(keys_of_base(task.storage, task.path, task.schema, task.keys))
        removed = added.slice(0, 0)
        if task.previous is not None:
            before = pc.unique(keys_of_base(task.storage, task.previous, task.schema, task.keys))
            added, removed = _without(added, before), _without(before, added)
    with pq.ParquetFile(task.storage.open_input(task.path), coerce_int96_timestamp_unit=INT96_UNIT) as file:
        return _base_statistics(task.path, task.size_bytes, file, task.schema, task.wanted, None, added, removed)


def _base_statistics(
    path: str,
    size_bytes: int,
    file: pq.ParquetFile,
    schema: pa.Schema,
    wanted: StatisticsRequest,
    rows: Rows | None,
    added: pa.Array | None,
    removed: pa.Array | None,
) -> FileStatistics:
    written = parquet_footer.filter_text(file.metadata.metadata, path) if wanted.bloom else None
    ranges = ranges_of_base(file, schema, wanted.columns, rows)
    return _statistics(path, size_bytes, ranges=ranges, bloom=written, added=added, removed=removed)


def _of_log(task: FileStatisticsTask) -> FileStatistics:
    reader, rules = LogFileReader(task.storage, task.path), task.rules if task.wanted.keys else None
    if task.wanted.keys and rules is None:
        raise Internal("The keys of a log file were requested without merge rules", found=task.path)
    heads = rules.of_log if rules is not None else pa.schema([])
    roots = [name.partition(".")[0] for name in task.wanted.columns]
    parts = [ranges_of_rows([], task.schema, task.wanted.columns)]
    entries: list[LogEntries] = []
    for block in reader.blocks:
        if block.is_data:
            file = reader.parquet(block)
            columns = list(dict.fromkeys([*heads.names, *(roots if file is None else [])]))
            rows = reader.rows(block, columns) if columns else pa.table({})
            if file is None:
                parts.append(ranges_of_rows([rows], task.schema, task.wanted.columns))
            else:
                parts.append(_of_block(file, task.schema, task.wanted))
            if rules is not None:
                held = set(rows.column_names)
                deciding = rows.select([name for name in heads.names if name in held])
                entries.append(entries_of_rows(conform(deciding, heads, task.path), rules, reader, block))
        elif block.kind is BlockKind.DELETE and rules is not None:
            entries.append(entries_of_deletes(rules, reader, block))
    added, removed = _changed(entries) if rules is not None else (None, None)
    return _statistics(task.path, task.size_bytes, is_log=True, ranges=_together(parts), added=added, removed=removed)


def _of_block(
    file: pq.ParquetFile, schema: pa.Schema, wanted: StatisticsRequest, rows: Rows | None = None
) -> tuple[ColumnRange, ...]:
    """Return the ranges of a Parquet block by its footer, without sizes."""
    found = ranges_of_base(file, schema, wanted.columns, rows)
    return tuple(replace(found_range, size=0, uncompressed_size=0) for found_range in found)


def _together(parts: Sequence[Sequence[ColumnRange]]) -> tuple[ColumnRange, ...]:
    """Merge ranges of a file's pieces, without columns that are unknown in one of them."""
    found: dict[str, list[ColumnRange]] = {}
    for found_range in (found_range for part in parts for found_range in part):
        found.setdefault(found_range.column, []).append(found_range)
    return tuple(merged_range(each) for each in found.values() if len(each) == len(parts))


def _changed(entries: Iterable[LogEntries]) -> tuple[pa.Array, pa.Array]:
    """Return the keys that a log file holds rows of, and those that it certainly deletes.

    Later entries decide. A delete that is ordered by event time may lose to a row elsewhere.
    """
    added = removed = pa.array([], pa.string())
    for part in entries:
        is_sure = part.is_delete & (part.is_unconditional | (part.ordering is None))
        rows, gone = (pc.unique(part.keys.filter(pa.array(mask))) for mask in (~part.is_delete, is_sure))
        added = pa.concat_arrays([_without(_without(added, gone), rows), rows])
        removed = pa.concat_arrays([_without(_without(removed, rows), gone), gone])
    return added, removed


def _without(keys: pa.Array, others: pa.Array) -> pa.Array:
    """Return the keys that are not among others; each key occurs once."""
    return keys.filter(pa.array(~existing(others, keys))) if len(keys) and len(others) else keys


def _statistics(
    path: str,
    size_bytes: int,
    *,
    is_log: bool = False,
    ranges: tuple[ColumnRange, ...] = (),
    bloom: tuple[str, str] | None = None,
    added: pa.Array | None = None,
    removed: pa.Array | None = None,
) -> FileStatistics:
    folder, _, name = path.rpartition("/")
    parsed = parse_data_file(name)
    if parsed is None:
        raise Internal("Statistics were given of a file that holds no rows", found=path)
    kind, text = bloom if bloom is not None else (None, None)
    return FileStatistics(path, folder, parsed.file_id, size_bytes, is_log, ranges, text, added, removed, kind)
