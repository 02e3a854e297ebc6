"""Ways to break a table in exactly one respect: everything that depends on the change is changed along."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_ops.config.table import PROPERTIES_PATH
from hudi_ops.formats import properties
from hudi_ops.formats.parquet import footer as parquet_footer
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import load_log
from hudi_ops.timeline.log.entries import Complete, Entry
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table


def found(storage: MemoryStorage, *, deep: bool = True) -> list[tuple[str, str]]:
    """(severity, invariant) of every finding, sorted; each once."""
    return sorted({(one.severity, one.invariant) for one in verify_table(storage, deep=deep).findings})


def errors(*invariants: str) -> list[tuple[str, str]]:
    return sorted(("error", invariant) for invariant in invariants)


def warnings(*invariants: str) -> list[tuple[str, str]]:
    return sorted(("warning", invariant) for invariant in invariants)


def infos(*invariants: str) -> list[tuple[str, str]]:
    return sorted(("info", invariant) for invariant in invariants)


def timeline_of(storage: MemoryStorage) -> Timeline:
    return load_timeline(storage, load_config(storage))


def path_of(storage: MemoryStorage, instant: Instant) -> str:
    return timeline_of(storage).path(instant.file_name)


def writes(storage: MemoryStorage) -> list[Instant]:
    """Completed writes that wrote files, oldest first."""
    timeline = timeline_of(storage)
    return [one for one in timeline.completed_writes if metadata_of(storage, one).stats]


def metadata_of(storage: MemoryStorage, instant: Instant) -> CommitMetadata:
    path = path_of(storage, instant)
    return CommitMetadata.from_bytes(storage.get(path), path)


def live(storage: MemoryStorage) -> tuple[Instant, WriteStat]:
    """The file of the newest write that has the most rows, and that write."""
    instant = writes(storage)[-1]
    return instant, max(metadata_of(storage, instant).stats, key=lambda stat: stat.num_writes)


def entries(storage: MemoryStorage) -> list[Entry]:
    log = load_log(storage, None)
    assert log is not None
    return list(log.entries)


def complete_of(storage: MemoryStorage, instant: str) -> tuple[int, Complete]:
    return next((n, e) for n, e in enumerate(entries(storage)) if isinstance(e, Complete) and e.instant == instant)


def rewrite_commit(
    storage: MemoryStorage, instant: Instant, change: Callable[[CommitMetadata], CommitMetadata]
) -> None:
    """Change what a write says, in its completed file and in its payload."""
    body = change(metadata_of(storage, instant)).to_bytes()
    storage.put(path_of(storage, instant), body)
    if any(info.path.startswith(".hoodie/.commit_log") for info in storage.list()):
        storage.put(complete_of(storage, instant.time)[1].payload, body)


def rewrite_stat(storage: MemoryStorage, instant: Instant, path: str, **changes: object) -> None:
    def change(metadata: CommitMetadata) -> CommitMetadata:
        stats = tuple(replace(s, **changes) if s.path == path else s for s in metadata.stats)  # type: ignore[arg-type]
        return replace(metadata, stats=stats)

    rewrite_commit(storage, instant, change)


def rewrite_base(
    storage: MemoryStorage,
    change: Callable[[pa.Table], pa.Table] = lambda rows: rows,
    footer: Callable[[parquet_footer.BaseFileFooter], parquet_footer.BaseFileFooter] | None = None,
) -> str:
    """Rewrite a live base file, its footer kept unless changed; sizes and row counts in its statistic follow."""
    instant, stat = live(storage)
    file = pq.ParquetFile(storage.open_input(stat.path))
    held = parquet_footer.decode_footer(file.metadata.metadata, stat.path)
    rows = change(file.read())
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema.remove_metadata(), store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(parquet_footer.encode_footer(footer(held) if footer else held))
    body = sink.getvalue()
    storage.put(stat.path, body)
    sizes = {"file_size_in_bytes": body.size, "total_write_bytes": body.size, "num_writes": rows.num_rows}
    rewrite_stat(storage, instant, stat.path, **sizes)
    return stat.path


def set_column(rows: pa.Table, name: str, change: Callable[[list[object]], list[object]]) -> pa.Table:
    values = pa.array(change(rows.column(name).to_pylist()), rows.schema.field(name).type)
    return rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), values)


def edit_properties(storage: MemoryStorage, path: str = PROPERTIES_PATH, **changes: str | None) -> None:
    """Set properties by the last part of their key, dots as underscores; None removes."""
    values = properties.loads(storage.get(PROPERTIES_PATH))
    for key, value in changes.items():
        full = "hoodie." + key.replace("_", ".")
        values.pop(full, None)
        if value is not None:
            values[full] = value
    storage.put(path, properties.dumps(values, comment="broken by a test", now_ms=0))


SLUG = re.compile(r"(?!utf-)[a-z0-9]+(-[a-z0-9]+)+")
"""The form of an invariant's id; names of encodings have it, too."""


def named_in(folder: Path) -> set[str]:
    """Every string constant that has the form of an invariant's id."""
    return {
        node.value
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SLUG.fullmatch(node.value)
    }
