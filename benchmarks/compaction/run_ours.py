"""Process of hudi_ops: `--engine local` in one process, `--engine spark` on a session as Apache Hudi gets it."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.compaction.data import IS_DELETED
from benchmarks.compaction.job import Job
from benchmarks.harness.rows import ORDERING, PARTITION, RECORD_KEY
from benchmarks.harness.serve import arguments, serve
from benchmarks.harness.session import start_session
from hudi_ops import Table


class Ours:
    """Each command opens the table anew, as a scheduled job would."""

    def __init__(self, schema: pa.Schema, session: Any | None = None) -> None:
        self._schema = schema
        self._session = session
        self._engine = None
        if session is not None:
            from hudi_ops.engine.spark import SparkEngine

            self._engine = SparkEngine(session)

    def versions(self) -> dict[str, str]:
        """hudi_ops, pyarrow and, where it takes part, Spark."""
        spark = {"spark": self._session.version} if self._session is not None else {}
        return {"hudi_ops": version("hudi-ops"), "pyarrow": pa.__version__, **spark}

    def prepare(self, job: Job) -> None:
        """The table, its base rows, and a commit a batch; always by the local engine: equal input gives equal files on both."""
        made = Table.create(
            job.table,
            name="trips",
            record_key=[RECORD_KEY],
            schema=self._schema,
            partition_by=[PARTITION] if job.partitioned else [],
            ordering=ORDERING,
            table_type="mor",
            buckets=job.buckets,
            metadata=False,
        )
        made.ingest_folder(job.base, "bulk_insert", engine="local")
        for batch in job.batches:
            made.ingest_folder(batch, "upsert", engine="local")
        made.close()

    def adopt(self, job: Job) -> None:
        """Begin the commit log of a table that Apache Hudi made, as its first write of ours would."""
        Table.open(job.table, buckets=job.buckets, hash_fields=[RECORD_KEY]).adopt()

    def plan(self, job: Job) -> None:
        """Publish a plan of all slices."""
        opened = Table.open(job.table, engine=self._engine)
        result = opened.compaction.plan(strategy="count", threshold=1)
        opened.close()
        assert result.instant is not None, result

    def execute(self, job: Job) -> None:
        """Execute it."""
        opened = Table.open(job.table, engine=self._engine)
        result = opened.compaction.execute(
            engine="local" if self._engine is None else "spark", memory_bytes=job.memory_bytes
        )
        opened.close()
        assert result.instant is not None, result

    def close(self) -> None:
        """Stop Spark, where it runs."""
        if self._session is not None:
            self._session.stop()


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--engine", choices=("local", "spark"), required=True)
    options = parser.parse_args()
    schema = pq.read_schema(min(Path(options.schema_of).glob("*.parquet"))).remove_metadata()
    assert IS_DELETED in schema.names

    def start() -> Ours:
        if options.engine == "local":
            return Ours(schema)
        return Ours(schema, start_session("ours", options.jar, options.work, options.driver_memory))

    serve(start, Job)


if __name__ == "__main__":
    main()
