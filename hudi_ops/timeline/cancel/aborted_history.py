"""History of aborted plans: Parquet files in a folder of their own, `.hoodie/.aborted`.

Apache Hudi takes each record of its own history for a completed instant (docs/format §5.1), so records of aborted plans are
kept outside it. The files need no manifest and no lock. A file never changes, and its name contains a hash of its records: equal
records have one name. A file is deleted only after a file with all its records, and more, was put. So each record stays in some
file, even if several archivers work at the same time.

Source: docs/protocol §26.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_ops.errors import Corrupt, NotFound, Unavailable
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.cancel.aborted import AbortedPlan, parse_aborted, read_aborted
from hudi_ops.timeline.names import State

logger = logging.getLogger(__name__)

FOLDER = ".hoodie/.aborted"
MERGED_BYTES_MAX = 16 << 20
"""Largest size in bytes of a file that is still merged: an archiver merges such files into one."""
READS_MAX = 5
"""Most attempts to read the folder while its files are being merged."""

_SCHEMA = pa.schema([("instant", pa.string()), ("record", pa.string()), ("plan", pa.binary())])
_SUFFIX = ".parquet"


@dataclass(frozen=True, slots=True, order=True)
class ArchivedPlan:
    """Record of an aborted plan in the history: JSON without the plan, and the plan."""

    instant: str
    record: str
    plan: bytes = b""

    @classmethod
    def of(cls, body: bytes, path: str, instant: str) -> ArchivedPlan:
        """Return the record in an `.aborted` file, including fields that this release does not know.

        Raises:
            Corrupt: the bytes are no such record, or the record of another instant.
        """
        parse_aborted(body, path, instant)
        said = json.loads(body)
        try:
            plan = base64.b64decode(said.pop("plan", ""), validate=True)
        except binascii.Error as error:
            raise Corrupt(
                f"{path} has a plan that is not base64",
                instant=instant,
                expected="the bytes of the requested file, in base64",
                found=str(error),
                next_step="the slot decides, so no row is at risk; delete the file if you do not need the record",
            ) from error
        return cls(instant, json.dumps(said, separators=(",", ":"), sort_keys=True), plan)

    @property
    def worth(self) -> tuple[bool, int, ArchivedPlan]:
        """Sort key by which the more complete of two records of one plan wins.

        A record is less complete if its aborter wrote it after the plan's file was gone.
        """
        return bool(self.plan), len(self.record), self

    def decode(self, path: str) -> AbortedPlan:
        """Return the record; `plan` is empty if it was not read.

        Raises:
            Corrupt: the bytes are no such record.
        """
        return parse_aborted(self.record.encode(), path, self.instant).with_plan(self.plan)


Records: TypeAlias = Mapping[str, ArchivedPlan]


def load_aborted(storage: Storage, instant: str | None = None, *, with_plan: bool = False) -> tuple[AbortedPlan, ...]:
    """Read the archived records of aborted plans, oldest first.

    Args:
        storage: storage of the table.
        instant: read only the record of this plan; None: all records.
        with_plan: read the bytes of the plans, too.

    Raises:
        Corrupt: a file of the history cannot be read.
        Unavailable: its files are merged faster than they can be read.
    """
    wanted = pc.field("instant") == instant if instant is not None else None
    for _ in range(READS_MAX):
        found: dict[str, ArchivedPlan] = {}
        try:
            for path in history_files(storage):
                found = joined(found, read_records(storage, path, wanted, with_plan=with_plan).values())
        except NotFound:
            continue  # another file has its records, and more
        return tuple(found[time].decode(FOLDER) for time in sorted(found))
    raise Unavailable("the history of aborted plans keeps changing while it is read", table=storage.uri)


def find_aborted(storage: Storage, timeline: Timeline, instant: str) -> AbortedPlan | None:
    """Return the record of an aborted plan, from timeline or history; None without one.

    Raises:
        Corrupt: the record, or a file of the history, cannot be read.
        Unavailable: the files of the history are merged faster than they can be read.
    """
    for plan in timeline.aborted:
        if plan.time == instant and State.ABORTED in plan.states:
            with suppress(NotFound):  # it was archived since the timeline was listed
                return read_aborted(storage, timeline, plan)
    return next(iter(load_aborted(storage, instant, with_plan=True)), None)


def add_records(storage: Storage, new: Sequence[ArchivedPlan]) -> None:
    """Add records to the history, and merge its files into one.

    Records that the history already has change nothing. Large and unreadable files stay as they are.
    """
    files = [info for info in storage.list_folder(FOLDER).files if info.name.endswith(_SUFFIX)]
    small = [info.path for info in files if info.size_bytes <= MERGED_BYTES_MAX]
    if not new and len(small) < 2:
        return
    merged: dict[str, ArchivedPlan] = {}
    paths = []
    for path in small:
        try:
            merged = joined(merged, read_records(storage, path, with_plan=True).values())
        except NotFound:
            continue  # another archiver merged it
        except Corrupt as error:
            logger.warning("%s stays as it is: %s", path, error)
            continue
        paths.append(path)
    merged = joined(merged, new)
    if not merged:
        return
    target = f"{FOLDER}/{name_of(merged)}"
    if target not in paths:
        storage.put(target, encode_records(merged))
    storage.delete_all([path for path in paths if path != target])


def joined(known: Records, more: Iterable[ArchivedPlan]) -> dict[str, ArchivedPlan]:
    """Return the union of records by instant; of two records of one plan, the more complete one.

    The order of the records does not matter, so archivers that merge the same files put the same file.
    """
    found = dict(known)
    for one in more:
        old = found.get(one.instant)
        if old is None or old.worth < one.worth:
            found[one.instant] = one
    return found


def name_of(records: Records) -> str:
    """Return the file name of records: first and last instant, and a hash of their content."""
    ordered = sorted(records)
    digest = hashlib.sha256()
    for time in ordered:
        one = records[time]
        for part in (one.record.encode(), one.plan):
            digest.update(len(part).to_bytes(8, "big") + part)
    return f"{ordered[0]}_{ordered[-1]}_{digest.hexdigest()[:16]}{_SUFFIX}"


def encode_records(records: Records) -> bytes:
    """Encode a file of the history."""
    ordered = [records[time] for time in sorted(records)]
    columns = [
        pa.array([one.instant for one in ordered], pa.string()),
        pa.array([one.record for one in ordered], pa.string()),
        pa.array([one.plan for one in ordered], pa.binary()),
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(columns, schema=_SCHEMA), sink, compression="zstd")
    body: bytes = sink.getvalue().to_pybytes()
    return body


def history_files(storage: Storage) -> list[str]:
    """Return the paths of the files of the history."""
    return [info.path for info in storage.list_folder(FOLDER).files if info.name.endswith(_SUFFIX)]


def _rows(table: pa.Table) -> list[ArchivedPlan]:
    """Return the records of a file of the history.

    Raises:
        TypeError: a value is missing.
    """
    if any(column.null_count for column in table.columns):
        raise TypeError("a record without a value")
    return [ArchivedPlan(**row) for row in table.to_pylist()]


def read_records(
    storage: Storage, path: str, wanted: pc.Expression | None = None, *, with_plan: bool = False
) -> dict[str, ArchivedPlan]:
    """Read the records of one file by instant; `wanted` selects rows.

    Raises:
        NotFound: there is no such file.
        Corrupt: it is no file of the history.
    """
    columns = _SCHEMA.names if with_plan else _SCHEMA.names[:2]
    try:
        table = pq.read_table(storage.open_input(path), columns=columns, filters=wanted)
        rows = _rows(table)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, TypeError, UnicodeDecodeError) as error:
        raise Corrupt(
            f"{path} cannot be read: {error}",
            expected="a Parquet file of records of aborted plans",
            found=type(error).__name__,
            next_step="the slots decide, so no row is at risk: restore it from a copy, or delete it if you do not need the records",
        ) from error
    return {one.instant: one for one in rows}
