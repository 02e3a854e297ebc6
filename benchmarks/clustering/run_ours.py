"""Process of hudi_ops: the tasks of a clustering, `--engine local` in one process, `--engine spark` on a session."""

from __future__ import annotations

from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.clustering.job import Job
from benchmarks.harness.rows import ORDERING, PARTITION, RECORD_KEY
from benchmarks.harness.serve import arguments, serve
from benchmarks.harness.session import start_session
from hudi_ops import Table
from hudi_ops.files.base.base_file import stored_schema
from hudi_ops.kernels.sorting.order import SortOrder
from hudi_ops.services.base.merging import merging_of
from hudi_ops.services.base.slices import live_slices
from hudi_ops.services.clustering.tasks import ClusterTask, cluster_group
from hudi_ops.view.schema import table_schema

_INSTANT = "20990101000000000"


class Ours:
    """Each command opens the table anew, as a scheduled job would. It plans nothing and commits nothing."""

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
        """The table and its rows; always by the local engine."""
        made = Table.create(
            job.table,
            name="trips",
            record_key=[RECORD_KEY],
            schema=self._schema,
            partition_by=[PARTITION] if job.partitioned else [],
            ordering=ORDERING,
            table_type="cow",
            buckets=job.files,
            metadata=False,
        )
        made.ingest_folder(job.base, "bulk_insert", engine="local")
        made.close()

    def cluster(self, job: Job) -> None:
        """Rewrite each partition."""
        opened = Table.open(job.table, engine=self._engine)
        session = opened._session
        state = session.loader.load()
        schema = table_schema(state.config, state.timeline, session.commits)
        merging = merging_of(state, schema)
        tasks = []
        for partition_path, sources in groupby(live_slices(session, state), lambda one: one.partition_path):
            name = partition_path or "all"
            tasks.append(
                ClusterTask(
                    storage=session.ctx.storage,
                    table_name=state.config.name,
                    partition_path=partition_path,
                    sources=tuple(sources),
                    merging=merging,
                    stored=stored_schema(schema, merging[0].keys is None),
                    order=SortOrder(job.curve, tuple(job.columns)),  # type: ignore[arg-type]
                    outputs=tuple(f"{name}-{number}-0" for number in range(job.outputs)),
                    instant=_INSTANT,
                    epoch=1,
                    number=0,
                    memory_bytes=job.memory_bytes,
                )
            )
        done = session.ctx.engine.map(cluster_group, tasks)
        opened.close()
        assert sum(len(group.stats) for group in done) == len(tasks) * job.outputs, done

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
