"""Keep the last view of each table, for the next operation or another process (RFC-03).

| store | where the view lies |
|---|---|
| `memory` | on the heap of the process |
| `spill` | as `memory`; above `memory_mb` in a private file that is mapped |
| `disk` | in a file that all processes of the machine share, mapped; the first operation of a process continues it |

Later instants are kept on the heap above a mapped file, until there are many. What goes wrong with a file costs the process its
file, never its view.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from hudi_ops.config.table import TableConfig
from hudi_ops.config.write_settings import ViewSettings
from hudi_ops.errors import HudiOpsError
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.completed import changing
from hudi_ops.timeline.log.commit_log import read_slot
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.files import FileColumns
from hudi_ops.view.columns.sync import synced
from hudi_ops.view.columns.table_view import View
from hudi_ops.view.stores.view_file import MappedFile, UnusableFile
from hudi_ops.view.stores.view_folder import ViewFolder, spilled

logger = logging.getLogger(__name__)

CHANGED_MAX, CHANGED_MIN = 0.1, 1000
"""Part and number of a shared file's rows that must be new before it is written anew."""

APPLIED_MAX = 10
"""Instants after which a shared file is written anew: archiving must not pass it, and each process reads those that it lacks."""

_warned: set[str] = set()
"""Tables of which a warning was logged."""


@dataclass(frozen=True)
class _Kept:
    """A view without the reader of its commits, which would keep the storage alive."""

    config: TableConfig
    timeline: Timeline
    files: FileColumns
    replaced: Mapping[tuple[str, str], str]
    ahead: FileColumns
    computed: dict[str, Any]

    @classmethod
    def of(cls, view: View) -> _Kept:
        return cls(view.config, view.timeline, view.files, view.replaced, view.ahead, view.computed)

    def view(self, commits: CommitReader) -> View:
        return View(self.config, self.timeline, commits, self.files, self.replaced, self.ahead, self.computed)


@dataclass
class _Keeper:
    """Last view of one storage.

    Views are never changed, so threads may share them; an older one would be correct, too.

    Attributes:
        settings: where views are kept.
        last: None: there is none.
        file: what the last view is mapped from; None: it lies on the heap.
        written: reading of the timeline at which the file was written.
        source: how the last view was found: `kept`, `stored`, `built` or `server`; empty: nothing asked since `clear_view_source`.
        is_served: a server told the last view, or the one from which it was continued.
        since: reading of the timeline from which it was continued.
        why: why the next view must be built; empty: there was none.
        refused: stored files that could not be continued; others are tried.
        may_write: whether files are written; not after that failed.
        may_ask: whether a timeline server is asked; not after a file was missing.
        unserved: why the last view is not that of a timeline server; empty: none was asked, or it is.
    """

    settings: ViewSettings = field(default_factory=ViewSettings)
    last: _Kept | None = None
    file: MappedFile | None = None
    written: Timeline | None = None
    source: str = ""
    is_served: bool = False
    since: Timeline | None = None
    why: str = ""
    refused: frozenset[Path] = frozenset()
    may_write: bool = True
    may_ask: bool = True
    unserved: str = ""

    def set(self, view: View, source: str, since: Timeline) -> None:
        self.is_served = source == "server" or (source == "kept" and self.is_served)
        self.last, self.source, self.since, self.why = _Kept.of(view), source, since, ""

    def clear(self, why: str) -> None:
        self.last, self.file, self.why = None, None, why


_keepers: WeakKeyDictionary[Storage, _Keeper] = WeakKeyDictionary()


def _keeper(storage: Storage) -> _Keeper:
    found = _keepers.get(storage)
    if found is None:
        found = _keepers[storage] = _Keeper()
    return found


def keep_views(storage: Storage, settings: ViewSettings) -> None:
    """Set where the views of a table are kept, for all operations that use this storage."""
    _keeper(storage).settings = settings


def kept_settings(storage: Storage) -> ViewSettings:
    """Return where the views of a table are kept."""
    return _keeper(storage).settings


def kept_view(
    storage: Storage, config: TableConfig, timeline: Timeline, commits: CommitReader, *, may_be_served: bool = True
) -> View | None:
    """Return the view at a reading of the timeline; None: it must be built.

    `may_be_served`: it may be one that a timeline server told. It may not where it decides what is written or deleted.

    Raises:
        Corrupt: commit metadata or the result of a clean cannot be read.
    """
    keeper = _keeper(storage)
    if (last := keeper.last) is not None and (may_be_served or not keeper.is_served):
        found = synced(last.view(commits), storage, config, timeline)
        if isinstance(found, View):
            keeper.set(found, "kept", last.timeline)
            return _filed(storage, found, commits)
        logger.info("the view of %s is built anew: %s", config.name, found.why)
        keeper.clear(found.why)
    if keeper.settings.store == "disk" and config.layout == 2:
        return _opened(storage, config, timeline, commits)
    return None


