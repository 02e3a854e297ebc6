"""Process of Apache Hudi's own Spark writer: bucket or bloom index, no metadata table."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness.hudi import ApacheHudiBase, serve_hudi
from benchmarks.harness.hudi_options import write_options
from benchmarks.ingest.job import Job


class ApacheHudi(ApacheHudiBase):
    """`DataFrame.write.format("hudi")` in one long-lived session."""

    off = ()

    def prepare(self, job: Job) -> None:
        """The base rows into a new table; a table without rows is made by its first write."""
        if job.source is not None:
            self._write(job, "bulk_insert", "overwrite")

    def write(self, job: Job) -> None:
        """One folder of source files."""
        self._write(job, job.operation, "append" if Path(job.table, ".hoodie").exists() else "overwrite")

    def _write(self, job: Job, operation: str, mode: str) -> None:
        options = write_options(
            operation, job.table_type, partitioned=job.partitioned, buckets=job.buckets, **job.options
        )
        rows = self._spark.read.parquet(job.source)
        rows.write.format("hudi").options(**options).mode(mode).save(job.table)


if __name__ == "__main__":
    serve_hudi(ApacheHudi, Job, __doc__)
