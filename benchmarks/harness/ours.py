"""hudi_ops as a process of a comparison: base class, and the program that serves it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.rows import ORDERING, PARTITION, RECORD_KEY
from benchmarks.harness.serve import Engine, arguments, serve
from benchmarks.harness.session import start_session
from hudi_ops import Table


class OursBase:
    """hudi_ops: each command opens the table anew, as a scheduled job would."""

    def __init__(self, schema: pa.Schema, session: Any | None = None) -> None:
        self._schema = schema
        self._session = session
        self._engine = None
        if session is not None:
            from hudi_ops.engine.spark import SparkEngine

            self._engine = SparkEngine(session)

    @property
    def engine_name(self) -> str:
        """The engine, as calls name it."""
        return "local" if self._engine is None else "spark"

    def versions(self) -> dict[str, str]:
        """hudi_ops, pyarrow and, where it takes part, Spark."""
        spark = {"spark": self._session.version} if self._session is not None else {}
        return {"hudi_ops": version("hudi-ops"), "pyarrow": pa.__version__, **spark}

    def create_trips(self, path: str, *, partitioned: bool, **definition: Any) -> Table:
        """Make an empty table of trips."""
        return Table.create(
            path,
            name="trips",
            record_key=[RECORD_KEY],
            schema=self._schema,
            partition_by=[PARTITION] if partitioned else [],
            ordering=ORDERING,
            **{"metadata": False, **definition},
        )

    def close(self) -> None:
        """Stop Spark, where it runs."""
        if self._session is not None:
            self._session.stop()


def serve_ours(
    engine: Callable[..., Engine],
    job_of: Callable[..., Any],
    description: str | None,
    *,
    may_run_on_spark: bool = False,
) -> None:
    """Answer commands as hudi_ops.

    Args:
        engine: makes the engine from the schema of the source files, and a session of Spark or None.
        job_of: makes a command's job from its fields.
        description: shown by `--help`.
        may_run_on_spark: whether `--engine` says where the work runs; else it runs in this process.
    """
    parser = arguments(description or "")
    if may_run_on_spark:
        parser.add_argument("--engine", choices=("local", "spark"), required=True)
    options = parser.parse_args()
    schema = pq.read_schema(min(Path(options.schema_of).glob("*.parquet"))).remove_metadata()

    def start() -> Engine:
        if not may_run_on_spark or options.engine == "local":
            return engine(schema)
        return engine(schema, start_session("ours", options.jar, options.work, options.driver_memory))

    serve(start, job_of)
