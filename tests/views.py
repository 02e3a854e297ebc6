"""Compare the view that a process keeps with one built anew (RFC-03, invariant V1), and the cleans that both choose."""

from __future__ import annotations

from typing import Any

from hudi_ops.config.requests import CleanRequest
from hudi_ops.errors import Busy
from hudi_ops.files.names import data_path
from hudi_ops.services.clean.choose import choose
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.content.plans import CleanPlan, CleanResult, read_plan, read_result
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.kept import keep_view, kept_view
from hudi_ops.view.columns.slices import newest_slices
from hudi_ops.view.columns.table_view import View, view_of
from hudi_ops.view.listing import StorageListing
from hudi_ops.view.slices import is_partitioned
from tests.tables import table_of

CLEANS = tuple(
    CleanRequest(dry_run=True, **fields)
    for fields in ({"retain": 1}, {"retain": 4}, {"policy": "versions", "retain": 1}, {"policy": "hours", "retain": 1})
)
"""Requests whose choices are compared."""


def view_anew(storage: Storage) -> View:
    """Build the view of a table by a listing."""
    config = load_config(storage)
    timeline = load_timeline(storage, config)
    listed = StorageListing(storage, is_partitioned=is_partitioned(config)).walk().files
    return view_of(config, timeline, CommitReader(storage), listed)


def assert_view_is_synced(storage: Storage) -> bool:
    """Compare the kept view, synced, with one built anew; return whether there was one that could be synced.

    The kept view lacks files that a completed clean names, and leftovers of archived instants, which a listing takes for files of
    the table. It has files that a pending clean deleted.
    """
    anew = view_anew(storage)
    kept = kept_view(storage, anew.config, anew.timeline, CommitReader(storage))
    if kept is None:
        keep_view(storage, anew)
        return False
    assert newest_slices(kept).objects() == newest_slices(anew).objects()
    start = anew.timeline.start
    for time in [one.time for one in anew.timeline.completed_writes]:
        assert newest_slices(kept, time).objects() == newest_slices(anew, time).objects() or _is_cleaned(anew, time)
    mine, fresh = (frozenset(one.settled().files.data_files()) for one in (kept, anew))
    assert {one.path for one in mine - fresh} <= _cleaned(storage, anew, is_completed=False)
    assert {one.path for one in fresh - mine if one.instant >= start} <= _cleaned(storage, anew, is_completed=True)
    return True


def assert_cleans_equal_those_of_a_listing(storage: Storage, now_ms: int) -> int:
    """Compare what cleans choose with their choice in a process that keeps no view; return the number of files to delete."""
    dropped = 0
    for request in CLEANS:
        own, fresh = (_chosen(one, now_ms, request) for one in (storage, FaultyStorage(storage)))
        assert own == fresh, request
        dropped += len(own[0])
    return dropped


def _chosen(storage: Storage, now_ms: int, request: CleanRequest) -> tuple[Any, ...]:
    """Return the files to delete, and what else a clean chooses or says."""
    session = table_of(storage, ManualClock(now_ms), "cleaner")._session
    try:
        found = choose(session, session.loader.load(), request)
    except Busy as error:
        return (), error.what
    return found.dropped, found.kept, found.carried, found.newest, found.earliest, found.moves, found.partitions


def _cleaned(storage: Storage, view: View, *, is_completed: bool) -> set[str]:
    """Return the files that cleans name."""
    named = set()
    for one in view.timeline.by_kind.get("clean", ()):
        if one.is_completed is is_completed:
            said = read_result(storage, view.timeline, one) or read_plan(storage, view.timeline, one)
            files = said.named if isinstance(said, CleanResult) else said.files if isinstance(said, CleanPlan) else {}
            named |= {data_path(path, name) for path, names in files.items() for name in names}
    return named


def _is_cleaned(view: View, time: str) -> bool:
    """Return whether a clean may have removed files that were read at a time."""
    return any(one.kind == "clean" for one in view.timeline)
