"""Process of delta-rs with its writer tuned."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import delta
from benchmarks.harness.serve import arguments, serve
from benchmarks.ingest.job import Job


class DeltaRs(delta.DeltaBase):
    """MERGE by key; a bulk insert appends to a table that is made by it."""

    def prepare(self, job: Job) -> None:
        """The base rows into a new table."""
        if job.source is not None:
            delta.append(job.table, _rows(job), partitioned=job.partitioned)

    def write(self, job: Job) -> None:
        """One folder of source files: an insert adds rows of new keys only, as ours does."""
        if job.operation == "bulk_insert":
            delta.append(job.table, _rows(job), partitioned=job.partitioned)
            return
        merge = delta.merge_by_key(job.table, _rows(job), partitioned=job.partitioned)
        if job.operation == "upsert":
            merge = merge.when_matched_update_all()
        merge.when_not_matched_insert_all().execute()


def _rows(job: Job) -> pa.Table:
    return pa.concat_tables([pq.read_table(file) for file in job.files])


if __name__ == "__main__":
    arguments(__doc__ or "").parse_args()
    serve(DeltaRs, Job)
