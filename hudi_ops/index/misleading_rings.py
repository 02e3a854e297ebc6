"""Check that hash rings lead to the file groups of a table (docs/protocol §27)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NoReturn, TypeAlias

from hudi_ops.errors import Corrupt, Unsupported
from hudi_ops.index.ring import INITIAL, Ring
from hudi_ops.index.ring_files import ring_folder, rings_made
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.undone import Undo, undone_by
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.state import CommitReader, TableState

Group: TypeAlias = tuple[str, str]
"""Partition path and file id."""

RENEW_EMPTY = "run `hudi-ops repair TABLE ring-replaced`, which renews the ring"
RENEW_ROWS = (
    "stop the partition's other writers, read its rows, and write them by insert_overwrite, which renews the ring"
)


def refuse_misleading_rings(
    storage: Storage, commits: CommitReader, state: TableState, live: Iterable[Group], rings: Mapping[str, Ring]
) -> None:
    """Refuse rings that do not lead to the visible file groups of their partitions.

    Apache Hudi's removals and overwrites leave the ring, which then leads into replaced groups: no reader would see rows there. Its
    undo of an instant leaves a ring that counts, whose groups do not exist.

    Raises:
        Corrupt: names the instant that replaced the groups or undid the ring, or a group that no node names.
    """
    visible = frozenset(live)
    for path, write in newest_replacers(commits, state, visible, rings).items():
        metadata = commits.metadata(state.timeline, write)
        act = metadata.operation.lower() if metadata is not None and metadata.operation else write.action
        if act == "cluster" or (metadata is not None and path in rings_made(metadata.extra, write.file_name)):
            refuse_lost_ring(state.config.name, path, write.time)
        has_rows = any(partition == path for partition, _ in visible)
        raise Corrupt(
            f"the {act} of another writer, {write.time}, replaced the file groups of partition {path or '.'} and left its hash "
            f"ring of {rings[path].instant}: no reader would see rows that are written by it",
            table=state.config.name,
            instant=write.time,
            expected="a ring of the partition that leads to file groups which are not replaced",
            found=f"groups that {write.time} replaced",
            next_step=RENEW_ROWS if has_rows else f"{RENEW_EMPTY}; then run the same call again",
        )
    named = {(path, ring.file_id(node)) for path, ring in rings.items() for node in range(len(ring.prefixes))}
    if stray := min(visible - named, default=None):
        ring = rings[stray[0]]
        undo = undone_by(storage, state.config, state.timeline, ring.instant) if ring.instant != INITIAL else None
        if undo:
            _refuse_undone_ring(state.config.name, ring, undo)
        _refuse_stray_group(state.config.name, ring, stray[1])


def _refuse_undone_ring(table: str, ring: Ring, undo: Undo) -> NoReturn:
    raise Corrupt(
        f"{undo} undid {ring.instant}, whose hash ring of partition {ring.partition_path or '.'} still counts: its file groups do "
        "not exist",
        table=table,
        instant=ring.instant,
        expected="no ring file of an instant that was undone",
        found=f"the ring of {ring.instant} with its `.commit` file",
        next_step="stop Apache Hudi's writers, run `hudi-ops repair TABLE ring-left`, and the same call again",
    )


def _refuse_stray_group(table: str, ring: Ring, file_id: str) -> NoReturn:
    raise Corrupt(
        f"file group {file_id} in partition {ring.partition_path or '.'} belongs to no node of the partition's hash ring",
        table=table,
        instant=ring.instant,
        expected=f"one of the {len(ring.prefixes)} groups of ring {ring.instant}",
        found=file_id,
        next_step="run `hudi-ops verify`; another writer of this table has another index, or a ring file was lost",
    )


def newest_replacers(
    commits: CommitReader, state: TableState, live: Collection[Group], rings: Mapping[str, Ring]
) -> dict[str, Instant]:
    """Return by partition path the newest write that replaced a group of its ring."""
    groups = {path: {ring.file_id(node) for node in range(len(ring.prefixes))} for path, ring in rings.items()}
    visible: dict[str, set[str]] = defaultdict(set)
    for path, file_id in live:
        visible[path].add(file_id)
    without_files = {path: ids - visible[path] for path, ids in groups.items()}
    found: dict[str, Instant] = {}
    for write in state.timeline.completed_writes if any(without_files.values()) else ():
        metadata = commits.metadata(state.timeline, write) if write.kind == "replacecommit" else None
        for path, ids in (metadata.replaced or {}).items() if metadata is not None else ():
            if not without_files.get(path, set()).isdisjoint(ids):
                found[path] = write
    return found


def refuse_lost_ring(table: str, partition_path: str, instant: str = "") -> NoReturn:
    """Refuse a partition without the ring that its file groups, or the write `instant`, need.

    Raises:
        Corrupt: always.
    """
    lacks = f"lacks the hash ring of {instant}, which completed" if instant else "has file groups and no hash ring"
    raise Corrupt(
        f"partition {partition_path or '.'} {lacks}",
        table=table,
        instant=instant,
        file=ring_folder(partition_path),
        expected="the ring file of the newest version that counts",
        found="none",
        next_step="run `hudi-ops verify`; restore the file from a copy, since without it no key can be located",
    )


def refuse_older_rings(commits: CommitReader, state: TableState, rings: Mapping[str, str]) -> None:
    """Refuse rings of which a completed write on the timeline made a newer version.

    An older ring names file groups that were replaced: no reader sees rows that are written there. If a partition has visible
    groups, `refuse_misleading_rings` finds the same fault without reading commits.

    Args:
        commits: of the table.
        state: of the table.
        rings: instant of the ring of each partition; empty: it has none.

    Raises:
        Corrupt: the file of the newer ring was lost. Raised by `refuse_lost_ring`.
    """
    oldest = min(rings.values(), default="9")
    for write in state.timeline.completed_writes:
        if write.kind != "replacecommit" or write.time <= oldest:
            continue
        metadata = commits.metadata(state.timeline, write)
        made = rings_made(metadata.extra, write.file_name) if metadata is not None else frozenset()
        for path, instant in rings.items():
            if path in made and instant < write.time:
                refuse_lost_ring(state.config.name, path, write.time)


def refuse_record_index(state: TableState) -> None:
    """Refuse to write or resize a table with hash rings beside a record index.

    Raises:
        Unsupported: its metadata table has or gets one.
    """
    if MetadataPartition.RECORD_INDEX in state.config.all_metadata_partitions:
        raise Unsupported(
            "this table has hash rings and a record index, which would go on naming file groups that a resize replaced",
            table=state.config.name,
            expected="a metadata table without record_index",
            found=str(MetadataPartition.RECORD_INDEX),
            next_step="drop it with `hudi-ops index TABLE drop record_index`; the ring locates every key without it",
        )
