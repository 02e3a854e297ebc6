"""Process of Apache Hudi: bulk insert, then its SQL procedure `run_clustering`; no metadata table."""

from __future__ import annotations

from typing import Any

from benchmarks.clustering.job import Job
from benchmarks.harness.hudi_options import versions, write_options
from benchmarks.harness.serve import arguments, serve
from benchmarks.harness.session import start_session

_PROCEDURE_OPTIONS = {
    "hoodie.metadata.enable": "false",
    "hoodie.parquet.compression.codec": "zstd",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
"""What a procedure must be told anew: it does not know the options of the writes."""


class ApacheHudi:
    """One long-lived session."""

    def __init__(self, spark: Any, jar: str) -> None:
        self._spark = spark
        self._jar = jar
        for key in ("hoodie.metadata.enable", "hoodie.archive.automatic", "hoodie.clean.automatic"):
            spark.conf.set(key, "false")

    def versions(self) -> dict[str, str]:
        """Bundle, Spark and Java."""
        return versions(self._spark, self._jar)

    def prepare(self, job: Job) -> None:
        """The rows, in as many files of each partition."""
        options = write_options("bulk_insert", "cow", partitioned=job.partitioned, buckets=job.files, index="SIMPLE")
        options["hoodie.bulkinsert.sort.mode"] = "NONE"
        rows = self._spark.read.parquet(job.base).repartition(job.files)
        rows.write.format("hudi").options(**options).mode("overwrite").save(job.table)

    def cluster(self, job: Job) -> None:
        """Plan and execute."""
        told = ",".join(f"{key}={value}" for key, value in _PROCEDURE_OPTIONS.items())
        found = self._spark.sql(
            f"CALL run_clustering(path=>'{job.table}', order=>'{','.join(job.columns)}', op=>'scheduleAndExecute', "
            f"options=>'{told}')"
        ).collect()
        assert len(found) == 1, found

    def close(self) -> None:
        """Stop Spark."""
        self._spark.stop()


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    if options.jar is None:
        raise SystemExit("--jar is needed: Apache Hudi's Spark bundle")

    def start() -> ApacheHudi:
        return ApacheHudi(start_session("apache-hudi", options.jar, options.work, options.driver_memory), options.jar)

    serve(start, Job)


if __name__ == "__main__":
    main()
