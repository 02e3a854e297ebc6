"""Process of Apache Hudi: its Spark writer with a metadata table, and its metadata writer alone, which builds partitions."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.harness.hudi import serve_hudi
from benchmarks.harness.hudi_options import write_options
from benchmarks.ingest.run_hudi import ApacheHudi
from benchmarks.metadata.job import Job

_INDEXER = {
    # Without it the client would build the partitions by itself before it plans.
    "hoodie.metadata.index.async": "true",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}
"""What it takes to build beside writers."""


class ApacheHudiWithMetadata(ApacheHudi):
    """In one long-lived session."""

    def prepare(self, job: Job) -> None:  # type: ignore[override]
        """The base rows into a new table."""
        super().prepare(_with_metadata(job))

    def write(self, job: Job) -> None:  # type: ignore[override]
        """So many commits."""
        for _ in range(job.times):
            super().write(_with_metadata(job))

    def build(self, job: Job) -> None:
        """Partitions: what a write does first where its options ask for some that are not there, and nothing else of it."""
        jvm, context = self._spark._jvm, self._spark.sparkContext._jsc
        options = _options_with(job, [*job.metadata, *job.build])
        storage = jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(context.hadoopConfiguration())
        schema = self._schema(job)
        properties = jvm.java.util.Properties()
        for name, value in options.items():
            properties.setProperty(name, value)
        config = jvm.org.apache.hudi.config.HoodieWriteConfig.newBuilder()
        config = config.withPath(job.table).withSchema(schema).withProps(properties).build()
        engine = jvm.org.apache.hudi.client.common.HoodieSparkEngineContext(context)
        writer = jvm.org.apache.hudi.metadata.SparkHoodieBackedTableMetadataWriter.create(storage, config, engine)
        writer.close()

    def index(self, job: Job) -> None:
        """Partitions, planned and executed as `HoodieIndexer` does in its mode `scheduleAndExecute`.

        A plan for each: of a plan of several, Apache Hudi 1.1.1 lists all, and leaves all but the last without records.
        """
        jvm = self._spark._jvm
        given = jvm.java.util.HashMap()
        for name, value in {**_options_with(job, [*job.metadata, *job.build]), **_INDEXER}.items():
            given.put(name, value)
        client = jvm.org.apache.hudi.DataSourceUtils.createHoodieClient(
            self._spark.sparkContext._jsc, self._schema(job), job.table, given["hoodie.table.name"], given
        )
        for name in job.build:
            kinds = jvm.java.util.ArrayList()
            kinds.add(getattr(jvm.org.apache.hudi.metadata.MetadataPartitionType, name.upper()))
            planned = client.scheduleIndexing(kinds, jvm.java.util.ArrayList())
            assert planned.isPresent(), f"Apache Hudi planned no build of {name}"
            assert client.index(planned.get()).isPresent(), f"Apache Hudi did not build {name}"
        client.close()

    def _schema(self, job: Job) -> str:
        jvm = self._spark._jvm
        storage = jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(
            self._spark.sparkContext._jsc.hadoopConfiguration()
        )
        client = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
        client = client.setConf(storage).setBasePath(job.table).build()
        return str(jvm.org.apache.hudi.common.table.TableSchemaResolver(client).getTableAvroSchema(False).toString())


def _options_with(job: Job, metadata: list[str]) -> dict[str, str]:
    return write_options("upsert", job.table_type, partitioned=job.partitioned, buckets=job.buckets, metadata=metadata)


def _with_metadata(job: Job) -> Job:
    return replace(job, options={**job.options, "metadata": job.metadata})


if __name__ == "__main__":
    serve_hudi(ApacheHudiWithMetadata, Job, __doc__)
