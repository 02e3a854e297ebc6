"""Archived timeline: the LSM history of layout 2 (docs/format §5.1)."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_ops.config.table import TableConfig
from hudi_ops.errors import Corrupt, NotFound, Unavailable
from hudi_ops.formats.json_text import load_json
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.names import WRITE_ACTIONS

VERSION_FILE = "_version_"
"""Name of the file with the number of the current manifest."""
READS_MAX = 5
"""Most attempts to read the files of a manifest while they are being merged."""

WRITES_AT_ONCE = 500
"""Archived writes whose metadata is in memory at the same time."""

_PART = re.compile(r"[^/\x00-\x1f]*[^/.\x00-\x1f][^/\x00-\x1f]*")
_MANIFEST = re.compile(r"manifest_(\d+)")
_COLUMNS = ("instantTime", "completionTime", "action")
_CONTENT = ("metadata", "plan")


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """Archived instant; `metadata` and `plan` are its files' bytes, None when not read."""

    time: str
    completion_time: str
    action: str
    metadata: bytes | None = None
    plan: bytes | None = None


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """History file that a manifest names, with its size in bytes."""

    name: str
    size_bytes: int


@dataclass(frozen=True)
class ArchivedHistory:
    """Archived instants by request time; `note` tells which archive could not be read, and why."""

    instants: tuple[ArchivedInstant, ...] = ()
    note: str = ""


def load_history(
    storage: Storage,
    config: TableConfig,
    *,
    with_content: bool = False,
    only: frozenset[str] | None = None,
    actions: frozenset[str] | None = None,
) -> ArchivedHistory:
    """Read the archived timeline (docs/format §5.1, §5.2).

    `only` limits the request times, `actions` the completed words; None: all. `with_content` also reads the bytes of plans and
    completed files. The archive of layout 1 is named in `note` and not read.

    Raises:
        Corrupt: a manifest or one of its files cannot be read.
        Unavailable: the history is rewritten faster than it can be read.
    """
    if config.layout == 1:
        kept = storage.list_folder(config.history_folder).files
        return ArchivedHistory(note=f"{len(kept)} archive files of timeline layout 1 are not read" if kept else "")
    wanted = None
    if only is not None:
        wanted = _requested_at(only)
    if actions is not None:
        of_actions = pc.field("action").isin(sorted(actions))
        wanted = of_actions if wanted is None else wanted & of_actions
    return ArchivedHistory(_read_history(storage, config.history_folder, wanted, with_content=with_content))


def load_history_of(storage: Storage, folder: str, times: frozenset[str] | None = None) -> tuple[ArchivedInstant, ...]:
    """Read archived instants from a history folder, without bytes; `times` limits them.

    Raises:
        Corrupt: the history cannot be read.
        Unavailable: it is rewritten faster than it can be read.
    """
    wanted = None if times is None else _requested_at(times)
    return _read_history(storage, folder, wanted, with_content=False)


def is_archived_write(storage: Storage, config: TableConfig, time: str) -> bool:
    """Return whether a write of that request time completed and left the active timeline.

    Raises:
        Corrupt: the history cannot be read.
        Unavailable: it is rewritten faster than it can be read.
    """
    return any(
        instant.action in WRITE_ACTIONS for instant in load_history(storage, config, only=frozenset({time})).instants
    )


def archived_writes(
    storage: Storage, config: TableConfig, times: Iterable[str]
) -> Iterator[tuple[ArchivedInstant, CommitMetadata]]:
    """Yield the archived writes of these request times, each with its commit metadata.

    Each history file that may hold some of them is read once, `WRITES_AT_ONCE` rows at a time.

    Raises:
        Corrupt: the history, or an instant in it, cannot be read.
        Unavailable: the history is rewritten faster than it can be read.
    """
    ordered = sorted(times)
    if config.layout == 1 or not ordered:
        return
    for one in _instants(storage, config.history_folder, partial(_stream_part, storage, ordered)):
        yield one, CommitMetadata.from_bytes(one.metadata or b"", f"archived {one.action} {one.time}")


