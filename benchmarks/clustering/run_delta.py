"""Process of delta-rs: `optimize.z_order`, with its writer tuned."""

from __future__ import annotations

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.clustering.job import Job
from benchmarks.harness import delta
from benchmarks.harness.serve import arguments, serve


class DeltaRs(delta.DeltaBase):
    """A commit a source file, so that each partition has as many files."""

    def prepare(self, job: Job) -> None:
        """The rows."""
        rows = pa.concat_tables([pq.read_table(file) for file in job.sources()])
        step = -(-rows.num_rows // job.files)
        for first in range(0, rows.num_rows, step):
            delta.append(job.table, rows.slice(first, step), partitioned=job.partitioned)

    def cluster(self, job: Job) -> None:
        """Sort along the z-order curve, within each partition."""
        deltalake.DeltaTable(job.table).optimize.z_order(job.columns, writer_properties=delta.TUNED)


if __name__ == "__main__":
    arguments(__doc__ or "").parse_args()
    serve(DeltaRs, Job)
