"""Check the record index: if it lacks a key, Apache Hudi inserts that key a second time."""

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
    """Report live keys without a right record and, without a sample, records without a live key."""
    found = Differences(findings, _INDEX)
    elsewhere = _Elsewhere(subject, found)
    whole = decoded_locations(subject.metadata.read(_INDEX), _WHERE) if subject.sample is None else None
    is_live = np.zeros(whole.num_rows if whole is not None else 0, bool)
    for slice_, keys in subject.live_keys():
        if not len(keys):
            continue
        held = whole if whole is not None else decoded_locations(subject.metadata.lookup(_INDEX, keys), _WHERE)
        findings.looked("keys in the record index", len(keys))
        places = places_in(keys, held["key"].combine_chunks())
        for key in keys.filter(places.is_null()).slice(0, SHOWN_MAX).to_pylist():
            what = f"no record of key {key!r} in {_place(slice_)}: Apache Hudi would insert the key a second time"
            found.report("error", "keys that are missing", what, _path(slice_))
        at = places.drop_null()
        if whole is not None:
            is_live[at.to_numpy()] = True
        elsewhere.look(slice_, held.take(at))
    elsewhere.report()
    if whole is not None:
        _check_superfluous(subject, whole.filter(pa.array(~is_live)), found)
    found.close()


class _Elsewhere:
    """Records that name another file group than the one that holds their key.

    After inserts of Apache Hudi a key may be in two file groups; its record is right if it names either.
    """

    def __init__(self, subject: IndexSubject, found: Differences) -> None:
        self._subject = subject
        self._found = found
        self._named: dict[tuple[str, str], list[tuple[str, Slice]]] = {}
        """File group that a record names -> keys, each with the slice that holds it."""
        self._doubled: set[str] = set()

    def look(self, slice_: Slice, held: pa.Table) -> None:
        """Add the records of the keys of a slice."""
        is_right = pc.and_(
            pc.equal(held["file_id"].cast(pa.string()), slice_.file_id),
            pc.equal(held["partition_path"].cast(pa.string()), slice_.partition_path),
        )
        for row in held.filter(pc.invert(is_right.fill_null(False))).to_pylist():
            group = row["partition_path"] or "", row["file_id"]
            self._named.setdefault(group, []).append((row["key"], slice_))

    def report(self) -> None:
        """Report keys that the file group of their record lacks, and keys in both file groups."""
        named = [each for each in self._subject.table.slices if (each.partition_path, each.file_id) in self._named]
        for other, keys in self._subject.keys_of(named):
            met = self._named[other.partition_path, other.file_id]
            is_there = pc.is_in(pa.array([key for key, _ in met], pa.string()), value_set=keys).to_pylist()
            self._doubled |= {key for (key, _), there in zip(met, is_there, strict=True) if there}
        for (partition, file_id), met in self._named.items():
            named_group = f"file group {file_id} in partition {partition or '.'}"
            for key, slice_ in met:
                if key not in self._doubled:
                    what = f"the record of key {key!r} names {named_group}, expected {_place(slice_)}"
                    self._found.report("error", "keys in the wrong place", what, _path(slice_))
        if self._doubled:
            some = ", ".join(map(repr, sorted(self._doubled)[:3]))
            self._found.report(
                "warning",
                "keys in two file groups",
                f"{len(self._doubled)} keys are in several file groups, of which the index names one, the first {some}",
                next_step=self._subject.table.undouble(),
            )


def _check_superfluous(subject: IndexSubject, rows: pa.Table, found: Differences) -> None:
    """Report records of keys that no slice holds.

    A key that a log file deleted may still have a record, even of a file group that no longer exists. The record is harmless if
    writers use another index.
    """
    if not rows.num_rows:
        return
    is_logged = subject.table.config.table_type == "MERGE_ON_READ"
    is_unasked = is_logged and subject.index not in {None, "other", "record_index"}
    groups = {(file.partition_path, file.file_id) for files in subject.table.files.values() for file in files}
    pairs = list(
        zip(rows["partition_path"].to_pylist(), rows["file_id"].to_pylist(), rows["key"].to_pylist(), strict=True)
    )
    for path, file_id, key in [each for each in pairs if each[:2] not in groups]:
        what = f"the record of key {key!r} names file group {file_id} of partition {path or '.'}, which does not exist"
        if is_unasked:
            found.report("info", "keys in unknown file groups", f"{what}; a log file deleted it")
        else:
            found.report("error", "keys in unknown file groups", f"{what}: Apache Hudi fails to write the key")
    rest = [key for *group, key in pairs if tuple(group) in groups]
    if rest:
        severity = "info" if is_logged else "warning"
        some = ", ".join(map(repr, rest[:3]))
        found.report(severity, "keys that are gone", f"{len(rest)} records of keys that are not in the table: {some}")


def _place(slice_: Slice) -> str:
    return f"file group {slice_.file_id} in partition {slice_.partition_path or '.'}"


def _path(slice_: Slice) -> str:
    return slice_.base.path if slice_.base is not None else (slice_.logs[0].path if slice_.logs else "")