@dataclass
class ArchivedTimes:
    """Completion times of archived writes of a table and of its metadata table.

    Each time is looked up once, even if the history lacks it: the history has an instant before a listing lacks it.
    """

    storage: Storage
    _known: dict[tuple[str, str], str] = field(default_factory=dict)

    def completion_times(self, folder: str, times: Iterable[str]) -> dict[str, str]:
        """Look up completion times of writes that left a timeline of layout 2 (docs/format §5.1).

        The result has an empty text for a write that the history lacks, too.

        Raises:
            Corrupt: the history cannot be read.
            Unavailable: it is rewritten faster than it can be read.
        """
        wanted = frozenset(times)
        new = frozenset(time for time in wanted if (folder, time) not in self._known)
        if new:
            read = _read_history(self.storage, folder, _requested_at(new), with_content=False)
            found = {instant.time: instant.completion_time for instant in read if instant.action in WRITE_ACTIONS}
            self._known |= {(folder, time): found.get(time, "") for time in new}
        return {time: self._known[folder, time] for time in wanted}

    def completed_since(self, folder: str, time: str) -> dict[tuple[str, str], str]:
        """Return the archived instants that completed at a time or after it, with completion times.

        Keys are request time and completed word.

        Raises:
            Corrupt: the history cannot be read.
            Unavailable: it is rewritten faster than it can be read.
        """
        read = _read_history(self.storage, folder, pc.field("completionTime") >= time, with_content=False)
        self._known |= {(folder, one.time): one.completion_time for one in read if one.action in WRITE_ACTIONS}
        return {(one.time, one.action): one.completion_time for one in read}


def _requested_at(times: frozenset[str]) -> pc.Expression:
    return pc.field("instantTime").isin(sorted(times))


def _read_history(
    storage: Storage, folder: str, wanted: pc.Expression | None, *, with_content: bool
) -> tuple[ArchivedInstant, ...]:
    read = partial(read_part, storage, wanted=wanted, with_content=with_content)
    return tuple(sorted(_instants(storage, folder, read), key=lambda one: (one.time, one.action)))


def _instants(
    storage: Storage, folder: str, read: Callable[[str], Iterable[ArchivedInstant]]
) -> Iterator[ArchivedInstant]:
    """Yield what `read` returns of each history file, each instant once.

    A batch may be written twice when archiving was cut short between file and manifest.

    Raises:
        Corrupt: the manifest, or a file that it names, is missing or cannot be read.
        Unavailable: the history is rewritten faster than it can be read.
    """
    seen: set[tuple[str, str]] = set()
    for _ in range(READS_MAX):
        manifest = newest_manifest(storage, folder)
        if manifest is None:
            return
        try:
            for part in manifest_parts(storage, manifest):
                for one in read(f"{folder}/{part.name}"):
                    if (one.time, one.action) not in seen:
                        seen.add((one.time, one.action))
                        yield one
        except NotFound:
            # Merging levels deletes files of older manifests; the version file then points to a newer one.
            if newest_manifest(storage, folder) == manifest:
                raise Corrupt(
                    f"{manifest} names a file that does not exist",
                    table=storage.uri,
                    next_step="restore the history folder from a copy of the table",
                ) from None
            continue
        return
    raise Unavailable("the archived timeline keeps changing while it is read", table=storage.uri)


def newest_manifest(storage: Storage, folder: str) -> str | None:
    """Return the path of the current manifest of a history folder; None without one."""
    try:
        version = storage.get(f"{folder}/{VERSION_FILE}").decode("ascii", "replace").strip()
    except NotFound:
        version = ""
    if not version.isdecimal():
        # Readers of Apache Hudi list too when the version file is missing: it is replaced by delete and create.
        matches = (_MANIFEST.fullmatch(info.name) for info in storage.list_folder(folder).files)
        version = str(max((int(match[1]) for match in matches if match), default=0))
    return f"{folder}/manifest_{version}" if int(version) else None


