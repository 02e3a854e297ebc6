"""Process of hudi_ops: `--engine local` in one process, `--engine spark` on a session as Apache Hudi gets it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.ours import OursBase, serve_ours
from benchmarks.harness.storage_calls import CountingStorage
from benchmarks.ingest.job import Job
from hudi_ops import Table
from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.context import TableContext
from hudi_ops.storage.open import open_storage


class Ours(OursBase):
    """Each write opens the table anew, as a scheduled job would."""

    def prepare(self, job: Job) -> None:
        """The table and its base rows; always by the local engine: equal input gives equal files on both."""
        made = self.create_trips(
            job.table,
            partitioned=job.partitioned,
            table_type=job.table_type,
            buckets=job.buckets,
            **job.options,
        )
        if job.source is not None:
            made.ingest_folder(job.source, "bulk_insert", engine="local")
        made.close()

    def write(self, job: Job) -> None:
        """One folder of source files; rows in memory where they are few."""
        _write(Table.open(job.table, engine=self._engine), job, self.engine_name)

    def count(self, job: Job) -> dict[str, int]:
        """Storage calls of one write."""
        storage = CountingStorage(open_storage(job.table))
        opened = Table(TableContext(storage=storage, locks=in_process_lock(storage.uri)))
        _write(opened, job, "local")
        return dict(sorted(storage.calls.items()))


def _write(opened: Table, job: Job, engine: Any) -> None:
    operation = job.operation
    if job.in_memory:
        result = opened.ingest(pa.concat_tables([pq.read_table(file) for file in job.files]), operation, engine=engine)
    else:
        assert job.source is not None
        result = opened.ingest_folder(job.source, operation, engine=engine)
    opened.close()
    assert result.instant is not None, result


if __name__ == "__main__":
    serve_ours(Ours, Job, __doc__, may_run_on_spark=True)
