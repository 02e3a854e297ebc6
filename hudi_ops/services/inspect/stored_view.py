"""Describe where the file-system view of a table is kept; build it anew, or drop it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from hudi_ops.clock import Clock, SystemClock, iso_of_ms
from hudi_ops.errors import InvalidRequest, Unavailable
from hudi_ops.read.current_view import current_view
from hudi_ops.read.plan import Opened
from hudi_ops.services.base.result import Result
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.completed import changing, state_digest
from hudi_ops.view.columns.kept import forget_view, is_stored, kept_settings, view_folder
from hudi_ops.view.columns.sync import synced
from hudi_ops.view.columns.table_view import View
from hudi_ops.view.stores.view_file import UnusableFile
from hudi_ops.view.stores.view_folder import ViewFolder

BUILDS_SHOWN = 5
"""Latest builds that a description has."""


@dataclass(frozen=True)
class StoredFile(Result):
    """A file with a view.

    Attributes:
        path: of the file.
        digest: the state of the table that it holds.
        files: number of data files in it.
        bytes: size of the file.
        age_s: seconds since it was written.
        behind: instants that completed since.
        note: why it is not used; empty: it is.
    """

    path: str
    digest: str
    files: int
    bytes: int
    age_s: float
    behind: int
    note: str = ""


@dataclass(frozen=True)
class ViewState(Result):
    """Where the view of a table is kept.

    Attributes:
        table: name of the table.
        store: `memory`, `spill` or `disk`.
        folder: of the files.
        digest: the state of the table now; empty: it has no commit log, and its view is kept in memory alone.
        stored: files with views, the newest first.
        hits: number of times that a process opened one of them, as far back as the list of events goes.
        builds: number of times that the view was built of a listing.
        latest_builds: time and reason of the latest of these.
    """

    table: str
    store: str
    folder: str
    digest: str
    stored: tuple[StoredFile, ...]
    hits: int
    builds: int
    latest_builds: tuple[dict[str, str], ...]


def describe_view(storage: Storage, clock: Clock | None = None) -> ViewState:
    """Describe the stored views of a table.

    Raises:
        InvalidRequest: the path is not a table.
        Corrupt: a file of the timeline cannot be read.
    """
    opened, folder, settings = Opened.of(storage), view_folder(storage), kept_settings(storage)
    events = folder.events() if folder is not None else []
    counts = Counter(one.get("event") for one in events)
    builds = [one for one in events if one.get("event") == "built"]
    return ViewState(
        opened.config.name,
        settings.store,
        str(folder.folder) if folder is not None else "",
        state_digest(folder.table_id, opened.timeline) if folder is not None else "",
        tuple(_files(storage, opened, folder, clock or SystemClock())) if folder is not None else (),
        counts["opened"],
        counts["built"],
        tuple(
            {"at": iso_of_ms(int(one.get("at_ms", 0))), "why": str(one.get("why", ""))}
            for one in reversed(builds[-BUILDS_SHOWN:])
        ),
    )


def _files(storage: Storage, opened: Opened, folder: ViewFolder, clock: Clock) -> list[StoredFile]:
    found = []
    for path in folder.files():
        try:
            size_bytes, written_s = path.stat().st_size, path.stat().st_mtime
            stored = folder.opened(path, opened.commits)
        except FileNotFoundError:
            continue  # another process removed it
        except (UnusableFile, OSError) as error:
            found.append(StoredFile(str(path), "", 0, size_bytes, _age_s(clock, written_s), 0, str(error)))
            continue
        continued = synced(stored.view, storage, opened.config, opened.timeline)
        behind = len(changing(opened.timeline) - changing(stored.view.timeline))
        note = "" if isinstance(continued, View) else f"it cannot be continued: {continued.why}"
        files = stored.view.files.count
        found.append(StoredFile(str(path), stored.digest, files, size_bytes, _age_s(clock, written_s), behind, note))
    return found


def _age_s(clock: Clock, written_s: float) -> float:
    return round(max(0.0, clock.now_ms() / 1000 - written_s), 1)


def refresh_view(storage: Storage) -> int:
    """Build the view of a table anew, and store it; return its number of files.

    Raises:
        InvalidRequest: the store is not `disk`, the table has no commit log, or is of version 6.
        Unavailable: the folder cannot be used.
        Corrupt: a file of the timeline cannot be read, or a data file is lost.
    """
    opened = Opened.of(storage)
    _refuse_unstored(storage, opened)
    forget_view(storage, "a refresh was requested")
    files = current_view(storage, opened.config, opened.timeline, opened.commits).files.count
    if not is_stored(storage):
        raise Unavailable(
            "its view was built, and could not be stored",
            table=opened.config.name,
            expected=f"a folder for this user alone, with room: {kept_settings(storage).place}",
            found="see the warning above",
            next_step="make room, or set `view.folder` in tables.yaml",
        )
    return files


def drop_views(storage: Storage) -> tuple[str, ...]:
    """Remove the stored views of a table; return their paths.

    Raises:
        InvalidRequest: the path is not a table.
    """
    Opened.of(storage)
    folder = view_folder(storage)
    return tuple(map(str, folder.drop())) if folder is not None else ()


def _refuse_unstored(storage: Storage, opened: Opened) -> None:
    found: dict[str, Any] = {"table": opened.config.name, "field": "view.store"}
    if (store := kept_settings(storage).store) != "disk":
        raise InvalidRequest(
            "its view is not stored: it lives as long as a process",
            expected="store: disk",
            found=f"store: {store}",
            next_step="set `view: {store: disk}` for the table in tables.yaml",
            **found,
        )
    if opened.config.layout == 1:
        raise InvalidRequest("views of tables of version 6 are not stored: their log files grow", **found)
    if view_folder(storage) is None:
        raise InvalidRequest(
            "it has no commit log, so that nothing tells its stored view from that of another table",
            next_step="adopt the table: `hudi-ops adopt TABLE`",
            **found,
        )
