"""Process of hudi_ops: `--engine local` in one process, `--engine spark` on a session as Apache Hudi gets it."""

from __future__ import annotations

from benchmarks.compaction.job import Job
from benchmarks.harness.ours import OursBase, serve_ours
from benchmarks.harness.rows import RECORD_KEY
from hudi_ops import Table


class Ours(OursBase):
    """Each command opens the table anew, as a scheduled job would."""

    def prepare(self, job: Job) -> None:
        """The table, its base rows, and a commit a batch; always by the local engine: equal input gives equal files on both."""
        made = self.create_trips(
            job.table,
            partitioned=job.partitioned,
            table_type="mor",
            buckets=job.buckets,
        )
        made.ingest_folder(job.base, "bulk_insert", engine="local")
        for batch in job.batches:
            made.ingest_folder(batch, "upsert", engine="local")
        made.close()

    def adopt(self, job: Job) -> None:
        """Begin the commit log of a table that Apache Hudi made, as its first write of ours would."""
        Table.open(job.table, buckets=job.buckets, hash_fields=[RECORD_KEY]).adopt()

    def plan(self, job: Job) -> None:
        """Publish a plan of all slices."""
        opened = Table.open(job.table, engine=self._engine)
        result = opened.compaction.plan(strategy="count", threshold=1)
        opened.close()
        assert result.instant is not None, result

    def execute(self, job: Job) -> None:
        """Execute it."""
        opened = Table.open(job.table, engine=self._engine)
        result = opened.compaction.execute(engine=self.engine_name, memory_bytes=job.memory_bytes)
        opened.close()
        assert result.instant is not None, result


if __name__ == "__main__":
    serve_ours(Ours, Job, __doc__, may_run_on_spark=True)
