"""Check that hash rings lead to the file groups of a table (docs/protocol.md §27)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

from hudi_ops.errors import Corrupt, Unsupported
from hudi_ops.index.ring import Ring
from hudi_ops.index.ring_files import ring_folder, rings_made
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.timeline.state import CommitReader, TableState


def refuse_stray_groups(table: str, keys: Iterable[tuple[str, str]], rings: Mapping[str, Ring]) -> None:
    """Refuse visible groups, by partition path and file id, that no node of a ring names.

    Raises:
        Corrupt: no write would find their rows.
    """
    named = {(path, ring.file_id(node)) for path, ring in rings.items() for node in range(len(ring.prefixes))}
    stray = min(set(keys) - named, default=None)
    if stray is not None:
        path, file_id = stray
        raise Corrupt(
            f"file group {file_id} in partition {path or '.'} belongs to no node of the partition's hash ring",
            table=table,
            instant=rings[path].instant,
            expected=f"one of the {len(rings[path].prefixes)} groups of ring {rings[path].instant}",
            found=file_id,
            next_step="run `hudi-ops verify`; another writer of this table has another index, or a ring file was lost",
        )


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
    groups, `refuse_stray_groups` finds the same fault without reading commits.

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
