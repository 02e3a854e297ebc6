"""Publication and removal of a delta on the metadata table's own timeline.

Any process can do both, any number of times (docs/format §14.4). A delta is complete before its data instant is; while the
data instant is pending, every reader ignores it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hudi_ops.files.names import parse_data_file
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.records.partitions import FOLDER, TIMELINE_FOLDER
from hudi_ops.metadata.writer.delta import MetadataDelta
from hudi_ops.storage.claim import ensure
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.names import completed_name, inflight_name, requested_name

ACTION = "deltacommit"


def apply_delta(storage: Storage, delta: MetadataDelta, completion_time: str) -> None:
    """Put a delta's log files; complete its delta commit at the data instant's completion time.

    The delta above it counts at once. Its ranges are loose: if the write is voided later, a range may be too wide, which excludes
    no row by mistake.

    Raises:
        OutcomeUnknown: a file could not be settled; the next try settles it.
    """
    if delta.above is not None:
        apply_delta(storage, delta.above, completion_time)
    ensure(storage, _path(requested_name(delta.instant, ACTION)), b"")
    ensure(storage, _path(inflight_name(delta.instant, ACTION)), b"")
    for path, body in delta.files:
        ensure(storage, path, body)
    complete_delta(storage, delta, completion_time)


def complete_delta(storage: Storage, delta: MetadataDelta, completion_time: str) -> None:
    """Complete the delta commit of a delta whose files are put.

    Raises:
        OutcomeUnknown: it could not be settled; the next try settles it.
    """
    ensure(storage, _path(completed_name(delta.instant, ACTION, completion_time)), delta.commit)


def undo_delta(
    storage: Storage, instants: Iterable[str], check: Callable[[], None] = lambda: None, *, also_vanished: bool = False
) -> list[str]:
    """Remove the files of instants, complete or not, from a metadata table; return the paths.

    The data instants, of any writer, must still be pending, or never have been: readers ignore their blocks then. `check` is called
    between listing and deleting, and raises if another process completed one of the instants in between. Files that this process
    puts later have other names: its completion time, and its epoch in the names of the log files. Source: docs/format §14.4: the
    log files have to go physically, since a rolled-back instant counts as valid.

    `also_vanished`: look for files of instants that are not on the metadata table's timeline, too.
    """
    gone = delta_files(storage, instants, also_vanished=also_vanished)
    if gone:
        check()
    for path in gone:
        storage.delete(path)
    return gone


def delta_files(storage: Storage, instants: Iterable[str], *, also_vanished: bool = False) -> list[str]:
    """Return the files of instants in a metadata table, in the order of their removal.

    `also_vanished`: also of instants that are not on the metadata table's timeline.
    """
    undone = frozenset(instants)
    noted = [
        instant for instant in load_metadata_timeline(storage) if instant.time in undone and instant.kind == ACTION
    ]
    if not undone or not (noted or also_vanished):
        return []
    # The completed file goes first: after that, readers take the log files for those of an incomplete write.
    found = [_path(instant.file_name) for instant in noted if instant.is_completed]
    for folder in storage.list_folder(FOLDER).folders:
        if not folder.startswith("."):
            files = storage.list_folder(f"{FOLDER}/{folder}").files
            found += [info.path for info in files if _instant_of(info.name) in undone]
    return found + [_path(name_of(one.time, ACTION)) for one in noted for name_of in (inflight_name, requested_name)]


def _path(name: str) -> str:
    return f"{TIMELINE_FOLDER}/{name}"


def _instant_of(name: str) -> str:
    parsed = parse_data_file(name)
    return parsed.instant if parsed is not None else ""
