"""Process of hudi_ops: `--engine local` in one process, `--engine spark` on a session as Apache Hudi gets it."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.rows import ORDERING, PARTITION, RECORD_KEY
from benchmarks.harness.serve import arguments, serve
from benchmarks.harness.session import start_session
from benchmarks.harness.storage_calls import CountingStorage
from benchmarks.ingest.job import Job
from hudi_ops import Table
from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.context import TableContext
from hudi_ops.storage.open import open_storage


class Ours:
    """Each write opens the table anew, as a scheduled job would."""

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
        """The table and its base rows; always by the local engine: equal input gives equal files on both."""
        made = Table.create(
            job.table,
            name="trips",
            record_key=[RECORD_KEY],
            schema=self._schema,
            partition_by=[PARTITION] if job.partitioned else [],
            ordering=ORDERING,
            table_type=job.table_type,
            buckets=job.buckets,
            **{"metadata": False, **job.options},
        )
        if job.source is not None:
            made.ingest_folder(job.source, "bulk_insert", engine="local")
        made.close()

    def write(self, job: Job) -> None:
        """One folder of source files; rows in memory where they are few."""
        _write(Table.open(job.table, engine=self._engine), job, "local" if self._engine is None else "spark")

    def count(self, job: Job) -> dict[str, int]:
        """Storage calls of one write."""
        storage = CountingStorage(open_storage(job.table))
        opened = Table(TableContext(storage=storage, locks=in_process_lock(storage.uri)))
        _write(opened, job, "local")
        return dict(sorted(storage.calls.items()))

    def close(self) -> None:
        """Stop Spark, where it runs."""
        if self._session is not None:
            self._session.stop()


def _write(opened: Table, job: Job, engine: Any) -> None:
    operation = job.operation
    if job.in_memory:
        result = opened.ingest(pa.concat_tables([pq.read_table(file) for file in job.files]), operation, engine=engine)
    else:
        assert job.source is not None
        result = opened.ingest_folder(job.source, operation, engine=engine)
    opened.close()
    assert result.instant is not None, result


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--engine", choices=("local", "spark"), required=True)
    options = parser.parse_args()
    schema = pq.read_schema(min(Path(options.schema_of).glob("*.parquet"))).remove_metadata()

    def start() -> Ours:
        if options.engine == "local":
            return Ours(schema)
        return Ours(schema, start_session("ours", options.jar, options.work, options.driver_memory))

    serve(start, Job)


if __name__ == "__main__":
    main()
