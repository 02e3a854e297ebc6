"""Check the metadata table against its data table (docs/format §9.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.config.table import IndexKind
from hudi_ops.errors import HudiOpsError, Unsupported
from hudi_ops.metadata.reader.layout import has_partitioned_record_index
from hudi_ops.metadata.records.partitions import (
    FOLDER,
    KEEPS_INDEXES,
    MetadataPartition,
    is_secondary,
    rebuild_command,
)
from hudi_ops.timeline.active import Timeline, timeline_of
from hudi_ops.timeline.builds.announced import built_indexes
from hudi_ops.timeline.log.commit_log import Log
from hudi_ops.timeline.names import parse_file_name
from hudi_ops.verify.index.index_entries import check_secondary_index
from hudi_ops.verify.index.index_files import check_files_index
from hudi_ops.verify.index.index_keys import check_record_index
from hudi_ops.verify.index.index_stats import check_bloom_filters, check_column_stats, check_partition_stats
from hudi_ops.verify.index.index_subject import DataUnread, IndexSubject
from hudi_ops.verify.report import RESTORE, Findings
from hudi_ops.verify.subject import Subject

_FOLDER = f"{FOLDER}/.hoodie"
_INIT = "0000"

_CHECKS: Mapping[str, Callable[..., None]] = {
    MetadataPartition.FILES: check_files_index,
    MetadataPartition.COLUMN_STATS: check_column_stats,
    MetadataPartition.PARTITION_STATS: check_partition_stats,
    MetadataPartition.BLOOM_FILTERS: check_bloom_filters,
    MetadataPartition.RECORD_INDEX: check_record_index,
}


def check_metadata_table(subject: Subject, findings: Findings) -> None:
    """Report completed writes that the metadata table lacks: its readers do not see their rows."""
    if not subject.has_metadata_table:
        return
    own = _timeline(subject)
    known = {instant.time for instant in own if instant.is_completed}
    # Initial instants of the metadata table are numbers, not times; they sort before every time.
    first = min((time for time in known if not time.startswith(_INIT)), default="")
    # The metadata table began with a listing of earlier writes. Layout 1 has no completion times.
    begun = min(filter(None, (instant.completion_time for instant in own)), default="")
    for instant in subject.timeline.completed_writes:
        findings.looked("writes in the metadata table")
        is_later = instant.completion_time > begun if begun else bool(first) and instant.time > first
        if is_later and instant.time not in known:
            findings.error(
                "metadata-behind",
                "the metadata table lacks this write: readers that use it do not see the rows",
                subject.timeline.path(instant.file_name),
                rebuild_command(),
            )


def check_dropped(subject: Subject, log: Log, findings: Findings) -> None:
    """Report partitions that another program, or an unfinished rebuild, dropped.

    While the rebuild runs they are a warning, afterwards an error.

    Args:
        log: the commit log, which names partitions that are built, and that are to be built after they were dropped.
    """
    to_build = log.properties.to_build
    absent = {*MetadataPartition} - {*to_build, *subject.config.all_metadata_partitions}
    for name in sorted(built_indexes(subject.storage, log, absent)):
        findings.warning(
            "index-dropped",
            f"another program dropped {name}: its writers must set {KEEPS_INDEXES}",
            f"{FOLDER}/{name}",
            f"set that in all writers of Apache Hudi, then run `hudi-ops index TABLE run {name}`",
        )
    gone = sorted(set(to_build) - set(subject.config.all_metadata_partitions))
    if not gone:
        return
    what = f"a rebuild dropped {', '.join(gone)} of the metadata table, and has not built them"
    builds = [instant for instant in subject.timeline.pending if instant.kind == "indexing"]
    leases = [read_lease(subject.storage, instant.time) for instant in builds]
    if any(lease is not None and not lease.is_dead(subject.clock) for lease in leases):
        findings.warning("metadata-dropped", f"{what} yet", FOLDER, "wait until the build has ended")
        return
    findings.error("metadata-dropped", what, FOLDER, "`hudi-ops index TABLE run` builds them again")


def check_index(subject: Subject, index: IndexKind | None, sample: int | None, findings: Findings) -> None:
    """Compare every partition of the metadata table that readers use with the table's files.

    Args:
        index: the index that writers use; None: unknown.
        sample: approximate number of files to open; None: all.
    """
    if not subject.has_metadata_table or subject.config.layout == 1:
        return
    indexed = IndexSubject(subject, sample, index)
    is_partitioned = _has_partitioned_record_index(subject)
    for name in subject.config.metadata_partitions:
        check = partial(check_secondary_index, name=name) if is_secondary(name) else _CHECKS.get(name)
        if name == MetadataPartition.RECORD_INDEX and is_partitioned:
            check = None
        if check is None:
            kind = "partitioned " if name in _CHECKS else ""
            findings.info(
                "metadata-unread", f"hudi-ops cannot check metadata partition {kind}{name}", f"{FOLDER}/{name}"
            )
            continue
        try:
            check(indexed, findings=findings)
        except DataUnread as unread:
            _report_unread(name, unread.error, indexed, findings)
        except HudiOpsError as error:
            findings.error(
                "metadata-broken",
                f"{name} cannot be read: {error.what}",
                f"{FOLDER}/{name}",
                rebuild_command(name),
            )


def _has_partitioned_record_index(subject: Subject) -> bool:
    try:
        return has_partitioned_record_index(subject.storage, subject.config)
    except HudiOpsError:
        return False  # the checks of partitions report definitions that cannot be read


def _report_unread(name: str, error: HudiOpsError, indexed: IndexSubject, findings: Findings) -> None:
    """Report an unreadable data file, which leaves a partition of the metadata table unchecked."""
    what = f"{name} was not compared with the data files: {error.what}" + (f": {error.found}" if error.found else "")
    where = next((file.path for files in indexed.table.files.values() for file in files if file.path in error.what), "")
    if isinstance(error, Unsupported):
        findings.warning("index-not-compared", what, where, error.next_step)
    else:
        findings.error("index-not-compared", what, where, RESTORE)


def _timeline(subject: Subject) -> Timeline:
    folder = f"{_FOLDER}/timeline" if subject.config.layout == 2 else _FOLDER
    names = [info.name for info in subject.under(folder) if info.path == f"{folder}/{info.name}"]
    files = [file for name in names if (file := parse_file_name(name, subject.config.layout)) is not None]
    return timeline_of(files, folder, subject.config.layout)