def _opened(storage: Storage, config: TableConfig, timeline: Timeline, commits: CommitReader) -> View | None:
    """Return the newest stored view that the timeline explains, continued to it."""
    keeper, folder = _keeper(storage), view_folder(storage)
    if folder is None or keeper.refused.issuperset(files := folder.files()):
        return None
    for stored in folder.stored(commits):
        since = stored.view.timeline
        found = synced(stored.view, storage, config, timeline)
        if isinstance(found, View):
            keeper.file, keeper.written = stored.file, since
            keeper.set(found, "stored", since)
            folder.note("opened", applied=_applied(since, timeline))
            return _filed(storage, found, commits)
        keeper.why = found.why
    keeper.refused = frozenset(files)
    return None


def keep_view(storage: Storage, view: View, source: str = "built") -> None:
    """Keep a view of all partitions of a table, which was built or told by a server.

    Views of version 6 are not kept: its log files grow. One that a server told is not stored for other processes.
    """
    if view.config.layout != 2:
        return
    keeper = _keeper(storage)
    why, keeper.file = keeper.why or "there was none", None
    keeper.set(view, source, view.timeline)
    _filed(storage, view, view.commits)
    if source == "built" and keeper.settings.store == "disk" and (folder := view_folder(storage)) is not None:
        folder.note("built", why=why)


def forget_view(storage: Storage, why: str = "a file was missing") -> None:
    """Forget the view of a table, also the stored ones, so that the next reader builds it anew."""
    keeper = _keeper(storage)
    keeper.clear(why)
    keeper.may_ask = False
    if keeper.settings.store == "disk" and (folder := view_folder(storage)) is not None:
        with suppress(OSError):
            folder.drop()


def clear_view_source(storage: Storage) -> None:
    """Begin an operation: `view_source` tells of the views that are asked from now on."""
    keeper = _keeper(storage)
    keeper.source, keeper.unserved = "", ""


def may_ask(storage: Storage) -> bool:
    """Return whether a timeline server may be asked for the view of a table.

    It is not asked once a file of the view was missing.
    """
    return _keeper(storage).may_ask


def note_served(storage: Storage, source: str, why_not: str) -> None:
    """Note that a timeline server told a view (`source`), or why it told none."""
    keeper = _keeper(storage)
    keeper.unserved = why_not
    if source:
        keeper.source, keeper.since = source, None


def is_stored(storage: Storage) -> bool:
    """Return whether the last view of a table lies in a file."""
    return _keeper(storage).file is not None


def view_source(storage: Storage) -> str:
    """Return how the last view of a table was found; empty: there was none.

    `built`, `kept, 1 instant applied`, `stored, 3 instants applied`, or `server`. With `built` it says why a timeline server
    that was asked told none.
    """
    keeper = _keeper(storage)
    if keeper.source == "built" and keeper.unserved:
        return f"built ({keeper.unserved})"
    if keeper.last is None or keeper.since is None or keeper.source in {"", "built", "server"}:
        return keeper.source
    count = _applied(keeper.since, keeper.last.timeline)
    return f"{keeper.source}, {count:,} instant{'' if count == 1 else 's'} applied"


def view_folder(storage: Storage) -> ViewFolder | None:
    """Return the files of a table's views; None: the table has no commit log.

    Without one nothing tells the table from another one that was made at its place.
    """
    try:
        place, first = _keeper(storage).settings.place, read_slot(storage, 0)
    except (RuntimeError, HudiOpsError) as error:
        logger.warning("views of %s are kept in memory alone: %s", storage.uri, error)
        return None
    return ViewFolder(place, storage.uri, first.table_id) if first is not None else None


def _filed(storage: Storage, view: View, commits: CommitReader) -> View:
    """Return a view, moved to a file if its store wants that and much lies on the heap."""
    keeper = _keeper(storage)
    if not _is_due(keeper, view):
        return view
    try:
        if keeper.settings.store == "spill":
            stored = spilled(view, keeper.settings.place, commits)
        elif (folder := view_folder(storage)) is not None:
            stored = folder.put(view, commits)
        else:
            return view
    except (UnusableFile, OSError, RuntimeError) as error:
        keeper.may_write = False
        if storage.uri not in _warned:
            _warned.add(storage.uri)
            next_step = "Next: make the folder writable for this user alone, or set `view.folder`"
            logger.warning("views of %s are kept in memory alone: %s. %s", storage.uri, error, next_step)
        return view
    keeper.file, keeper.written = stored.file, view.timeline
    mapped = replace(view, files=stored.view.files, ahead=stored.view.ahead, computed={})
    keeper.last = _Kept.of(mapped)
    return mapped


def _is_due(keeper: _Keeper, view: View) -> bool:
    """Return whether a view is written to a file: it has none, or much lies above it."""
    settings, file = keeper.settings, keeper.file
    if settings.store == "memory" or not keeper.may_write:
        return False
    if settings.store == "spill":
        return (file.overlay_bytes(view.files) if file is not None else view.files.bytes) > settings.memory_mb << 20
    if keeper.is_served:
        return False
    if file is None or keeper.written is None:
        return True
    changed = abs(view.files.count - file.rows)
    return changed > max(CHANGED_MIN, CHANGED_MAX * file.rows) or _applied(keeper.written, view.timeline) > APPLIED_MAX


def _applied(before: Timeline, now: Timeline) -> int:
    """Return the number of instants that completed between two readings of a timeline."""
    return 0 if before is now else len(changing(now) - changing(before))
