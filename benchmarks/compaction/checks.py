"""What a table holds: its count and sum after every run, and every value of every row after the first."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.harness import delta
from benchmarks.harness.plain_files import bases_of
from benchmarks.harness.rows import ORDERING, RECORD_KEY, Answer
from hudi_ops import Table


def answer_of(table: Path, engine: str) -> Answer:
    """Rows, and sum of the ordering column; of a Hudi table as the completed commits have it."""
    if engine in ("delta", "floor"):
        column = _newest(table, engine, [ORDERING])[ORDERING]
    else:
        column = Table.open(str(table)).read([ORDERING])[ORDERING]
    return Answer(len(column), int(pc.sum(column).as_py() or 0))


def has_rows(table: Path, engine: str, expected: pa.Table) -> bool:
    """Whether its newest files hold exactly these rows, which are sorted by key; no reader of ours looks at them."""
    rows = _newest(table, engine)
    names = [name for name in expected.column_names if name in rows.column_names]
    wanted = expected.select(names)
    return rows.select(names).cast(wanted.schema).sort_by(RECORD_KEY).equals(wanted)


def _newest(table: Path, engine: str, columns: list[str] | None = None) -> pa.Table:
    if engine == "delta":
        return delta.read(str(table), columns)
    files = bases_of(table)
    if engine != "floor":
        # FILEID_TOKEN_INSTANT.parquet: the last of each file group.
        newest: dict[str, Path] = {}
        for file in sorted(files, key=lambda one: one.stem.rpartition("_")[2]):
            newest[file.name.partition("_")[0]] = file
        files = list(newest.values())
    return pa.concat_tables([pq.ParquetFile(file).read(columns) for file in files])
