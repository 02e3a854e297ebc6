"""Check the metadata partition `files`: readers do not see a file that it lacks."""

from __future__ import annotations

from hudi_ops.files.names import data_path
from hudi_ops.metadata.records.file_lists import listed_files
from hudi_ops.metadata.records.partitions import FOLDER, MetadataPartition
from hudi_ops.verify.index.index_subject import Differences, IndexSubject
from hudi_ops.verify.report import Findings
from hudi_ops.verify.subject import FoundFile, Subject

_FILES = MetadataPartition.FILES


def check_files_index(subject: IndexSubject, findings: Findings) -> None:
    """Compare names, exact sizes and partitions of all files, without opening data files."""
    found = Differences(findings, _FILES)
    listed = listed_files(subject.metadata.read(_FILES), f"{FOLDER}/{_FILES}")
    recorded = {data_path(partition, name): size for partition, files in listed.items() for name, size in files.items()}
    expected = {file.info.path: file for file in subject.table.data_files if _counts(subject, file)}
    findings.looked("files in the metadata table", len(recorded))
    for path, file in expected.items():
        if path not in recorded and subject.table.storage.head(path) is None:
            continue  # a clean has deleted it since it was found
        if file.partition_path not in listed:
            where = file.partition_path or "."
            found.report(
                "error", "partitions that are missing", f"partition {where} is missing: readers do not see {path}", path
            )
        elif path not in recorded:
            found.report("error", "files that are missing", f"{path} is missing: readers do not see its rows", path)
        elif recorded[path] != file.info.size_bytes:
            found.report(
                "error",
                "files with a wrong size",
                f"records {recorded[path]} bytes of {path}, expected {file.info.size_bytes}: readers lose its rows silently",
                path,
            )
    for path in sorted(recorded.keys() - expected.keys()):
        _check_superfluous(subject, path, found)
    found.close()


def _counts(subject: IndexSubject, file: FoundFile) -> bool:
    """Return whether a completed write, active or archived, wrote a file."""
    table = subject.table
    if file.info.path in table.named or file.info.path in table.named_besides:
        return True
    if file.info.path in table.late_files:
        return False
    instant = table.timeline.find(file.name.instant)
    is_old = bool(table.timeline.start) and file.name.instant < table.timeline.start
    return instant is None and is_old and file.info.path not in table.removed


def _is_being_cleaned(table: Subject, instant: str, path: str) -> bool:
    """Return whether a pending clean deletes a file of an archived write.

    Until it completes, the file is listed.
    """
    is_old = bool(table.timeline.start) and instant < table.timeline.start
    return is_old and path in table.removed and any(one.action == "clean" for one in table.timeline.pending)


def _check_superfluous(subject: IndexSubject, path: str, found: Differences) -> None:
    table = subject.table
    if path in table.sizes:
        # If no completed write names a file, its write may have completed after the first reading, or its task failed.
        instant = next((file.name.instant for file in table.data_files if file.info.path == path), "")
        writer = subject.metadata.instants.data.find(instant)
        if (writer is None or not writer.is_completed) and not _is_being_cleaned(table, instant, path):
            found.report("error", "files of no completed write", f"lists {path}, which no completed write wrote", path)
    elif path not in table.removed and table.storage.head(path) is None:
        found.report("error", "files that are gone", f"lists {path}, which does not exist: readers fail on it", path)
