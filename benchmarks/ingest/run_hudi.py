"""Process of Apache Hudi's own Spark writer: bucket or bloom index, no metadata table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.harness.hudi_options import versions, write_options
from benchmarks.harness.serve import arguments, serve
from benchmarks.harness.session import start_session
from benchmarks.ingest.job import Job


class ApacheHudi:
    """`DataFrame.write.format("hudi")` in one long-lived session."""

    def __init__(self, spark: Any, jar: str) -> None:
        self._spark = spark
        self._jar = jar

    def versions(self) -> dict[str, str]:
        """Bundle, Spark and Java."""
        return versions(self._spark, self._jar)

    def prepare(self, job: Job) -> None:
        """The base rows into a new table; a table without rows is made by its first write."""
        if job.source is not None:
            self._write(job, "bulk_insert", "overwrite")

    def write(self, job: Job) -> None:
        """One folder of source files."""
        self._write(job, job.operation, "append" if Path(job.table, ".hoodie").exists() else "overwrite")

    def close(self) -> None:
        """Stop Spark."""
        self._spark.stop()

    def _write(self, job: Job, operation: str, mode: str) -> None:
        options = write_options(
            operation, job.table_type, partitioned=job.partitioned, buckets=job.buckets, **job.options
        )
        rows = self._spark.read.parquet(job.source)
        rows.write.format("hudi").options(**options).mode(mode).save(job.table)


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    if options.jar is None:
        raise SystemExit("--jar is needed: Apache Hudi's Spark bundle")

    def start() -> ApacheHudi:
        return ApacheHudi(start_session("apache-hudi", options.jar, options.work, options.driver_memory), options.jar)

    serve(start, Job)


if __name__ == "__main__":
    main()
