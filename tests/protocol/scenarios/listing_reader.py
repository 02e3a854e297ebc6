"""What readers see that list the table and know no commit log: Apache Hudi's rules alone, written a second time.

Source: docs/format.md §9.1. Rows of a base file are kept by its bytes: thousands of runs read the same few files.
"""

from __future__ import annotations

import io
from functools import lru_cache

import pyarrow.parquet as pq

from hudi_ops.files.names import parse_data_file
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.commit_metadata import CommitMetadata
from hudi_ops.timeline.properties_file import load_config


def listed_rows(storage: MemoryStorage) -> dict[str, int]:
    """Rows by key; a key that shows twice is an error."""
    timeline = load_timeline(storage, load_config(storage))
    completed = {instant.time for instant in timeline.completed_writes}
    hidden = replaced_groups(storage, timeline)
    newest: dict[tuple[str, str], tuple[str, str]] = {}
    for info in storage.list():
        if info.path.startswith(".hoodie/") or not info.path.endswith(".parquet"):
            continue
        partition, _, name = info.path.rpartition("/")
        parsed = parse_data_file(name)
        assert parsed is not None, info.path
        group = (partition, parsed.file_id)
        is_visible = completed and (parsed.instant in completed or parsed.instant < timeline.start)
        if is_visible and parsed.instant >= newest.get(group, ("", ""))[0]:
            newest[group] = (parsed.instant, info.path)
    rows: dict[str, int] = {}
    for group, (_, path) in newest.items():
        if group in hidden:
            continue
        for key, value in rows_in(storage.get(path)):
            assert key not in rows, f"{key} shows twice, the second time in {path}"
            rows[key] = value
    return rows


@lru_cache(maxsize=10_000)
def rows_in(body: bytes) -> tuple[tuple[str, int], ...]:
    """(key, value) of a base file's rows."""
    table = pq.ParquetFile(io.BytesIO(body)).read(["id", "value"])
    return tuple(zip(table["id"].to_pylist(), table["value"].to_pylist(), strict=True))


def replaced_groups(storage: Storage, timeline: Timeline) -> set[tuple[str, str]]:
    """File groups that a completed replace commit names, as partition path and file id."""
    found: set[tuple[str, str]] = set()
    for instant in timeline.completed_writes:
        if instant.kind == "replacecommit":
            path = timeline.path(instant.file_name)
            metadata = CommitMetadata.from_bytes(storage.get(path), path)
            for partition, ids in (metadata.replaced or {}).items():
                found.update((partition, one) for one in ids)
    return found
