"""Process of Apache Hudi: its Spark writer with a metadata table, and its metadata writer alone, which builds partitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.harness.hudi_options import write_options
from benchmarks.harness.serve import arguments, serve
from benchmarks.harness.session import start_session
from benchmarks.ingest.run_hudi import ApacheHudi
from benchmarks.metadata.job import Job


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
        jvm = self._spark._jvm
        options = write_options(
            "upsert",
            job.table_type,
            partitioned=job.partitioned,
            buckets=job.buckets,
            metadata=[*job.metadata, *job.build],
        )
        context = self._spark.sparkContext._jsc
        storage = jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(context.hadoopConfiguration())
        client = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
        client = client.setConf(storage).setBasePath(job.table).build()
        schema = jvm.org.apache.hudi.common.table.TableSchemaResolver(client).getTableAvroSchema(False).toString()
        properties = jvm.java.util.Properties()
        for name, value in options.items():
            properties.setProperty(name, value)
        config = jvm.org.apache.hudi.config.HoodieWriteConfig.newBuilder()
        config = config.withPath(job.table).withSchema(schema).withProps(properties).build()
        engine = jvm.org.apache.hudi.client.common.HoodieSparkEngineContext(context)
        writer = jvm.org.apache.hudi.metadata.SparkHoodieBackedTableMetadataWriter.create(storage, config, engine)
        writer.close()


def _with_metadata(job: Job) -> Job:
    return replace(job, options={**job.options, "metadata": job.metadata})


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    if options.jar is None:
        raise SystemExit("--jar is needed: Apache Hudi's Spark bundle")

    def start() -> Any:
        session = start_session("apache-hudi", options.jar, options.work, options.driver_memory)
        return ApacheHudiWithMetadata(session, options.jar)

    serve(start, Job)


if __name__ == "__main__":
    main()
