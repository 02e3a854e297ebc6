"""Rows of each shape, and the two writers: hudi_ops on the local engine, and pyarrow that writes and syncs the same files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_ops import Table
from hudi_ops.config.columns import META_COLUMNS

_PARTITION_FILE = b"#partition metadata\ncommitTime=20240501000000000\npartitionDepth=1\n" + b"#" * 30


@dataclass(frozen=True)
class Shape:
    """Two batches of rows, the second of which replaces rows of the first.

    Attributes:
        columns: of a wide table of two rows; 0: a narrow one.
        partitions: with one row each; 0: no partitions.
    """

    columns: int = 0
    partitions: int = 0

    def __str__(self) -> str:
        return f"{self.columns} columns" if self.columns else f"{self.partitions} partitions"

    def batch(self, version: int) -> pa.Table:
        """The rows of the first write (1) or the second (2)."""
        if self.partitions:
            numbers = range(self.partitions)
            return pa.table({
                "id": [f"k{number:06d}" for number in numbers],
                "part": [f"p{number:05d}" for number in numbers],
                "ts": pa.array([version] * self.partitions, pa.int64()),
                "value": [number * version for number in numbers],
            })
        kinds = [
            pa.array([version, None]),
            pa.array([f"t{version}", "u"]),
            pa.array([0.5 * version, 1.5]),
            pa.array([True, None]),
        ]
        wide = {f"c{number:05d}": kinds[number % len(kinds)] for number in range(self.columns - 2)}
        return pa.table({"id": [f"k{version}", f"k{version + 1}"], "ts": [version, version], **wide})

    def expected(self) -> pa.Table:
        """The rows after both writes, by key."""
        new = self.batch(2)
        return new if self.partitions else pa.concat_tables([self.batch(1).slice(0, 1), new])


Step = tuple[str, Callable[[], Any]]


def local_steps(shape: Shape, folder: Path, table_type: str) -> Iterator[Step]:
    """Yield the calls of the local engine; the read returns the rows.

    The table is made with a metadata table where it is wide: its statistics are a part of the work.
    """
    table = Table.create(
        str(folder / "table"),
        name="shape",
        record_key=["id"],
        schema=shape.batch(1).schema,
        partition_by=["part"] if shape.partitions else [],
        ordering="ts",
        table_type=table_type,
        metadata=not shape.partitions,
        buckets=1,
    )
    for name, version in (("first", 1), ("second", 2)):
        rows = shape.batch(version)
        yield name, lambda rows=rows: table.ingest(rows)
    if table_type == "mor" and shape.columns:
        yield "compaction", table.compaction.run
    yield "read", table.read
    table.close()


def floor_steps(shape: Shape, folder: Path, _: str) -> Iterator[Step]:
    """Yield the same with pyarrow alone: folders and files by name, each synced, nothing committed."""
    names = [f"p{number:05d}" for number in range(shape.partitions)] or ["."]
    for name, version in (("first", 1), ("second", 2)):
        rows = _with_meta(shape.batch(version), names)
        yield name, lambda rows=rows, is_new=version == 1: _write(folder, names, rows, is_new)
    yield "read", lambda: pa.concat_tables([pq.ParquetFile(folder / name / "a.parquet").read() for name in names])


def _with_meta(rows: pa.Table, names: list[str]) -> pa.Table:
    text = [f"20240501000000000_0_{number}" for number in range(rows.num_rows)]
    meta = [rows["id"] if name.endswith("_key") else pa.array(text) for name in META_COLUMNS]
    return pa.table([*meta, *rows.columns], names=[*META_COLUMNS, *rows.column_names])


def _write(folder: Path, names: list[str], rows: pa.Table, is_new: bool) -> None:
    per_file = rows.num_rows // len(names)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(
            pool.map(
                lambda number: _file(folder / names[number], rows.slice(number * per_file, per_file), is_new),
                range(len(names)),
            )
        )
    _sync(folder)


def _file(folder: Path, rows: pa.Table, is_new: bool) -> None:
    if is_new:
        folder.mkdir(exist_ok=True)
        _put(folder / ".hoodie_partition_metadata", lambda aside: aside.write_bytes(_PARTITION_FILE))
    else:
        old = pq.ParquetFile(folder / "a.parquet").read(use_threads=False)
        keeps = pa.compute.invert(pa.compute.is_in(old["id"], value_set=rows["id"].combine_chunks()))
        rows = pa.concat_tables([old.filter(keeps), rows])
    settings = {"compression": "zstd", "compression_level": 1, "store_schema": False}
    _put(folder / "a.parquet", lambda aside: pq.write_table(rows, aside, **settings))
    _sync(folder)


def _put(file: Path, write: Callable[[Path], Any]) -> None:
    aside = file.with_suffix(".aside")
    write(aside)
    _sync(aside)
    aside.replace(file)


def _sync(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
