"""Invariants inside base files: row counts, footers, meta columns and unique keys.

A plain verification reads all footers of visible files, and the key columns of a sample; `deep` reads all key columns.

Source: docs/format §6, §7.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.columns import FILE_NAME, PARTITION_PATH, RECORD_KEY
from hudi_ops.config.table import TableFacts
from hudi_ops.engine.progress import Tally
from hudi_ops.errors import HudiOpsError, NotFound
from hudi_ops.files.base.base_file import BaseFileReader
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.slice.slice_keys import keys_of_slice
from hudi_ops.index.doubled_keys import key_tasks
from hudi_ops.index.ring import Ring
from hudi_ops.index.simple_bucket import bucket_of, computed_keys
from hudi_ops.kernels.keys.keys import KeySpec, record_keys
from hudi_ops.kernels.statistics import key_range
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.log.commit_log import POINTER_KEY
from hudi_ops.verify.data.rings import misplaced
from hudi_ops.verify.report import RESTORE, REWRITE, Finding, Findings
from hudi_ops.verify.subject import LiveFile, Subject

SAMPLED_FILES = 16
BATCH_FILES = 64
"""Files whose keys are held in memory at a time; a partition is never split."""

_META = (RECORD_KEY, PARTITION_PATH, FILE_NAME)


@dataclass(frozen=True)
class FileCheck:
    """One base file to check; `may_double`: it may hold a key twice.

    `facts` is None if the buckets are unknown. `keys` is the key spec of a table without meta columns; None if it is unknown, or if
    a column holds the keys.
    """

    storage: Storage
    path: str
    partition_path: str
    file_id: str
    rows: int | None
    reads_keys: bool
    has_meta: bool
    facts: TableFacts | None
    keys: KeySpec | None = None
    may_double: bool = False
    ring: Ring | None = None


@dataclass(frozen=True)
class FileResult:
    """Findings of one base file, and its keys if they were read."""

    findings: tuple[Finding, ...]
    keys: pa.ChunkedArray | None = None


def check_base_files(subject: Subject, facts: TableFacts | None, rings: Mapping[str, Ring], findings: Findings) -> None:
    """Check visible base files.

    `facts` are the buckets and their hash fields, from the commit log; None for tables without one. `rings` are the hash rings, by
    partition path.
    """
    files = [file for file in subject.live_base_files if file.path.endswith(".parquet")]
    _check_buckets(files, facts, findings)
    may_double = any(_doubles(metadata, facts) for _, metadata in subject.writes)
    step = 1 if subject.deep else max(1, len(files) // SAMPLED_FILES)
    tasks = [
        FileCheck(
            storage=subject.storage,
            path=file.path,
            partition_path=file.partition_path,
            file_id=file.file_id,
            rows=file.rows,
            reads_keys=number % step == 0,
            has_meta=subject.config.populate_meta_fields,
            facts=facts,
            keys=computed_keys(subject.config, facts) if facts is not None else None,
            may_double=may_double,
            ring=rings.get(file.partition_path),
        )
        for number, file in enumerate(files)
    ]
    sizes = {file.path: file.size_bytes for file in files}
    tally = None if subject.progress is None else Tally(subject.progress, "base files", len(files), sum(sizes.values()))
    for batch in _batches(tasks):
        results = subject.engine.map(check_base_file, batch)
        for result in results:
            findings.found += result.findings
        findings.looked("base file footers", len(batch))
        if tally is not None:
            tally.add(sum(sizes[task.path] for task in batch), len(batch))
        findings.looked("base files read", sum(result.keys is not None for result in results))
        findings.looked("record keys", sum(len(result.keys) for result in results if result.keys is not None))
        if subject.deep:
            _check_across(subject, batch, results, findings)


def _doubles(metadata: CommitMetadata, facts: TableFacts | None) -> bool:
    """Return whether a write may have written existing keys again, since it did no look-up."""
    is_foreign = facts is not None and not facts.has_buckets and POINTER_KEY not in metadata.extra
    return metadata.operation == "BULK_INSERT" or (is_foreign and metadata.operation == "INSERT")


def check_base_file(task: FileCheck) -> FileResult:
    """Check one base file; picklable in and out, so that any engine can run it."""
    report = Findings()
    try:
        reader = BaseFileReader(task.storage, task.path)
        footer = reader.footer
        if task.rows is not None and reader.rows != task.rows:
            report.error(
                "row-count",
                f"the file holds {reader.rows} rows, but its write statistic says {task.rows}",
                task.path,
                f"the file was replaced, or its writer miscounted: {RESTORE}",
            )
        if not task.has_meta:
            return _check_without_meta(report, task, reader)
        if footer.bloom is None:
            report.warning(
                "bloom-missing", "no bloom filter: upserts with Apache Hudi's BLOOM index fail on it", task.path,
                "rewrite the file, for example by an upsert into its file group",
            )  # fmt: skip
        if not task.reads_keys:
            return FileResult(tuple(report.found))
        rows = reader.read(_META)
    except NotFound:
        # Cleaned during the verification; `check_files` reports other missing files.
        return FileResult(())
    except HudiOpsError as error:
        report.error("base-file-broken", error.what, task.path, RESTORE)
        return FileResult(tuple(report.found))
    missing = [name for name in _META if name not in rows.column_names]
    if missing:
        report.error("meta-columns", f"meta column {missing[0]} is missing", task.path, REWRITE)
        return FileResult(tuple(report.found))
    keys = rows.column(RECORD_KEY)
    if keys.null_count:
        report.error(
            "record-key-null", f"{keys.null_count} rows without a record key", task.path, "write these rows again"
        )
        return FileResult(tuple(report.found))
    for column, expected in ((FILE_NAME, task.path.rpartition("/")[2]), (PARTITION_PATH, task.partition_path)):
        _check_constant(report, task.path, rows, column, expected)
    _check_keys(report, task, keys, footer.min_key, footer.max_key)
    if footer.bloom is not None and len(keys) and not (held := footer.bloom.might_contain(keys)).all():
        key = keys[int(np.flatnonzero(~held)[0])].as_py()
        report.error(
            "bloom-key",
            f"the bloom filter lacks {int((~held).sum())} of its keys, the first {key!r}: updates insert these keys again",
            task.path,
            "rewrite the file, for example by clustering",
        )
    return FileResult(tuple(report.found), keys)


def _check_without_meta(report: Findings, task: FileCheck, reader: BaseFileReader) -> FileResult:
    """Check a file without meta columns, by computed keys; it has neither filter nor key range."""
    if task.keys is None or not task.reads_keys:
        return FileResult(tuple(report.found))
    missing = [name for name in task.keys.fields if name not in reader.schema.names]
    if missing:
        report.error("key-column", f"key column {missing[0]} is missing", task.path, REWRITE)
        return FileResult(tuple(report.found))
    keys = pa.chunked_array([record_keys(reader.read(task.keys.fields), task.keys)])
    _check_keys(report, task, keys, None, None)
    return FileResult(tuple(report.found), keys)


def _check_constant(report: Findings, path: str, rows: pa.Table, column: str, expected: str) -> None:
    wrong = int(pc.sum(pc.fill_null(pc.not_equal(rows.column(column), expected), True)).as_py() or 0)
    if wrong:
        name = "file-name-column" if column == FILE_NAME else "partition-path-column"
        report.error(name, f"{wrong} rows have a {column} other than {expected!r}", path, REWRITE)


def _check_keys(report: Findings, task: FileCheck, keys: pa.ChunkedArray, low: str | None, high: str | None) -> None:
    bounds = key_range(keys)
    if low is not None and high is not None and bounds != (low, high):
        found = "no keys" if bounds is None else f"keys {bounds[0]!r} to {bounds[1]!r}"
        # If a range is too wide, look-ups take longer; if it is too narrow, they skip the file.
        narrower = bounds is not None and (bounds[0].encode() < low.encode() or bounds[1].encode() > high.encode())
        (report.error if narrower else report.info)(
            "key-range", f"the footer says {low!r} to {high!r}, the file holds {found}", task.path, "rewrite the file"
        )
    distinct = pc.count_distinct(keys).as_py()
    if distinct < len(keys):
        # Inserts of Apache Hudi, and bulk inserts of any writer, keep duplicates on purpose.
        (report.warning if task.facts is None or task.may_double else report.error)(
            "duplicate-key",
            f"{len(keys) - distinct} rows have the record key of another row",
            task.path,
            "upsert these keys",
        )
    if task.facts is not None and len(keys):
        wrong = misplaced(keys.combine_chunks(), task.file_id, task.facts, task.ring)
        if wrong:
            report.error(
                "bucket-wrong",
                f"{wrong} keys do not hash to the bucket of {task.file_id}: updates insert these keys again",
                task.path,
                "find out which writer used another bucket count or other hash fields",
            )


def _check_buckets(files: Sequence[LiveFile], facts: TableFacts | None, findings: Findings) -> None:
    if facts is None or facts.index != "simple_bucket":
        return
    held: dict[tuple[str, int | None], LiveFile] = {}
    for file in files:
        key = (file.partition_path, bucket_of(file.file_id))
        other = held.setdefault(key, file)
        bucket = key[1]
        if bucket is None or bucket >= facts.buckets:
            findings.error(
                "bucket-unknown",
                f"file group {file.file_id} belongs to none of the {facts.buckets} buckets",
                file.path,
                "find out which writer does not use the bucket index, and move its rows by upserts",
            )
        elif other is not file:
            findings.error(
                "bucket-twice",
                f"bucket {bucket} has two live file groups, the other one is {other.path}: writers refuse the bucket",
                file.path,
                "find out which writer made the second one, and move its rows by upserts",
            )


def _check_across(
    subject: Subject, batch: Sequence[FileCheck], results: Sequence[FileResult], findings: Findings
) -> None:
    """Report keys in several live file groups of a partition; `batch` holds whole partitions."""
    grouped: dict[str, list[tuple[FileCheck, pa.ChunkedArray]]] = defaultdict(list)
    for task, result in zip(batch, results, strict=True):
        if result.keys is not None and len(result.keys):
            grouped[task.partition_path].append((task, pc.unique(result.keys)))
    for partition, members in grouped.items():
        findings.looked("partitions compared")
        holding: Sequence[tuple[str, pa.ChunkedArray | pa.Array]] = [(task.path, keys) for task, keys in members]
        twice = _in_several(holding)
        if len(twice) and subject.config.table_type == "MERGE_ON_READ":
            holding = _after_merging(subject, partition, twice) or holding
            twice = _in_several(holding)
        if not len(twice):
            continue
        first = twice[0]
        holders = [path for path, held in holding if pc.is_in(first, value_set=held).as_py()]
        # As within one file, this is allowed after inserts of Apache Hudi and after bulk inserts.
        facts, may_double = members[0][0].facts, members[0][0].may_double
        (findings.warning if facts is None or (may_double and not facts.has_buckets) else findings.error)(
            "key-in-two-groups",
            f"{len(twice)} record keys are in several live file groups, the first {first.as_py()!r} in {' and '.join(holders)}",
            partition or ".",
            subject.undouble(),
        )


def _in_several(holding: Sequence[tuple[str, pa.ChunkedArray | pa.Array]]) -> pa.Array:
    """Return the keys in more than one of several files, each of which has a key once."""
    counted = pc.value_counts(pa.concat_arrays([keys.cast(pa.string()) for _, keys in holding]))
    return counted.field("values").filter(pc.greater(counted.field("counts"), 1))


def _after_merging(subject: Subject, partition: str, keys: pa.Array) -> list[tuple[str, pa.Array]]:
    """Return which of some keys each slice of a partition holds after merging.

    Empty if no slice has log files, or if they cannot be read.

    A base file still has the rows that a log file deletes; such a key may have been added to another file group since.
    """
    slices = [slice_ for slice_ in subject.slices if slice_.partition_path == partition]
    if not any(slice_.logs for slice_ in slices):
        return []
    try:
        spec = MergeRules.of(subject.config, subject.schema).keys
        tasks = key_tasks(subject.storage, subject.config, subject.timeline, subject.schema, spec, slices)
        held = subject.engine.map(keys_of_slice, tasks)
    except HudiOpsError:
        return []  # the checks of log files report what cannot be read
    paths = [(slice_.base or slice_.logs[0]).path for slice_ in slices]
    return [(path, each.filter(pc.is_in(each, value_set=keys))) for path, each in zip(paths, held, strict=True)]


def _batches(tasks: Sequence[FileCheck]) -> Iterator[list[FileCheck]]:
    """Yield batches of whole partitions; tasks are ordered by path."""
    batch: list[FileCheck] = []
    for task in tasks:
        if len(batch) >= BATCH_FILES and task.partition_path != batch[-1].partition_path:
            yield batch
            batch = []
        batch.append(task)
    if batch:
        yield batch