def manifest_parts(storage: Storage, manifest: str) -> tuple[HistoryPart, ...]:
    """Return the files that a manifest names.

    Raises:
        NotFound: there is no such manifest.
        Corrupt: the file is no manifest.
    """
    next_step = "restore it from a copy; the active timeline is not affected"
    record = load_json(storage.get(manifest), manifest, 'a manifest: JSON with "files"', next_step)
    parts: tuple[HistoryPart, ...] = ()
    try:
        parts = tuple(HistoryPart(str(entry["fileName"]), int(entry.get("fileLen") or 0)) for entry in record["files"])
        problem = next((f"{part.name!r} is not the name of a file" for part in parts if not _is_name(part.name)), "")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = str(error) or type(error).__name__
    if problem:
        raise Corrupt(
            f"{manifest} is not a manifest of the archived timeline: {problem}",
            expected='JSON with "files"',
            next_step="restore it from a copy of the table",
        )
    return parts


def _is_name(text: str) -> bool:
    return _PART.fullmatch(text) is not None


def read_part(
    storage: Storage, path: str, wanted: pc.Expression | None = None, *, with_content: bool = False
) -> list[ArchivedInstant]:
    """Read the instants of one history file; `wanted` selects rows.

    Raises:
        NotFound: there is no such file.
        Corrupt: the file is no history file.
    """
    columns = [*_COLUMNS, *(_CONTENT if with_content else ())]
    with _named_corrupt(path):
        rows = pq.read_table(storage.open_input(path), columns=columns, filters=wanted)
    return _instants_of(rows, columns, path)


def _stream_part(storage: Storage, times: Sequence[str], path: str) -> Iterator[ArchivedInstant]:
    """Yield the writes of these ascending request times in a history file."""
    columns = [*_COLUMNS, "metadata"]
    wanted = _requested_at(frozenset(times)) & pc.field("action").isin(sorted(WRITE_ACTIONS))
    with _named_corrupt(path):
        file = pq.ParquetFile(storage.open_input(path), pre_buffer=False)
        groups = [number for number in range(file.num_row_groups) if _may_hold(file.metadata.row_group(number), times)]
        for batch in file.iter_batches(WRITES_AT_ONCE, row_groups=groups, columns=columns) if groups else ():
            yield from _instants_of(pa.Table.from_batches([batch]).filter(wanted), columns, path)


def _may_hold(group: pq.RowGroupMetaData, times: Sequence[str]) -> bool:
    columns = (group.column(at) for at in range(group.num_columns))
    stats = next((one.statistics for one in columns if one.path_in_schema == _COLUMNS[0]), None)
    if stats is None or not stats.has_min_max or not isinstance(stats.min, str):
        return True
    return bisect_left(times, stats.min) < bisect_right(times, stats.max)


@contextmanager
def _named_corrupt(path: str) -> Iterator[None]:
    """Name the history file in errors of its reader.

    Raises:
        Corrupt: the reader failed.
    """
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, UnicodeDecodeError) as error:
        raise Corrupt(
            f"{path} cannot be read: {error}",
            expected="a Parquet file of archived instants",
            next_step="restore it from a copy of the table",
        ) from error


def _instants_of(rows: pa.Table, columns: Sequence[str], path: str) -> list[ArchivedInstant]:
    missing = [name for name in columns if name not in rows.column_names]
    if missing:
        raise Corrupt(
            f"{path} has no column {missing[0]}", expected=", ".join(columns), found=", ".join(rows.column_names)
        )
    return [
        ArchivedInstant(
            time=row["instantTime"] or "",
            completion_time=row["completionTime"] or "",
            action=row["action"] or "",
            metadata=row.get("metadata"),
            plan=row.get("plan"),
        )
        for row in rows.to_pylist()
    ]
