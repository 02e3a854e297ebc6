"""Keep the last view of each table, so that the next operation of a process continues it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from hudi_ops.config.table import TableConfig
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.files import FileColumns
from hudi_ops.view.columns.sync import synced
from hudi_ops.view.columns.table_view import View


@dataclass(frozen=True)
class _Kept:
    """A view without the reader of its commits, which would keep the storage alive."""

    config: TableConfig
    timeline: Timeline
    files: FileColumns
    replaced: Mapping[tuple[str, str], str]
    ahead: FileColumns
    computed: dict[str, Any]


_views: WeakKeyDictionary[Storage, _Kept] = WeakKeyDictionary()
"""The last view by storage. Views are never changed, so threads may share them; an older one would be correct, too."""


def kept_view(storage: Storage, config: TableConfig, timeline: Timeline, commits: CommitReader) -> View | None:
    """Return the view at a reading of the timeline; None: it must be built.

    Raises:
        Corrupt: commit metadata or the result of a clean cannot be read.
    """
    last = _views.get(storage)
    if last is None:
        return None
    view = View(last.config, last.timeline, commits, last.files, last.replaced, last.ahead, last.computed)
    found = synced(view, storage, config, timeline)
    if found is not None:
        keep_view(storage, found)
    else:
        _views.pop(storage, None)
    return found


def keep_view(storage: Storage, view: View) -> None:
    """Keep a view that has all partitions of a table.

    Views of version 6 are not kept: its log files grow.
    """
    if view.config.layout == 2:
        _views[storage] = _Kept(view.config, view.timeline, view.files, view.replaced, view.ahead, view.computed)


def forget_view(storage: Storage) -> None:
    """Forget the view of a table: a file of it is gone, so the next reader builds it anew."""
    _views.pop(storage, None)
