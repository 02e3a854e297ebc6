"""Process of hudi_ops: the clustering service, `--engine local` in one process, `--engine spark` on a session."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.clustering.job import Job
from benchmarks.harness.rows import ORDERING, PARTITION, RECORD_KEY
from benchmarks.harness.serve import arguments, serve
from benchmarks.harness.session import start_session
from hudi_ops import Table
from hudi_ops.config.requests import ClusteringRequest
from hudi_ops.config.write_settings import FileSizes


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
        """Make the table, with `job.files` files in each partition, by the local engine."""
        made = Table.create(
            job.table,
            name="trips",
            record_key=[RECORD_KEY],
            schema=self._schema,
            partition_by=[PARTITION] if job.partitioned else [],
            ordering=ORDERING,
            table_type="cow",
            index="bloom",
            metadata=False,
        )
        made.close()
        writer = Table.open(job.table, file_sizes=FileSizes(small_bytes=0))
        rows = pa.concat_tables([pq.read_table(source, schema=self._schema) for source in job.sources()])
        step = -(-rows.num_rows // job.files)
        for first in range(0, rows.num_rows, step):
            writer.ingest(rows.slice(first, step), "bulk_insert", engine="local")
        writer.close()

    def cluster(self, job: Job) -> None:
        """Plan, execute and commit."""
        opened = Table.open(job.table, engine=self._engine)
        target_bytes = ClusteringRequest().target_bytes
        if job.outputs > 1:
            target_bytes = (
                opened.clustering.explain(sort_by=job.columns, order=job.curve).estimate.bytes_in // job.outputs + 1
            )
        done = opened.clustering.run(
            sort_by=job.columns,
            order=job.curve,
            target_bytes=target_bytes,
            engine="local" if self._engine is None else "spark",
            memory_bytes=job.memory_bytes,
        )
        opened.close()
        assert done.files == done.groups * job.outputs, done

    def close(self) -> None:
        """Stop Spark, where it runs."""
        if self._session is not None:
            self._session.stop()


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
