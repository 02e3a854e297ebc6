"""Entries of secondary indexes that a write adds and removes.

They are computed from the rows of each changed file group before and after the write, so every operation is covered. The cost is
one more read of the record keys and indexed columns of these groups. Compactions and clusterings change no row.

Source: docs/protocol §18.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Write
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.names import parse_data_file
from hudi_ops.files.slice.slice_keys import SliceKeysTask
from hudi_ops.formats.large_arrays import joined
from hudi_ops.index.doubled_keys import key_tasks
from hudi_ops.index.simple_bucket import computed_keys
from hudi_ops.metadata.slice_entries import ChangedSlice, added_and_removed, changed_entries
from hudi_ops.timeline.content.commit_metadata import WriteStat
from hudi_ops.timeline.content.footprint import is_child_log
from hudi_ops.timeline.state import TableState
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.slices import Slice, merge_order

Group = tuple[str, str]
"""Partition path and file id."""
Entries = Mapping[str, tuple[pa.Array, pa.Array]]
"""Added and removed entries, by the name of the index."""

_KEEPS_ROWS = "CLUSTER"
"""Operation of clusterings and resizes, which change no row; neither do compactions."""


def entries_of_write(
    session: Session, state: TableState, instant: str, write: Write, schema: pa.Schema, columns: Mapping[str, str]
) -> Entries:
    """Return the entries that a write adds and removes, by index.

    Args:
        state: state of the table before the write's completion.
        schema: the table's columns from this write on, without meta columns.
        columns: the indexed column of each secondary index.

    Raises:
        Conflict: a file was removed while the table was listed.
        Corrupt: a file cannot be read.
        Unsupported: this library does not know how to merge the log files.
    """
    if write.compacted or write.operation == _KEEPS_ROWS:
        return {}
    added = _added_files(write.stats, instant)
    hidden = {(path, file_id) for path, ids in (write.replaced or {}).items() for file_id in ids}
    paths = sorted({path for path, _ in added.keys() | hidden})
    listed = session.slices.of(state.config, state.timeline, paths, session.ctx.local_engine)
    before = {one.key: one for one in listed if one.key in added or one.key in hidden}
    after = {group: _after(group, before.get(group), files) for group, files in added.items() if group not in hidden}
    tasks = _Tasks(session, state, schema, tuple(columns.values()))
    old, new = tasks.of(before, ""), tasks.of(after, instant)
    changed = [ChangedSlice(old.get(group), new.get(group)) for group in sorted(old.keys() | new.keys())]
    found = session.ctx.engine.map(partial(changed_entries, version=state.config.version), changed)
    return {name: _of_all([each[at] for each in found]) for at, name in enumerate(columns)}


def _of_all(found: Sequence[tuple[pa.Array, pa.Array]]) -> tuple[pa.Array, pa.Array]:
    """Return the added and removed entries of all groups.

    If one group adds an entry and another removes the same entry, the row moved: the entry is neither added nor removed.
    """
    added, removed = (joined([each[at] for each in found], pa.string()) for at in (0, 1))
    return added_and_removed(added, pc.unique(removed))


@dataclass(frozen=True)
class _Tasks:
    """Factory of the tasks that read slices of one table."""

    session: Session
    state: TableState
    schema: pa.Schema
    columns: tuple[str, ...]

    def of(self, slices: Mapping[Group, Slice], own: str) -> dict[Group, SliceKeysTask]:
        """Return the task of each slice; blocks of the pending write `own` count."""
        state, storage = self.state, self.session.ctx.storage
        spec = computed_keys(state.config, state.log.properties.facts)
        chosen = list(slices.values())
        tasks = key_tasks(storage, state.config, state.timeline, self.schema, spec, chosen, self.columns)
        if own:
            tasks = [replace(task, merging=_counting(task.merging, own)) for task in tasks]
        return dict(zip(slices, tasks, strict=True))


def _counting(merging: tuple[MergeRules, BlockInstants] | None, own: str) -> tuple[MergeRules, BlockInstants] | None:
    """Return merge rules, and block instants to which a pending write is added."""
    if merging is None:
        return None
    rules, instants = merging
    latest = max(instants.latest, own)
    return rules, replace(instants, latest=latest, named=instants.named | {own}, pending=instants.pending - {own})


def _added_files(stats: Sequence[WriteStat], instant: str) -> dict[Group, list[DataFile]]:
    """Return the files that a write adds by group, except in new buckets of pending resizes."""
    found: dict[Group, list[DataFile]] = {}
    for stat in stats:
        name = parse_data_file(stat.file_name)
        if name is None or is_child_log(stat, instant):
            continue
        path, size_bytes = stat.path.lstrip("/"), stat.file_size_in_bytes
        file = DataFile(stat.partition_path, path, name.file_id, name.instant, size_bytes, name.is_log)
        if not file.is_cdc:
            found.setdefault((stat.partition_path, name.file_id), []).append(file)
    return found


def _after(group: Group, before: Slice | None, files: Sequence[DataFile]) -> Slice:
    """Return the slice of a group after a write of these files."""
    base = next((file for file in files if not file.is_log), None)
    logs = [file for file in files if file.is_log]
    if base is None and before is not None:
        return Slice(*group, before.base, merge_order([*before.logs, *logs]))
    return Slice(*group, base, merge_order(logs))
