"""Base rows, three batches of updates and deletes, and what is left of them.

Of a batch nine in ten are updates, of which every tenth is late: its ordering value is below the base row's, so that it changes
nothing. The others delete. Keys are drawn uniformly; many are updated by several batches, and some deleted by a later one. A
deleted key is not touched again, so that it does not matter whether a writer knows a delete's ordering value.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.rows import (
    BASE_TS,
    ORDERING,
    PARTITION,
    RECORD_KEY,
    SEED,
    SPAN,
    Answer,
    keep,
    make_keys,
    make_rows,
    ts_sum,
)

BATCHES = 3
DELETED_SHARE, LATE_SHARE = 0.1, 0.1
IS_DELETED = "_hoodie_is_deleted"
"""Apache Hudi's column that marks a row as a delete; every table here has it."""


@dataclass(frozen=True)
class Inputs:
    """Folders of source files; `expected` is a file of the rows that are left, by key.

    `entries` are the rows of base and batches.
    """

    base: Path
    batches: tuple[Path, ...]
    expected: Path
    answer: Answer
    entries: int


def make_inputs(folder: Path, base_rows: int, batch_rows: int) -> Inputs:
    """Write base, batches and what is expected below a folder."""
    rng = np.random.default_rng(SEED)
    tables = [_marked(make_rows(rng, base_rows, make_keys(rng, base_rows), BASE_TS), np.zeros(base_rows, bool))]
    # Followed batch by batch, so that it owes nothing to any kernel that folds: place and ordering value of each base key's row.
    places = np.arange(base_rows)
    newest = tables[0][ORDERING].to_numpy().copy()
    is_alive = np.ones(base_rows, bool)
    first = base_rows
    for number in range(1, BATCHES + 1):
        touched = rng.choice(np.flatnonzero(is_alive), batch_rows, replace=False)
        batch, ts, deletes = _batch(rng, tables[0], touched, number)
        wins = ts >= newest[touched]
        places[touched[wins]] = first + np.flatnonzero(wins)
        newest[touched[wins]] = ts[wins]
        is_alive[touched[deletes]] = False
        first += batch_rows
        tables.append(batch)
    expected = pa.concat_tables(tables).take(pa.array(places[is_alive]))
    for number, rows in enumerate(tables):
        keep(folder / f"batch-{number}", rows)
    file = folder / "expected.parquet"
    pq.write_table(expected.sort_by(RECORD_KEY), file, compression="zstd")
    return Inputs(
        base=folder / "batch-0",
        batches=tuple(folder / f"batch-{number}" for number in range(1, BATCHES + 1)),
        expected=file,
        answer=Answer(expected.num_rows, ts_sum(expected)),
        entries=first,
    )


def _batch(
    rng: np.random.Generator, base: pa.Table, touched: npt.NDArray[np.int64], number: int
) -> tuple[pa.Table, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Rows for these base rows, in random order; their ordering values, and which of them delete."""
    count = len(touched)
    kind = rng.random(count)
    deletes = kind < DELETED_SHARE
    late = kind > 1 - (1 - DELETED_SHARE) * LATE_SHARE
    old = base.select([RECORD_KEY, PARTITION]).take(pa.array(touched))
    rows = make_rows(rng, count, old[RECORD_KEY], BASE_TS + number * 10**9)
    ts = np.where(late, BASE_TS - 1 - rng.integers(0, SPAN, count), rows[ORDERING].to_numpy())
    rows = _with(_with(rows, PARTITION, old[PARTITION]), ORDERING, pa.array(ts))
    return _marked(rows, deletes), ts, deletes


def _with(rows: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, values)


def _marked(rows: pa.Table, deletes: npt.NDArray[np.bool_]) -> pa.Table:
    return rows.append_column(IS_DELETED, pa.array(deletes))
