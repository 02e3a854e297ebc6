"""Process of delta-rs: it has no logs, so that the like work is one MERGE of all three batches, folded by pyarrow first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.compaction.data import IS_DELETED
from benchmarks.compaction.job import Job
from benchmarks.harness import delta
from benchmarks.harness.rows import ORDERING, RECORD_KEY
from benchmarks.harness.serve import arguments, serve


class DeltaRs(delta.DeltaBase):
    """A MERGE takes each key once; it rewrites the files that hold one of them, which are all."""

    def prepare(self, job: Job) -> None:
        """The base rows alone; the batches stay as their source files."""
        delta.append(job.table, _rows(job, [job.base]), partitioned=job.partitioned)

    def plan(self, job: Job) -> None:
        """There is none."""

    def execute(self, job: Job) -> None:
        """Read the batches, leave the newest row of each key, merge by event time."""
        rows = _newest(_rows(job, job.batches))
        is_newer = f"s.{ORDERING} >= t.{ORDERING}"
        (
            delta
            .merge_by_key(job.table, rows, partitioned=job.partitioned)
            .when_matched_delete(f"s.{IS_DELETED} and {is_newer}")
            .when_matched_update_all(is_newer)
            .when_not_matched_insert_all(f"not s.{IS_DELETED}")
            .execute()
        )


def _rows(job: Job, folders: list[str]) -> pa.Table:
    return pa.concat_tables([pq.read_table(file) for folder in folders for file in job.files(folder)])


def _newest(rows: pa.Table) -> pa.Table:
    codes = rows[RECORD_KEY].combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.lexsort((np.arange(len(codes)), rows[ORDERING].to_numpy(), codes))
    return rows.take(pa.array(order[np.flatnonzero(np.append(np.diff(codes[order]), 1))]))


if __name__ == "__main__":
    arguments(__doc__ or "").parse_args()
    serve(DeltaRs, Job)
