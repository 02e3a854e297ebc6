"""Invariants inside log files: whole blocks of one instant, row counts, keys of one bucket.

A plain verification opens a sample of the files that writes name; `deep` opens all of them.

Source: docs/format §6.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.config.table import TableFacts
from hudi_ops.errors import HudiOpsError, NotFound, Unsupported
from hudi_ops.files.log.log_file import BlockKind, LogBlock, LogFileReader
from hudi_ops.index.ring import Ring
from hudi_ops.storage.protocol import Storage
from hudi_ops.verify.data.rings import misplaced
from hudi_ops.verify.report import RESTORE, Finding, Findings, compact_command
from hudi_ops.verify.subject import FoundFile, Subject

SAMPLED_FILES = 16


@dataclass(frozen=True)
class LogCheck:
    """One log file to check.

    `entries` is None if no count is recorded, `facts` if the buckets are unknown. `instant` must be that of all blocks; it is empty
    where blocks carry other instants, as in version 6.
    """

    storage: Storage
    path: str
    file_id: str
    instant: str
    entries: int | None
    has_keys: bool
    facts: TableFacts | None
    ring: Ring | None = None


def check_log_files(subject: Subject, facts: TableFacts | None, rings: Mapping[str, Ring], findings: Findings) -> None:
    """Check log files that completed writes name; those of metadata tables are skipped.

    `facts` are the buckets and their hash fields, from the commit log; None for tables without one. `rings` are the hash rings, by
    partition path.
    """
    if subject.is_metadata_table:
        return
    named = subject.named
    files = [file for file in subject.data_files if file.is_log and not file.name.is_cdc and file.info.path in named]
    step = 1 if subject.deep else max(1, len(files) // SAMPLED_FILES)
    tasks = [_task(subject, facts, rings, file) for file in files[::step]]
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
        return ()  # cleaned during the verification; `check_files` reports other missing files
    except Unsupported as error:
        report.info("log-file-unread", f"{error.what}: {error.found}", task.path, error.next_step)
        return tuple(report.found)
    except HudiOpsError as error:
        what = f"{error.what}: {error.found or 'damaged'}"
        report.error("log-file-broken", what, task.path, RESTORE)
        return tuple(report.found)
    count = sum(map(len, keys))
    if task.entries is not None and count != task.entries and not reader.corrupt_blocks:
        report.error(
            "log-entry-count",
            f"the file holds {count} rows and deletes, but its write statistic says {task.entries}",
            task.path,
            f"the file was replaced, or its writer miscounted: {RESTORE}",
        )
    if task.has_keys:
        _check_keys(report, task, keys)
    return tuple(report.found)


def _task(subject: Subject, facts: TableFacts | None, rings: Mapping[str, Ring], file: FoundFile) -> LogCheck:
    named = subject.named[file.info.path]
    # The name of a log file written ahead of a resize has the instant of the plan; its blocks have the instant of its writer.
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
        ring=rings.get(file.partition_path),
    )


def _check_blocks(report: Findings, task: LogCheck, reader: LogFileReader) -> None:
    if reader.corrupt_blocks and task.instant:
        report.error(
            "log-block-broken", f"{reader.corrupt_blocks} damaged blocks: readers skip their rows", task.path, RESTORE
        )
    others = sorted({block.instant for block in reader.blocks if task.instant and block.instant != task.instant})
    if others:
        report.error(
            "log-block-instant",
            f"it holds blocks of {', '.join(others[:3])}, but its name says {task.instant}: a rollback would not find them",
            task.path,
            f"{compact_command(task.path.rpartition('/')[0])} merges it",
        )


def _keys_of(task: LogCheck, reader: LogFileReader, block: LogBlock) -> list[pa.Array]:
    """Return the keys of a block's rows or deletes; nulls for rows without keys."""
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
    keys = pa.chunked_array([chunk for chunk in found if len(chunk)], pa.string())
    if keys.null_count:
        report.error(
            "log-key-null", f"{keys.null_count} rows without a record key", task.path, "write these rows again"
        )
        return
    if task.facts is None or not len(keys):
        return
    wrong = misplaced(keys.combine_chunks(), task.file_id, task.facts, task.ring)
    if wrong:
        report.error(
            "log-key-bucket",
            f"{wrong} keys do not belong to the bucket of {task.file_id}: upserts do not find them",
            task.path,
            "write these rows again with the table's number of buckets",
        )
