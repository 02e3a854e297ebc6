"""Invariants of data files: existence, sizes, names, partitions (docs/format §6)."""

from __future__ import annotations

from collections import defaultdict

from hudi_ops.errors import HudiOpsError, NotFound
from hudi_ops.files.names import parse_data_file
from hudi_ops.formats import partition_metadata
from hudi_ops.timeline.instant import Instant
from hudi_ops.verify.data.resizes import needs_child
from hudi_ops.verify.report import RESTORE, Findings
from hudi_ops.verify.subject import FoundFile, NamedFile, Subject
from hudi_ops.view.slices import is_partitioned

_REWRITES = frozenset({"COMPACT", "LOG_COMPACT"})


def check_files(subject: Subject, findings: Findings) -> None:
    """Check every file below the table's root without opening data files."""
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
        # A listing is no snapshot: request the file itself before reporting it.
        if (
            named.path in subject.removed
            or subject.storage.head(named.path) is not None
            or not _still_counts(subject, named)
            or _is_superseded(subject, named)
            or _is_of_no_child(subject, named)
        ):
            return
        findings.error(
            "file-missing",
            f"{named.instant} names this file, but it does not exist, and no clean deleted it",
            named.path,
            f"{RESTORE}; without it its rows are lost and readers fail",
        )
        return
    recorded = named.stat.file_size_in_bytes
    if recorded == 0 and size > 0:
        findings.warning(
            "stat-without-size",
            f"{named.instant} records no size for this file: Apache Hudi's incremental queries skip it",
            named.path,
            "rewrite its rows, for example by an upsert",
        )
        return
    # Version 6 appends to log files; readers skip blocks that a failed writer added after the recorded size.
    grew = subject.config.layout == 1 and size > recorded and ".log." in named.path
    if size != recorded and not grew:
        findings.error(
            "file-size",
            f"the file has {size} bytes, but {named.instant} wrote {recorded}",
            named.path,
            f"the file was truncated or replaced: {RESTORE}",
        )


def _still_counts(subject: Subject, named: NamedFile) -> bool:
    found = subject.later.find(named.instant.time, named.instant.kind)
    return found is not None and found.is_completed


def _is_superseded(subject: Subject, named: NamedFile) -> bool:
    """Return whether a newer base file, or a drop, made a file of a metadata table obsolete.

    No instant records the cleans of hudi-ops in metadata tables, nor any drop of a partition.
    """
    if not subject.is_metadata_table:
        return False
    partition = named.stat.partition_path
    group = (partition, named.stat.file_id)
    bases = (base for base in subject.live_base_files if (base.partition_path, base.file_id) == group)
    newest = max((base.instant for base in bases), default="")
    if (named.instant.completion_time if ".log." in named.path else named.instant.time) < newest:
        return True
    instants = {file.name.instant for file in subject.data_files if file.partition_path == partition}
    found = (subject.timeline.find(instant) for instant in instants)
    # All instants of the files of a rebuilt partition completed after the drop.
    begun = min((each.completion_time for each in found if each is not None and each.completion_time), default="")
    return not begun or named.instant.completion_time < begun


def _is_of_no_child(subject: Subject, named: NamedFile) -> bool:
    """Return whether a file is a log file of a group that a resize did not or will not make."""
    name = parse_data_file(named.stat.file_name)
    if name is None or not name.is_log or name.instant == named.instant.time or subject.config.layout == 1:
        return False
    group = (named.stat.partition_path, named.stat.file_id)
    resize = subject.later.find(name.instant, "replacecommit")
    if resize is None:
        return all(file.is_log or (file.partition_path, file.name.file_id) != group for file in subject.data_files)
    if not resize.is_completed:
        return not needs_child(subject, resize, group)
    metadata = subject.metadata(resize)
    made = metadata.made_groups if metadata is not None else None
    return made is not None and group not in made


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
                f"file group {file_id} has {len(files)} base files of {instant}: {names}; some readers refuse the table, "
                "others read either",
                (unnamed if is_told else files)[0].info.path,
                "delete it: its instant names another file"
                if is_told
                else "find out which file the instant wrote, for example from a copy of the table, and delete the others",
            )


def _check_replaced(subject: Subject, findings: Findings) -> None:
    """Report writes into replaced file groups: readers do not see their rows."""
    hidden: dict[tuple[str, str], Instant] = {}
    for instant, metadata in subject.writes:
        for stat in metadata.stats:
            by = hidden.get((stat.partition_path, stat.file_id))
            # A compaction that was planned before the replacement may still merge the group.
            if by is not None and metadata.operation not in _REWRITES:
                findings.error(
                    "write-into-replaced",
                    f"{instant} wrote into a file group that {by} had replaced: readers do not see its rows",
                    stat.path.lstrip("/"),
                    "read the file, and write its rows again; let all writers use one ZooKeeper lock",
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
                "Parquet file without a base file name: some readers refuse the whole table",
                info.path,
                "move it out of the table; keep staging files under .hoodie",
            )
        else:
            findings.info(
                "stray-file", "not a file of a Hudi table; readers skip it", info.path, "move it out of the table"
            )


def _check_partitions(subject: Subject, findings: Findings) -> None:
    partitions = sorted({file.partition_path for file in subject.data_files})
    for partition in partitions:
        findings.looked("partitions")
        if partition and not is_partitioned(subject.config):
            findings.error(
                "partition-unknown",
                "folder with data files in a table without partition fields: readers do not list it",
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
                f"partition without {partition_metadata.FILE_NAME}{hidden}",
                partition or ".",
                "run an upsert into the partition, or copy the file from a partition of the same depth",
            )
        elif held == [path]:
            _check_partition_metadata(subject, partition, path, findings)


def _check_partition_metadata(subject: Subject, partition: str, path: str, findings: Findings) -> None:
    try:
        recorded = partition_metadata.loads(subject.storage.get(path), path)
    except NotFound:
        return
    except HudiOpsError as error:
        findings.error("partition-metadata-broken", error.what, path, error.next_step)
        return
    depth = len(partition.split("/")) if partition else 0
    if recorded.depth != depth:
        findings.error(
            "partition-depth",
            f"depth {recorded.depth}, but the path has {depth} levels: Apache Hudi takes another folder for the table's root",
            path,
            "delete the file; the next write to the partition writes it again",
        )
