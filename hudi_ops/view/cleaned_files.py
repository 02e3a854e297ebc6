"""Read which files active and archived cleans removed (docs/format §9.3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from hudi_ops.config.table import TableConfig
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import Corrupt
from hudi_ops.files.names import data_path, parse_data_file
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.content.archived import ArchivedInstant, load_history
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.plans import CleanPlan, CleanResult, Plan, Result, decode_result, read_plan, read_result
from hudi_ops.timeline.instant import Instant
from hudi_ops.view.file_group import DataFile

_CLEAN, _REPLACE = "clean", "replacecommit"
_Removed: TypeAlias = tuple[str, str, str]
"""Request time of a clean, partition path, and name of a file."""


def files_of_cleans(storage: Storage, config: TableConfig, as_of: str | None = None) -> dict[str, tuple[DataFile, str]]:
    """Return the files that cleans removed or are removing: path -> request time of the clean.

    A returned file may still exist. `as_of` leaves out the files that a read of that moment does not need: those of cleans that
    completed before it, and those of groups that an archived replace commit hid at or before it. Later replace commits are
    ignored: an archiver that died or has not decided yet leaves instants on both timelines (docs/protocol §22).

    Raises:
        Corrupt: a clean or the history cannot be read.
        Unavailable: the history is rewritten faster than it can be read.
    """
    since = as_of or ""
    active = list(_of_active(storage, load_timeline(storage, config), since))
    # Read after the cleans of the active timeline: one that is archived in between is then found twice instead of missed.
    actions = frozenset({_CLEAN} if as_of is None else {_CLEAN, _REPLACE})
    history = load_history(storage, config, with_content=True, actions=actions).instants
    hidden = _replaced(history, since)
    found = {}
    for clean, partition, name in chain(active, _of_archived(history, since)):
        named = parse_data_file(name)
        if named is not None and (partition, named.file_id) not in hidden:
            path = data_path(partition, name)
            found[path] = DataFile(partition, path, named.file_id, named.instant, 0, named.is_log), clean
    return found


def paths_of_cleans(storage: Storage, config: TableConfig) -> frozenset[str]:
    """Return the paths of files that cleans removed, are removing or found gone.

    Files of an unreadable clean or history are left out: other checks of `hudi-ops verify` report it.

    Raises:
        Unavailable: storage did not answer, or the history is rewritten faster than it can be read.
    """
    active = list(_of_active(storage, load_timeline(storage, config), skips_broken=True))
    try:
        history = load_history(storage, config, with_content=True, actions=frozenset({_CLEAN})).instants
    except Corrupt:
        history = ()
    removed = chain(active, _of_archived(history, skips_broken=True))
    return frozenset(data_path(partition, name) for _, partition, name in removed)


def _of_active(
    storage: Storage, timeline: Timeline, since: str = "", *, skips_broken: bool = False
) -> Iterator[_Removed]:
    cleans = [one for one in timeline if one.kind == _CLEAN and (not one.is_completed or one.completion_time >= since)]

    def said(one: Instant) -> Plan | Result | None:
        try:
            return read_result(storage, timeline, one) or read_plan(storage, timeline, one)
        except Corrupt:
            if skips_broken:
                return None
            raise

    for one, told in zip(cleans, LocalEngine().map(said, cleans), strict=True):
        yield from _files_of(one.time, told)


def _of_archived(
    history: Sequence[ArchivedInstant], since: str = "", *, skips_broken: bool = False
) -> Iterator[_Removed]:
    for one in history:
        if one.action != _CLEAN or one.completion_time < since or not one.metadata:
            continue
        try:
            told = decode_result(_CLEAN, one.metadata, f"archived {one.time}")
        except Corrupt:
            if skips_broken:
                continue
            raise
        yield from _files_of(one.time, told)


def _files_of(clean: str, said: Plan | Result | None) -> Iterator[_Removed]:
    by_partition: Mapping[str, Iterable[str]] = {}
    if isinstance(said, CleanPlan):
        by_partition = said.files
    elif isinstance(said, CleanResult):
        by_partition = said.named
    for partition, names in by_partition.items():
        yield from ((clean, partition, name) for name in names)


def _replaced(history: Sequence[ArchivedInstant], as_of: str) -> set[tuple[str, str]]:
    """Return partition and file id of groups that archived replace commits hid up to `as_of`."""
    return {
        group
        for one in history
        if one.action == _REPLACE and one.time <= as_of and one.metadata
        for group in CommitMetadata.from_bytes(one.metadata, f"archived {one.time}").replaced_groups
    }
