"""Runner of Apache Hudi's own Spark writer: copy-on-write, simple bucket index, no metadata table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from benchmarks.ingest.data import ORDERING, PARTITION, RECORD_KEY
from benchmarks.ingest.serve import arguments, serve
from benchmarks.ingest.session import PARALLELISM, start_session


class ApacheHudi:
    """`DataFrame.write.format("hudi")` in one long-lived session."""

    def __init__(self, spark: Any, jar: str, buckets: int) -> None:
        self._spark = spark
        self._jar = jar
        self._options = {
            "hoodie.table.name": "trips",
            "hoodie.datasource.write.recordkey.field": RECORD_KEY,
            "hoodie.datasource.write.partitionpath.field": PARTITION,
            "hoodie.datasource.write.precombine.field": ORDERING,
            "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.table.timeline.timezone": "UTC",
            "hoodie.index.type": "BUCKET",
            "hoodie.index.bucket.engine": "SIMPLE",
            "hoodie.bucket.index.num.buckets": str(buckets),
            "hoodie.bucket.index.hash.field": RECORD_KEY,
            "hoodie.metadata.enable": "false",
            "hoodie.parquet.compression.codec": "zstd",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.upsert.shuffle.parallelism": str(PARALLELISM),
        }

    def versions(self) -> dict[str, str]:
        """Bundle, Spark and Java."""
        bundle = re.sub(r"^hudi-|\.jar$", "", Path(self._jar).name)
        java = self._spark._jvm.System.getProperty("java.version")
        return {"apache_hudi": bundle, "spark": self._spark.version, "java": java}

    def prepare(self, table: str, source: str) -> None:
        """The base rows into a new table."""
        self._write(table, source, "overwrite")

    def upsert(self, table: str, source: str) -> None:
        """One folder of source files."""
        self._write(table, source, "append")

    def close(self) -> None:
        """Stop Spark."""
        self._spark.stop()

    def _write(self, table: str, source: str, mode: str) -> None:
        rows = self._spark.read.parquet(source)
        rows.write.format("hudi").options(**self._options).mode(mode).save(table)


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    if options.jar is None:
        raise SystemExit("--jar is needed: Apache Hudi's Spark bundle")

    def start() -> ApacheHudi:
        session = start_session("apache-hudi", options.jar, options.work, options.driver_memory)
        return ApacheHudi(session, options.jar, options.buckets)

    serve(start)


if __name__ == "__main__":
    main()
