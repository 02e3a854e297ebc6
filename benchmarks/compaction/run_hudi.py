"""Process of Apache Hudi: bulk insert, three upserts into Avro log files, compaction by its SQL procedure; no metadata table."""

from __future__ import annotations

from typing import Any

from benchmarks.compaction.job import Job
from benchmarks.harness.hudi import ApacheHudiBase, serve_hudi
from benchmarks.harness.hudi_options import write_options

_PROCEDURE_OPTIONS = {
    "hoodie.metadata.enable": "false",
    "hoodie.parquet.compression.codec": "zstd",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline.max.delta.commits": "1",
}
"""What a procedure must be told anew: it does not know the options of the writes."""


class ApacheHudi(ApacheHudiBase):
    """One long-lived session."""

    def prepare(self, job: Job) -> None:
        """The base rows, then a delta commit a batch: rows marked as deletes become delete blocks of the same log files."""
        self._write(job, job.base, "bulk_insert", "overwrite")
        for batch in job.batches:
            self._write(job, batch, "upsert", "append")

    def plan(self, job: Job) -> None:
        """Schedule it."""
        found = self._procedure(job, "schedule")
        assert len(found) == 1, found

    def execute(self, job: Job) -> None:
        """Run what was scheduled."""
        found = self._procedure(job, "run")
        assert len(found) == 1, found

    def _procedure(self, job: Job, step: str) -> list[Any]:
        told = ",".join(f"{key}={value}" for key, value in _PROCEDURE_OPTIONS.items())
        call = f"CALL run_compaction(op=>'{step}', path=>'{job.table}', options=>'{told}')"
        found: list[Any] = self._spark.sql(call).collect()
        return found

    def _write(self, job: Job, folder: str, operation: str, mode: str) -> None:
        options = write_options(operation, "mor", partitioned=job.partitioned, buckets=job.buckets)
        self._spark.read.parquet(folder).write.format("hudi").options(**options).mode(mode).save(job.table)


if __name__ == "__main__":
    serve_hudi(ApacheHudi, Job, __doc__)
