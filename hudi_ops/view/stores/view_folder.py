"""Share the newest views of each table between the processes of a machine, in a folder.

A file is named by the table's place and id, the version of the format, and the state (`state_digest`). It is put by one rename, so
that a process which dies leaves the whole file or a temporary one. Other users may write neither to the folder nor to its files.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hudi_ops.timeline.completed import state_digest
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.table_view import View
from hudi_ops.view.stores.view_file import (
    VERSION,
    StoredView,
    UnusableFile,
    check_folder,
    open_view,
    write_view,
)

logger = logging.getLogger(__name__)

FILES_KEPT = 2
"""Newest files of a table that stay. Processes that opened an older one keep its pages."""

LEFTOVER_S = 24 * 3600
"""Age after which a temporary file of a dead process is removed."""

UNUSED_S = 30 * 24 * 3600
"""Age after which a file is removed: its table has not changed since, or is gone."""

EVENTS_MAX_BYTES = 1 << 16
"""Size of a table's list of events above which it begins anew."""

_TEMPORARY = ".hudi-ops-view-"
_OWN = re.compile(r"[0-9a-f]{32}(?:-v\d+-[0-9a-f]{64}\.view|\.events)")


@dataclass(frozen=True)
class ViewFolder:
    """Files of one table in a folder of views.

    Attributes:
        folder: of the views of all tables.
        uri: place of the table.
        table_id: its id in the commit log.
    """

    folder: Path
    uri: str
    table_id: str

    @property
    def prefix(self) -> str:
        """First part of the names of the table's files."""
        return hashlib.sha256(f"{self.uri}\n{self.table_id}".encode()).hexdigest()[:32]

    def path(self, digest: str) -> Path:
        """Return the path of the file of a state."""
        return self.folder / f"{self.prefix}-v{VERSION}-{digest}.view"

    def files(self) -> list[Path]:
        """Return the table's files, the newest first; none without a folder that may be used."""
        return [self.folder / name for _, name in self._written()]

    def _written(self) -> list[tuple[int, str]]:
        """Return time in ns and name of the table's files, the newest first."""
        found = []
        with suppress(UnusableFile, OSError):
            check_folder(self.folder)
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if entry.name.startswith(f"{self.prefix}-v{VERSION}-") and entry.name.endswith(".view"):
                        with suppress(FileNotFoundError):  # another process removed it
                            found.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.name))
        return sorted(found, reverse=True)

    def stored(self, commits: CommitReader) -> Iterator[StoredView]:
        """Yield the table's views, the newest first; a file that cannot be opened is logged."""
        for path in self.files():
            try:
                found = self.opened(path, commits)
            except FileNotFoundError:
                continue  # another process removed it: newer ones came
            except (UnusableFile, OSError, ValueError) as error:
                logger.warning("the view of %s is built anew: %s is not used: %s", self.uri, path, error)
                continue
            yield found

    def opened(self, path: Path, commits: CommitReader) -> StoredView:
        """Open one of the table's files.

        Raises:
            UnusableFile: it is damaged, or of another state.
            OSError: it cannot be read.
        """
        found = open_view(str(path), commits)
        if path != self.path(found.digest):
            raise UnusableFile("it is of another state")
        return found

    def put(self, view: View, commits: CommitReader) -> StoredView:
        """Store a view, and open its file; older files of the table go.

        Raises:
            UnusableFile: other users may change the folder.
            OSError: the folder cannot be made or written, or the disk is full.
        """
        _make(self.folder)
        digest = state_digest(self.table_id, view.timeline)
        path, before = self.path(digest), self._written()
        with _temporary(self.folder) as name:
            write_view(name, view, digest)
            found = open_view(name, commits)
            newest_ns = before[0][0] if before else 0
            if newest_ns >= Path(name).stat().st_mtime_ns:  # the clock went back
                os.utime(name, ns=(newest_ns + 1, newest_ns + 1))
            os.replace(name, path)  # noqa: PTH105 - `name` is a text
        for old in [one for _, one in before if one != path.name][FILES_KEPT - 1 :]:
            (self.folder / old).unlink(missing_ok=True)
        _sweep(self.folder)
        return found

    def drop(self) -> list[Path]:
        """Remove the table's stored views; return their paths."""
        found = self.files()
        for path in found:
            path.unlink(missing_ok=True)
        return found

    @property
    def _events_path(self) -> Path:
        return self.folder / f"{self.prefix}.events"

    def note(self, event: str, **facts: Any) -> None:
        """Add to the list of what happened to the table's view; errors of the folder are ignored."""
        line = json.dumps({"at_ms": time.time_ns() // 1_000_000, "event": event, **facts}) + "\n"
        with suppress(UnusableFile, OSError):
            check_folder(self.folder)
            path = self._events_path
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags, 0o600), "ab") as out:
                if out.tell() > EVENTS_MAX_BYTES:
                    out.truncate(0)
                out.write(line.encode())

    def events(self) -> list[dict[str, Any]]:
        """Return what happened to the table's view, oldest first, as far back as the list goes."""
        found = []
        with suppress(UnusableFile, OSError):
            check_folder(self.folder)
            for line in self._events_path.read_text(encoding="utf-8", errors="replace").splitlines():
                with suppress(ValueError):
                    found.append(cast("dict[str, Any]", json.loads(line)))
        return found


def spilled(view: View, folder: Path, commits: CommitReader) -> StoredView:
    """Write a view to a private file without a name, and open it.

    Raises:
        UnusableFile: other users may change the folder.
        OSError: the folder cannot be made or written, or the disk is full.
    """
    _make(folder)
    _sweep(folder)
    with _temporary(folder) as name:
        write_view(name, view, "")
        return open_view(name, commits)


def _make(folder: Path) -> None:
    """Make a folder for this user alone, and refuse one that others can change."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    check_folder(folder)


def _sweep(folder: Path) -> None:
    """Remove what dead processes left, and files of tables that have not changed for long."""
    now = time.time()
    with os.scandir(folder) as entries:
        for entry in entries:
            age_s = LEFTOVER_S if entry.name.startswith(_TEMPORARY) else UNUSED_S
            if age_s == LEFTOVER_S or _OWN.fullmatch(entry.name):
                with suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode) and found.st_mtime < now - age_s:
                        Path(entry.path).unlink()


@contextmanager
def _temporary(folder: Path) -> Iterator[str]:
    """Make an empty file; remove it at the end if it was not renamed."""
    fd, name = tempfile.mkstemp(prefix=_TEMPORARY, dir=folder)
    os.close(fd)
    try:
        yield name
    finally:
        Path(name).unlink(missing_ok=True)
