"""Process of hudi_ops: the resize service on the local engine."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.serve import arguments, serve
from benchmarks.index.job import Job
from benchmarks.index.tables import create_ringed
from hudi_ops import Table


class Ours:
    """Each command opens the table anew, as a scheduled job would."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def versions(self) -> dict[str, str]:
        """hudi_ops and pyarrow."""
        return {"hudi_ops": version("hudi-ops"), "pyarrow": pa.__version__}

    def prepare(self, job: Job) -> None:
        """The rows as base files, the updates as log files."""
        create_ringed(job.table, self._schema, job.buckets).close()
        writer = Table.open(job.table)
        for folder in filter(None, (job.base, job.updates)):
            rows = pa.concat_tables([pq.read_table(file, schema=self._schema) for file in job.sources(folder)])
            writer.ingest(rows, engine="local")
        writer.close()

    def resize(self, job: Job) -> int:
        """Split every bucket: plan, execute and commit."""
        opened = Table.open(job.table)
        done = opened.resize.run(split_bytes=job.split_bytes, merge_bytes=0, split_point="middle", engine="local")
        opened.close()
        return done.splits

    def close(self) -> None:
        """Nothing was started."""


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    schema = pq.read_schema(min(Path(options.schema_of).glob("*.parquet"))).remove_metadata()
    serve(lambda: Ours(schema), Job)


if __name__ == "__main__":
    main()
