"""What readers see that list the table and know no commit log: Apache Hudi's rules alone, written a second time.

Source: docs/format §9.1. Rows of a base file are kept by its bytes: thousands of runs read the same few files.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Container, Iterator
from functools import lru_cache

import pyarrow.parquet as pq

from hudi_ops.files.log.log_file import LogFileReader
from hudi_ops.files.names import parse_data_file
from hudi_ops.formats import partition_metadata
from hudi_ops.formats.log.blocks import BlockKind
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.settings.properties_file import load_config


def listed_rows(storage: MemoryStorage) -> dict[str, int]:
    """Rows by key; a key that shows twice is an error."""
    timeline = load_timeline(storage, load_config(storage))
    completed = {instant.time: instant.completion_time for instant in timeline.completed_writes}
    hidden = replaced_groups(storage, timeline)
    newest: dict[tuple[str, str], tuple[str, str]] = {}
    logs: dict[tuple[str, str], list[tuple[tuple[str, int, str], str, str]]] = defaultdict(list)
    for info in storage.list():
        if info.path.startswith(".hoodie/") or info.name == partition_metadata.FILE_NAME:
            continue
        partition, _, name = info.path.rpartition("/")
        parsed = parse_data_file(name)
        assert parsed is not None, info.path
        group = (partition, parsed.file_id)
        is_visible = completed and (parsed.instant in completed or parsed.instant < timeline.start)
        if is_visible and parsed.is_log:
            order = (parsed.instant, parsed.version, parsed.token)
            logs[group].append((order, completed.get(parsed.instant, parsed.instant), info.path))
        elif is_visible and parsed.instant >= newest.get(group, ("", ""))[0]:
            newest[group] = (parsed.instant, info.path)
    rows: dict[str, int] = {}
    for group in newest.keys() | logs.keys():
        if group in hidden:
            continue
        base, path = newest.get(group, ("", ""))
        held = dict(rows_in(storage.get(path))) if path else {}
        for _, completion, log in sorted(logs[group]):
            if completion >= base:
                for key, value in entries_in(storage, log, completed.keys(), timeline.start):
                    held.pop(key, None) if value is None else held.update({key: value})
        assert not held.keys() & rows.keys(), f"{held.keys() & rows.keys()} show twice, the second time in {group}"
        rows |= held
    return rows


def entries_in(storage: Storage, path: str, completed: Container[str], start: str) -> Iterator[tuple[str, int | None]]:
    """(key, value) of a log file in the order of the file; None for deletes.

    A write beside a resize puts log files under the instant of the resize: only the blocks name the write.
    """
    reader = LogFileReader(storage, path)
    for block in reader.blocks:
        if block.instant not in completed and block.instant >= start:
            continue
        if block.kind is BlockKind.DELETE:
            for deletes in reader.deletes(block):
                yield from ((key, None) for key in deletes.keys.to_pylist())
        else:
            rows = reader.rows(block, ["id", "value"])
            yield from zip(rows["id"].to_pylist(), rows["value"].to_pylist(), strict=True)


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
