"""The metadata table against its data table: a write that it does not know is invisible to its readers (docs/format.md §9.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hudi_ops.config.table import IndexKind
from hudi_ops.errors import HudiOpsError, Unsupported
from hudi_ops.metadata.records.partitions import FOLDER, MetadataPartition, build_again
from hudi_ops.timeline.active import Timeline, timeline_of
from hudi_ops.timeline.names import parse_file_name
from hudi_ops.verify.index.index_files import check_files_index
from hudi_ops.verify.index.index_keys import check_record_index
from hudi_ops.verify.index.index_stats import check_bloom_filters, check_column_stats, check_partition_stats
from hudi_ops.verify.index.index_subject import DataUnread, IndexSubject
from hudi_ops.verify.report import Findings
from hudi_ops.verify.subject import Subject

_FOLDER = f"{FOLDER}/.hoodie"
_INIT = "0000"

_CHECKS: Mapping[MetadataPartition, Callable[[IndexSubject, Findings], None]] = {
    MetadataPartition.FILES: check_files_index,
    MetadataPartition.COLUMN_STATS: check_column_stats,
    MetadataPartition.PARTITION_STATS: check_partition_stats,
    MetadataPartition.BLOOM_FILTERS: check_bloom_filters,
    MetadataPartition.RECORD_INDEX: check_record_index,
}


def check_metadata_table(subject: Subject, findings: Findings) -> None:
    """Every completed write since the metadata table began must be completed there too."""
    if not subject.has_metadata_table:
        return
    own = _timeline(subject)
    known = {one.time for one in own if one.is_completed}
    # Bootstrap instants of the metadata table are numbers, not times; they sort before every time.
    first = min((time for time in known if not time.startswith(_INIT)), default="")
    # What completed before it began was listed. Layout 1 knows no completion times.
    begun = min((one.completion_time for one in own if one.completion_time), default="")
    for instant in subject.timeline.completed_writes:
        findings.looked("writes in the metadata table")
        is_later = instant.completion_time > begun if begun else bool(first) and instant.time > first
        if is_later and instant.time not in known:
            findings.error(
                "metadata-behind",
                "the metadata table lacks this write: readers that use it do not see its rows",
                subject.timeline.path(instant.file_name),
                build_again(),
            )


def check_index(subject: Subject, index: IndexKind | None, sample: int | None, findings: Findings) -> None:
    """Compare every partition of the metadata table that readers use with the table's files.

    Args:
        subject: the table.
        index: by which its rows are written; None: not known.
        sample: how many files are opened for it, about; None: all.
        findings: where to report.
    """
    if not subject.has_metadata_table or subject.config.layout == 1:
        return
    indexed = IndexSubject(subject, sample, index)
    for name in subject.config.metadata_partitions:
        partition = next((one for one in _CHECKS if one == name), None)
        if partition is None:
            findings.info(
                "metadata-unread", f"the metadata table's partition {name} is not compared", f"{FOLDER}/{name}"
            )
            continue
        try:
            _CHECKS[partition](indexed, findings)
        except DataUnread as unread:
            _report_unread(name, unread.error, indexed, findings)
        except HudiOpsError as error:
            findings.error(
                "metadata-broken", f"{partition} cannot be read: {error.what}", f"{FOLDER}/{name}", build_again(name)
            )


def _report_unread(name: str, error: HudiOpsError, indexed: IndexSubject, findings: Findings) -> None:
    """Report that a data file could not be read, which says nothing of the metadata table."""
    what = f"{name} was not compared with the files: {error.what}" + (f": {error.found}" if error.found else "")
    where = next((one.path for files in indexed.files.values() for one in files if one.path in error.what), "")
    if isinstance(error, Unsupported):
        findings.warning("index-not-compared", what, where, error.next_step)
    else:
        findings.error("index-not-compared", what, where, "restore the file from a copy of the table")


def _timeline(subject: Subject) -> Timeline:
    folder = f"{_FOLDER}/timeline" if subject.config.layout == 2 else _FOLDER
    names = [info.name for info in subject.under(folder) if info.path == f"{folder}/{info.name}"]
    files = [file for name in names if (file := parse_file_name(name, subject.config.layout)) is not None]
    return timeline_of(files, folder, subject.config.layout)
