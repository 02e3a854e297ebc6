"""The metadata table's record index against the keys in the files: a key that it lacks is inserted a second time by Apache Hudi."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.formats.large_arrays import places_in
from hudi_ops.metadata.records.partitions import FOLDER, MetadataPartition
from hudi_ops.metadata.records.record_index import decoded_locations
from hudi_ops.verify.index.index_subject import SHOWN_MAX, Differences, IndexSubject
from hudi_ops.verify.report import Findings
from hudi_ops.view.slices import Slice

_INDEX = MetadataPartition.RECORD_INDEX
_WHERE = f"{FOLDER}/{_INDEX}"


def check_record_index(subject: IndexSubject, findings: Findings) -> None:
    """Every live key has its record, and, where all is looked at, every record its key."""
    found = Differences(findings, _INDEX)
    elsewhere = _Elsewhere(subject, found)
    whole = decoded_locations(subject.metadata.read(_INDEX), _WHERE) if subject.sample is None else None
    is_live = np.zeros(whole.num_rows if whole is not None else 0, bool)
    for one, keys in subject.live_keys():
        if not len(keys):
            continue
        held = whole if whole is not None else decoded_locations(subject.metadata.lookup(_INDEX, keys), _WHERE)
        findings.looked("keys in the record index", len(keys))
        places = places_in(keys, held["key"].combine_chunks())
        for key in keys.filter(places.is_null()).slice(0, SHOWN_MAX).to_pylist():
            what = f"no record of key {key!r}, which lies in {_place(one)}: Apache Hudi would insert it a second time"
            found.report("error", "keys that are missing", what, _path(one))
        at = places.drop_null()
        if whole is not None:
            is_live[at.to_numpy()] = True
        elsewhere.look(one, held.take(at))
    elsewhere.report()
    if whole is not None:
        _check_superfluous(subject, whole.filter(pa.array(~is_live)), found)
    found.close()


class _Elsewhere:
    """Records that name another file group than the one in which their key was met.

    A key may lie in two file groups, as after inserts of Apache Hudi; its record is right if it names either.
    """

    def __init__(self, subject: IndexSubject, found: Differences) -> None:
        self._subject = subject
        self._found = found
        self._said: dict[tuple[str, str], list[tuple[str, Slice]]] = {}
        """Keys by the file group that their record names, each with the slice in which it was met."""
        self._doubled: set[str] = set()

    def look(self, one: Slice, held: pa.Table) -> None:
        """Take in the records of the keys of a slice."""
        is_right = pc.and_(
            pc.equal(held["file_id"].cast(pa.string()), one.file_id),
            pc.equal(held["partition_path"].cast(pa.string()), one.partition_path),
        )
        for row in held.filter(pc.invert(is_right.fill_null(False))).to_pylist():
            group = row["partition_path"] or "", row["file_id"]
            self._said.setdefault(group, []).append((row["key"], one))

    def report(self) -> None:
        """Look into the named file groups: what is not there either is in the wrong place."""
        named = [one for one in self._subject.slices if (one.partition_path, one.file_id) in self._said]
        for other, keys in self._subject.keys_of(named):
            met = self._said[other.partition_path, other.file_id]
            is_there = pc.is_in(pa.array([key for key, _ in met], pa.string()), value_set=keys).to_pylist()
            self._doubled |= {key for (key, _), there in zip(met, is_there, strict=True) if there}
        for (partition, file_id), met in self._said.items():
            says = f"file group {file_id} in partition {partition or '.'}"
            for key, one in met:
                if key not in self._doubled:
                    what = f"key {key!r} is said to lie in {says}, expected {_place(one)}"
                    self._found.report("error", "keys in the wrong place", what, _path(one))
        if self._doubled:
            some = ", ".join(map(repr, sorted(self._doubled)[:3]))
            self._found.report(
                "warning",
                "keys in two file groups",
                f"{len(self._doubled)} keys lie in two file groups or more, of which the index names one, the first {some}",
                next_step=self._subject.table.undouble(),
            )


def _check_superfluous(subject: IndexSubject, rows: pa.Table, found: Differences) -> None:
    """Records of keys that no slice holds: those that were deleted by log files may still have one.

    Where another index leads writers, that does no harm, and their groups may be gone by now. Where nobody knows, it may.
    """
    if not rows.num_rows:
        return
    is_logged = subject.table.config.table_type == "MERGE_ON_READ"
    is_unasked = is_logged and subject.index not in {None, "other", "record_index"}
    groups = {(file.partition_path, file.file_id) for files in subject.files.values() for file in files}
    pairs = list(
        zip(rows["partition_path"].to_pylist(), rows["file_id"].to_pylist(), rows["key"].to_pylist(), strict=True)
    )
    for path, file_id, key in [each for each in pairs if each[:2] not in groups]:
        what = f"key {key!r} is said to lie in file group {file_id} of partition {path or '.'}, which does not exist"
        if is_unasked:
            found.report("info", "keys in unknown file groups", f"{what}; a log file deleted it")
        else:
            found.report("error", "keys in unknown file groups", f"{what}: Apache Hudi fails to write the key")
    rest = [key for *group, key in pairs if tuple(group) in groups]
    if rest:
        severity = "info" if is_logged else "warning"
        some = ", ".join(map(repr, rest[:3]))
        found.report(
            severity, "keys that are gone", f"{len(rest)} records of keys that the table does not hold: {some}"
        )


def _place(one: Slice) -> str:
    return f"file group {one.file_id} in partition {one.partition_path or '.'}"


def _path(one: Slice) -> str:
    return one.base.path if one.base is not None else (one.logs[0].path if one.logs else "")
