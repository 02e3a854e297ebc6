"""Process of hudi_ops: the resize service on the local engine."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.ours import OursBase, serve_ours
from benchmarks.index.job import Job
from benchmarks.index.tables import create_ringed
from hudi_ops import Table


class Ours(OursBase):
    """Each command opens the table anew, as a scheduled job would."""

    def prepare(self, job: Job) -> None:
        """The rows as base files, the updates as log files."""
        create_ringed(job.table, self._schema, job.buckets).close()
        writer = Table.open(job.table)
        for folder in filter(None, (job.base, job.updates)):
            rows = pa.concat_tables([pq.read_table(file, schema=self._schema) for file in job.sources(folder)])
            writer.ingest(rows, engine="local")
        writer.close()

    def resize(self, job: Job) -> int:
        """Split every bucket: plan, execute and commit."""
        opened = Table.open(job.table)
        done = opened.resize.run(split_bytes=job.split_bytes, merge_bytes=0, split_point="middle", engine="local")
        opened.close()
        return done.splits


if __name__ == "__main__":
    serve_ours(Ours, Job, __doc__)
