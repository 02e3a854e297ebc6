"""Invariants inside log files: whole blocks of their own instant, as many rows as counted, keys of their bucket.

A plain verification opens a sample of what writes name; `deep` opens every log file.

Source: docs/format.md §6.8.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.config.table import TableFacts
from hudi_ops.errors import HudiOpsError, NotFound, Unsupported
from hudi_ops.files.log.log_file import BlockKind, LogBlock, LogFileReader
from hudi_ops.files.names import parse_data_file
from hudi_ops.index.simple_bucket import bucket_of
from hudi_ops.kernels.keys.hashing import bucket_hash_values, bucket_ids
from hudi_ops.storage.protocol import Storage
from hudi_ops.verify.report import Finding, Findings, compact_command
from hudi_ops.verify.subject import FoundFile, Subject

SAMPLED_FILES = 16


@dataclass(frozen=True)
class LogCheck:
    """One log file to check. `entries` is None where nobody counted, `facts` where buckets are not known.

    `instant` is the one that its blocks must carry; empty where they carry others, as in version 6.
    """

    storage: Storage
    path: str
    file_id: str
    instant: str
    entries: int | None
    has_keys: bool
    facts: TableFacts | None


def check_log_files(subject: Subject, facts: TableFacts | None, findings: Findings) -> None:
    """Open log files that completed writes name, but for those of metadata tables.

    Args:
        subject: the table.
        facts: buckets and their hash fields, from the commit log; None for tables without one.
        findings: where to report.
    """
    if subject.is_metadata_table:
        return
    named = subject.named
    files = [one for one in subject.data_files if one.is_log and not one.name.is_cdc and one.info.path in named]
    step = 1 if subject.deep else max(1, len(files) // SAMPLED_FILES)
    tasks = [_task(subject, facts, file) for file in files[::step]]
    for found in subject.engine.map(check_log_file, tasks):
        findings.found += found
    findings.looked("log files read", len(tasks))


def check_log_file(task: LogCheck) -> tuple[Finding, ...]:
    """Check one log file; picklable in and out, so that any engine can run it."""
    report = Findings()
    try:
        reader = LogFileReader(task.storage, task.path)
        _check_blocks(report, task, reader)
        keys = [key for block in reader.blocks for key in _keys_of(task, reader, block)]
    except NotFound:
        return ()  # cleaned while we looked; a file that is gone for good is reported by its name
    except Unsupported as error:
        report.info("log-file-unread", f"{error.what}: {error.found}", task.path, error.next_step)
        return tuple(report.found)
    except HudiOpsError as error:
        what = f"{error.what}: {error.found or 'damaged'}"
        report.error("log-file-broken", what, task.path, "restore the file from a copy of the table")
        return tuple(report.found)
    count = sum(map(len, keys))
    if task.entries is not None and count != task.entries and not reader.corrupt_blocks:
        report.error(
            "log-entry-count",
            f"{count} rows and deletes, but its write statistic says {task.entries}",
            task.path,
            "the file was replaced, or its writer counted wrongly: restore it from a copy",
        )
    if task.has_keys:
        _check_keys(report, task, keys)
    return tuple(report.found)


def _task(subject: Subject, facts: TableFacts | None, file: FoundFile) -> LogCheck:
    named = subject.named[file.info.path]
    # What a resize wrote ahead carries the instant of its plan in its name, and its writer's in its blocks.
    is_own = subject.config.layout == 2 and named.instant.time == file.name.instant
    stat = named.stat
    return LogCheck(
        storage=subject.storage,
        path=file.info.path,
        file_id=file.name.file_id,
        instant=named.instant.time if is_own else "",
        entries=stat.num_writes + stat.num_deletes if is_own else None,
        has_keys=subject.config.populate_meta_fields,
        facts=facts,
    )


def _check_blocks(report: Findings, task: LogCheck, reader: LogFileReader) -> None:
    if reader.corrupt_blocks and task.instant:
        report.error(
            "log-block-broken",
            f"{reader.corrupt_blocks} of its stretches are no whole blocks: readers pass over what they held",
            task.path,
            "restore the file from a copy of the table",
        )
    others = sorted({block.instant for block in reader.blocks if task.instant and block.instant != task.instant})
    if others:
        report.error(
            "log-block-instant",
            f"it holds blocks of {', '.join(others[:3])}, which its name does not say: a rollback would not find them",
            task.path,
            f"{compact_command(task.path.rpartition('/')[0])} merges it",
        )


def _keys_of(task: LogCheck, reader: LogFileReader, block: LogBlock) -> list[pa.Array]:
    """Keys of a block's rows or deletes; of rows without keys a column of as many nulls."""
    if block.kind is BlockKind.DELETE:
        return [deletes.keys for deletes in reader.deletes(block)]
    if not block.is_data:
        return []
    if not task.has_keys:
        schema = reader.schema(block)
        return [pa.nulls(reader.rows(block, schema.names[:1]).num_rows)]
    rows = reader.rows(block, [RECORD_KEY])
    return list(rows.column(RECORD_KEY).chunks) if rows.num_columns else [pa.nulls(0, pa.string())]


def _check_keys(report: Findings, task: LogCheck, found: list[pa.Array]) -> None:
    keys = pa.chunked_array([one for one in found if len(one)], pa.string())
    if keys.null_count:
        report.error("log-key-null", f"{keys.null_count} rows without a record key", task.path, "write them again")
        return
    name, bucket = parse_data_file(task.path.rpartition("/")[2]), bucket_of(task.file_id)
    if task.facts is None or not task.facts.has_buckets or name is None or bucket is None or not len(keys):
        return
    hashed = bucket_hash_values(keys.combine_chunks(), task.facts.hash_fields)
    wrong = int((bucket_ids(hashed, task.facts.buckets) != bucket).sum())
    if wrong:
        report.error(
            "log-key-bucket",
            f"{wrong} keys do not belong to bucket {bucket} of {task.facts.buckets}: upserts do not find them",
            task.path,
            "write these rows again, with the number of buckets that the table has",
        )
