"""Process of hudi_ops: the clustering service, `--engine local` in one process, `--engine spark` on a session."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.clustering.job import Job
from benchmarks.harness.ours import OursBase, serve_ours
from hudi_ops import Table
from hudi_ops.config.requests import ClusteringRequest
from hudi_ops.config.write_settings import FileSizes


class Ours(OursBase):
    """Each command opens the table anew, as a scheduled job would."""

    def prepare(self, job: Job) -> None:
        """Make the table, with `job.files` files in each partition, by the local engine."""
        made = self.create_trips(
            job.table,
            partitioned=job.partitioned,
            table_type="cow",
            index="bloom",
        )
        made.close()
        writer = Table.open(job.table, file_sizes=FileSizes(small_bytes=0))
        rows = pa.concat_tables([pq.read_table(source, schema=self._schema) for source in job.sources()])
        step = -(-rows.num_rows // job.files)
        for first in range(0, rows.num_rows, step):
            writer.ingest(rows.slice(first, step), "bulk_insert", engine="local")
        writer.close()

    def cluster(self, job: Job) -> None:
        """Plan, execute and commit."""
        opened = Table.open(job.table, engine=self._engine)
        target_bytes = ClusteringRequest().target_bytes
        if job.outputs > 1:
            target_bytes = (
                opened.clustering.explain(sort_by=job.columns, order=job.curve).estimate.bytes_in // job.outputs + 1
            )
        done = opened.clustering.run(
            sort_by=job.columns,
            order=job.curve,
            target_bytes=target_bytes,
            engine=self.engine_name,
            memory_bytes=job.memory_bytes,
        )
        opened.close()
        assert done.files == done.groups * job.outputs, done


if __name__ == "__main__":
    serve_ours(Ours, Job, __doc__, may_run_on_spark=True)
