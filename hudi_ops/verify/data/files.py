"""Invariants of data files: what completed instants name is there, whole, once, and where readers look (docs/format.md §6)."""

from __future__ import annotations

from collections import defaultdict

from hudi_ops.errors import HudiOpsError, NotFound
from hudi_ops.files.names import parse_data_file
from hudi_ops.formats import partition_metadata
from hudi_ops.timeline.instant import Instant
from hudi_ops.verify.report import Findings
from hudi_ops.verify.subject import FoundFile, NamedFile, Subject
from hudi_ops.view.slices import is_partitioned

_REWRITES = frozenset({"COMPACT", "LOG_COMPACT"})


def check_files(subject: Subject, findings: Findings) -> None:
    """Look at every file below the table's root, without opening data files."""
    for named in subject.named.values():
        findings.looked("named files")
        _check_named(subject, named, findings)
    _check_single(subject, findings)
    _check_replaced(subject, findings)
    _check_strays(subject, findings)
    _check_partitions(subject, findings)


def _check_named(subject: Subject, named: NamedFile, findings: Findings) -> None:
    size = subject.sizes.get(named.path)
    if size is None:
        # A listing is no snapshot: look again before calling it gone.
        if (
            named.path in subject.removed
            or subject.storage.head(named.path) is not None
            or not _still_counts(subject, named)
            or _is_superseded(subject, named)
        ):
            return
        findings.error(
            "file-missing",
            f"{named.instant} names a file that is not there, and no clean deleted it",
            named.path,
            "restore it from a copy; without it its rows are lost and readers fail",
        )
        return
    said = named.stat.file_size_in_bytes
    if said == 0 and size > 0:
        findings.warning(
            "stat-without-size",
            f"{named.instant} does not say the file's size: Apache Hudi's incremental queries skip it",
            named.path,
            "rewrite the rows, for example by an upsert of them",
        )
        return
    # Version 6 appends to log files; what a failed writer added after the named length is skipped by readers.
    grew = subject.config.layout == 1 and size > said and ".log." in named.path
    if size != said and not grew:
        findings.error(
            "file-size",
            f"{size} bytes, but {named.instant} wrote {said}",
            named.path,
            "the file was cut or replaced: restore it from a copy",
        )


def _still_counts(subject: Subject, named: NamedFile) -> bool:
    found = subject.later.find(named.instant.time, named.instant.kind)
    return found is not None and found.is_completed


def _is_superseded(subject: Subject, named: NamedFile) -> bool:
    """Of a metadata table, whether a newer base file holds what it held, or its partition was dropped since.

    Ours are cleaned, and partitions are dropped by all, without an instant that says so.
    """
    if not subject.is_metadata_table:
        return False
    partition = named.stat.partition_path
    bases = (
        one for one in subject.live_base_files if (one.partition_path, one.file_id) == (partition, named.stat.file_id)
    )
    newest = max((one.instant for one in bases), default="")
    if (named.instant.completion_time if ".log." in named.path else named.instant.time) < newest:
        return True
    instants = {file.name.instant for file in subject.data_files if file.partition_path == partition}
    found = (subject.timeline.find(instant) for instant in instants)
    # When a partition was built anew, all that is there has completed since.
    begun = min((one.completion_time for one in found if one is not None and one.completion_time), default="")
    return not begun or named.instant.completion_time < begun


def _check_single(subject: Subject, findings: Findings) -> None:
    grouped: dict[tuple[str, str, str], list[FoundFile]] = defaultdict(list)
    for file in subject.data_files:
        if not file.is_log:
            grouped[file.partition_path, file.name.file_id, file.name.instant].append(file)
    for (_, file_id, instant), files in grouped.items():
        if len(files) > 1:
            names = ", ".join(sorted(file.info.name for file in files))
            unnamed = [file for file in files if file.info.path not in subject.named]
            is_told = 0 < len(unnamed) < len(files)
            findings.error(
                "two-base-files",
                f"file group {file_id} has {len(files)} base files of {instant}: {names}. Some readers refuse the table, "
                "others read either",
                (unnamed if is_told else files)[0].info.path,
                "delete it: the completed instant names another one"
                if is_told
                else "find out which one its instant wrote, for example by a copy of the table, and delete the others",
            )


def _check_replaced(subject: Subject, findings: Findings) -> None:
    """A group that was replaced takes no more rows: nobody would see them."""
    hidden: dict[tuple[str, str], Instant] = {}
    for instant, metadata in subject.writes:
        for stat in metadata.stats:
            by = hidden.get((stat.partition_path, stat.file_id))
            # A compaction that was planned before may still merge what the group held.
            if by is not None and metadata.operation not in _REWRITES:
                findings.error(
                    "write-into-replaced",
                    f"{instant} wrote into a file group that {by} had replaced: readers do not see its rows",
                    stat.path.lstrip("/"),
                    "read the file, and write its rows again; give all writers one ZooKeeper lock",
                )
        for partition, ids in (metadata.replaced or {}).items():
            findings.looked("replaced file groups", len(ids))
            hidden |= {(partition, file_id): instant for file_id in ids}


def _check_strays(subject: Subject, findings: Findings) -> None:
    for info in subject.outside_hoodie:
        findings.looked("files below the root")
        if (
            parse_data_file(info.name) is not None
            or info.name.startswith(partition_metadata.FILE_NAME)
            or info.name.endswith(".crc")
        ):
            continue
        if info.name.endswith(".parquet"):
            findings.error(
                "stray-parquet",
                "a Parquet file whose name is no Hudi base file: some readers refuse the whole table",
                info.path,
                "move it out of the table; staging belongs under .hoodie",
            )
        else:
            findings.info("stray-file", "not a file of a Hudi table; readers skip it", info.path, "move it elsewhere")


def _check_partitions(subject: Subject, findings: Findings) -> None:
    partitions = sorted({file.partition_path for file in subject.data_files})
    for partition in partitions:
        findings.looked("partitions")
        if partition and not is_partitioned(subject.config):
            findings.error(
                "partition-unknown",
                "data files below a folder, but the table has no partition fields: readers do not look there",
                partition,
                "correct hoodie.table.partition.fields, or move the files elsewhere",
            )
            continue
        path = f"{partition}/{partition_metadata.FILE_NAME}" if partition else partition_metadata.FILE_NAME
        held = [name for name in subject.sizes if name.startswith(path)]
        if not held:
            hidden = "" if subject.has_metadata_table else ": Apache Hudi does not find its rows"
            report = findings.warning if subject.has_metadata_table or not partition else findings.error
            report(
                "partition-metadata-missing",
                f"a partition without {partition_metadata.FILE_NAME}{hidden}",
                partition or ".",
                "run an upsert into the partition, or copy the file from a partition of the same depth",
            )
        elif held == [path]:
            _check_partition_metadata(subject, partition, path, findings)


def _check_partition_metadata(subject: Subject, partition: str, path: str, findings: Findings) -> None:
    try:
        said = partition_metadata.loads(subject.storage.get(path), path)
    except NotFound:
        return
    except HudiOpsError as error:
        findings.error("partition-metadata-broken", error.what, path, error.next_step)
        return
    depth = len(partition.split("/")) if partition else 0
    if said.depth != depth:
        findings.error(
            "partition-depth",
            f"says {said.depth} levels, its path has {depth}: Apache Hudi takes another folder for the table's root",
            path,
            "delete the file; the next write to the partition writes it again",
        )
