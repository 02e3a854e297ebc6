"""The tables that are read, all of the same rows: a bulk insert, then three upserts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.harness import delta
from benchmarks.harness.comparison import say
from benchmarks.harness.rows import (
    BASE_TS,
    ORDERING,
    PARTITION,
    PARTITIONS,
    RECORD_KEY,
    SEED,
    Answer,
    make_keys,
    make_rows,
    ts_sum,
)
from benchmarks.read.cases import LAYOUTS, PLAIN, RECORD_INDEX, Case
from hudi_ops import Table
from hudi_ops.config.write_settings import FileSizes

UPSERTS = 3
GROUPS = 2
"""File groups of each partition."""


@dataclass(frozen=True)
class Inputs:
    """Rows of the base and of each upsert, and the rows that they come to."""

    base: pa.Table
    batches: list[pa.Table]
    rows: pa.Table

    @property
    def partition(self) -> str:
        """The partition that is read alone."""
        return PARTITIONS[3]

    @property
    def key(self) -> str:
        """The record key that is looked up: that of a row which no upsert changed."""
        first = self.rows.filter(pc.less(self.rows[ORDERING], BASE_TS + 10**9))
        return str(first[RECORD_KEY][first.num_rows // 2])

    def answer(self, case: Case) -> Answer:
        """Return what a read must give."""
        rows = self.rows
        if case.read == "part":
            rows = rows.filter(pc.equal(rows[PARTITION], self.partition))
        elif case.read == "key":
            rows = rows.filter(pc.equal(rows[RECORD_KEY], self.key))
        return Answer(rows.num_rows, ts_sum(rows))


def make_inputs(count: int, batch_rows: int) -> Inputs:
    """Make the rows; each upsert changes drawn rows of the base."""
    rng = np.random.default_rng(SEED)
    base = rows = make_rows(rng, count, make_keys(rng, count), BASE_TS)
    batches = []
    for number in range(1, UPSERTS + 1):
        chosen = rng.choice(count, batch_rows, replace=False)
        replaced = base.take(pa.array(chosen))
        changed = make_rows(rng, batch_rows, replaced[RECORD_KEY], BASE_TS + number * 10**9)
        changed = changed.set_column(changed.schema.get_field_index(PARTITION), PARTITION, replaced[PARTITION])
        batches.append(changed)
        places = np.arange(count)
        places[chosen] = count + np.arange(batch_rows)
        rows = pa.concat_tables([rows, changed]).take(pa.array(places))
    return Inputs(base, batches, rows)


def make_tables(folder: Path, inputs: Inputs) -> None:
    """Write every table below a folder."""
    for table_type in ("cow", "mor"):
        for layout in LAYOUTS:
            say(f"making {table_type}-{layout}")
            _make_ours(folder / f"{table_type}-{layout}", inputs, table_type, layout)
    say("making the tables of the others")
    delta.append(str(folder / "cow-delta"), inputs.base, partitioned=True)
    for batch in inputs.batches:
        merge = delta.merge_by_key(str(folder / "cow-delta"), batch, partitioned=True)
        merge.when_matched_update_all().execute()
    for day in PARTITIONS:
        rows = inputs.rows.filter(pc.equal(inputs.rows[PARTITION], day)).drop_columns([PARTITION])
        below = folder / "cow-files" / f"{PARTITION}={day}"
        below.mkdir(parents=True)
        for group in range(GROUPS):
            first, last = (rows.num_rows * at // GROUPS for at in (group, group + 1))
            pq.write_table(rows.slice(first, last - first), below / f"{group}.parquet", compression="zstd")


def _make_ours(path: Path, inputs: Inputs, table_type: str, layout: str) -> None:
    rows_of_group = inputs.base.num_rows // (len(PARTITIONS) * GROUPS)
    by_index = {
        "index": "record_index",
        "file_sizes": FileSizes(small_bytes=0, target_bytes=rows_of_group * 80),
    }
    made = Table.create(
        str(path),
        name="trips",
        record_key=[RECORD_KEY],
        schema=inputs.base.schema,
        partition_by=[PARTITION],
        ordering=ORDERING,
        table_type=table_type,
        metadata=layout != PLAIN,
        **(by_index if layout == RECORD_INDEX else {"buckets": GROUPS}),
    )
    # Not in bulk: where a key lies is asked of the record index only while every write looked for its keys.
    made.ingest(inputs.base, "insert", engine="local")
    for batch in inputs.batches:
        made.ingest(batch, "upsert", engine="local")
    made.close()
