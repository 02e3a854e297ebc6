"""Runner of hudi_ops: `--engine local` in one process, `--engine spark` on a session as Apache Hudi gets it."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as pq

from benchmarks.ingest.data import ORDERING, PARTITION, RECORD_KEY
from benchmarks.ingest.serve import arguments, serve
from benchmarks.ingest.session import start_session
from hudi_ops import Table


class Ours:
    """Each upsert opens the table anew, as a scheduled job would."""

    def __init__(self, buckets: int, session: Any | None = None) -> None:
        self._buckets = buckets
        self._session = session
        self._engine = None
        if session is not None:
            from hudi_ops.engine.spark import SparkEngine

            self._engine = SparkEngine(session)

    def versions(self) -> dict[str, str]:
        """hudi_ops, pyarrow and, where it takes part, Spark."""
        spark = {"spark": self._session.version} if self._session is not None else {}
        return {"hudi_ops": version("hudi-ops"), "pyarrow": pyarrow.__version__, **spark}

    def prepare(self, table: str, source: str) -> None:
        """The table and its base rows; always by the local engine: equal input gives equal files on both."""
        schema = pq.read_schema(next(iter(sorted(Path(source).glob("*.parquet")))))
        made = Table.create(
            table,
            name="trips",
            record_key=[RECORD_KEY],
            schema=schema,
            partition_by=[PARTITION],
            ordering=ORDERING,
            buckets=self._buckets,
        )
        made.ingest_folder(source, engine="local")
        made.close()

    def upsert(self, table: str, source: str) -> None:
        """One folder of source files."""
        opened = Table.open(table, engine=self._engine)
        result = opened.ingest_folder(source, "upsert", engine="local" if self._engine is None else "spark")
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

    def start() -> Ours:
        if options.engine == "local":
            return Ours(options.buckets)
        return Ours(options.buckets, start_session("ours", options.jar, options.work, options.driver_memory))

    serve(start)


if __name__ == "__main__":
    main()
