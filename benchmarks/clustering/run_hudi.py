"""Process of Apache Hudi: bulk insert, then its SQL procedure `run_clustering`; no metadata table."""

from __future__ import annotations

from benchmarks.clustering.job import Job
from benchmarks.harness.hudi import ApacheHudiBase, serve_hudi
from benchmarks.harness.hudi_options import write_options

_PROCEDURE_OPTIONS = {
    "hoodie.metadata.enable": "false",
    "hoodie.parquet.compression.codec": "zstd",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
"""What a procedure must be told anew: it does not know the options of the writes."""


class ApacheHudi(ApacheHudiBase):
    """One long-lived session."""

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


if __name__ == "__main__":
    serve_hudi(ApacheHudi, Job, __doc__)
