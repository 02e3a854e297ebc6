"""Check that hash rings lead to the file groups of a table (docs/protocol.md §27)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hudi_ops.errors import Corrupt, Unsupported
from hudi_ops.index.ring import Ring
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.timeline.state import TableState


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
            next_step="drop it with `hudi-ops metadata drop TABLE record_index`; the ring locates every key without it",
        )
