"""Process of Apache Hudi: consistent buckets, then its SQL procedure `run_clustering`; no metadata table."""

from __future__ import annotations

from benchmarks.harness.hudi import ApacheHudiBase, serve_hudi
from benchmarks.harness.hudi_options import write_options
from benchmarks.harness.rows import RECORD_KEY
from benchmarks.index.job import Job

_CLUSTERING = "org.apache.hudi.client.clustering"
_BUCKETS_MAX = 1_024


class ApacheHudi(ApacheHudiBase):
    """One long-lived session."""

    def prepare(self, job: Job) -> None:
        """The rows as base files, the updates as log files."""
        for folder, operation, mode in ((job.base, "bulk_insert", "overwrite"), (job.updates, "upsert", "append")):
            if folder:
                options = {
                    **write_options(operation, "mor", partitioned=False, buckets=job.buckets, log_format="parquet"),
                    **_ring(job),
                }
                self._spark.read.parquet(folder).write.format("hudi").options(**options).mode(mode).save(job.table)

    def resize(self, job: Job) -> int:
        """Split every bucket: plan and execute."""
        options = {
            **_ring(job),
            "hoodie.datasource.write.recordkey.field": RECORD_KEY,
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": str(job.buckets),
            "hoodie.bucket.index.hash.field": RECORD_KEY,
            "hoodie.metadata.enable": "false",
            "hoodie.parquet.compression.codec": "zstd",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.parquet.max.file.size": str(job.split_bytes),
            "hoodie.bucket.index.split.threshold": "1.0",
            "hoodie.bucket.index.merge.threshold": "0.0",
            "hoodie.clustering.plan.strategy.class": f"{_CLUSTERING}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy",
            "hoodie.clustering.execution.strategy.class": f"{_CLUSTERING}.run.strategy."
            "SparkConsistentBucketClusteringExecutionStrategy",
        }
        said = ",".join(f"{key}={value}" for key, value in options.items())
        found = self._spark.sql(
            f"CALL run_clustering(path=>'{job.table}', op=>'scheduleAndExecute', options=>'{said}')"
        ).collect()
        assert len(found) == 1, found
        return int(found[0]["input_group_size"])


def _ring(job: Job) -> dict[str, str]:
    return {
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
        "hoodie.bucket.index.min.num.buckets": "1",
        "hoodie.bucket.index.max.num.buckets": str(_BUCKETS_MAX),
        "hoodie.storage.layout.type": "BUCKET",
        "hoodie.storage.layout.partitioner.class": "org.apache.hudi.table.action.commit.SparkBucketIndexPartitioner",
    }


if __name__ == "__main__":
    serve_hudi(ApacheHudi, Job, __doc__)
