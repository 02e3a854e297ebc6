"""Process of Apache Hudi's own Spark writer: copy-on-write, bucket or bloom index, no metadata table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from benchmarks.ingest.data import ORDERING, PARTITION, RECORD_KEY
from benchmarks.ingest.serve import Job, arguments, serve
from benchmarks.ingest.session import PARALLELISM, start_session

_KEY_GENERATORS = {True: "SimpleKeyGenerator", False: "NonpartitionedKeyGenerator"}


class ApacheHudi:
    """`DataFrame.write.format("hudi")` in one long-lived session."""

    def __init__(self, spark: Any, jar: str) -> None:
        self._spark = spark
        self._jar = jar

    def versions(self) -> dict[str, str]:
        """Bundle, Spark and Java."""
        bundle = re.sub(r"^hudi-|\.jar$", "", Path(self._jar).name)
        java = self._spark._jvm.System.getProperty("java.version")
        return {"apache_hudi": bundle, "spark": self._spark.version, "java": java}

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
        rows = self._spark.read.parquet(job.source)
        rows.write.format("hudi").options(**_options(job, operation)).mode(mode).save(job.table)


def _options(job: Job, operation: str) -> dict[str, str]:
    options = {
        "hoodie.table.name": "trips",
        "hoodie.datasource.write.recordkey.field": RECORD_KEY,
        "hoodie.datasource.write.partitionpath.field": PARTITION if job.partitioned else "",
        "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{_KEY_GENERATORS[job.partitioned]}",
        "hoodie.datasource.write.precombine.field": ORDERING,
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
        "hoodie.datasource.write.operation": operation,
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.index.type": job.options["index"],
        "hoodie.metadata.enable": "false",
        "hoodie.parquet.compression.codec": "zstd",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.upsert.shuffle.parallelism": str(PARALLELISM),
        "hoodie.insert.shuffle.parallelism": str(PARALLELISM),
        "hoodie.bulkinsert.shuffle.parallelism": str(PARALLELISM),
    }
    if job.options["index"] == "BUCKET":
        options |= {
            "hoodie.index.bucket.engine": "SIMPLE",
            "hoodie.bucket.index.num.buckets": str(job.buckets),
            "hoodie.bucket.index.hash.field": RECORD_KEY,
        }
    return options


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    if options.jar is None:
        raise SystemExit("--jar is needed: Apache Hudi's Spark bundle")

    def start() -> ApacheHudi:
        return ApacheHudi(start_session("apache-hudi", options.jar, options.work, options.driver_memory), options.jar)

    serve(start)


if __name__ == "__main__":
    main()
