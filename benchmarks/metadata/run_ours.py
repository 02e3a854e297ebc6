"""Process of hudi_ops, local engine: writes, and builds of partitions."""

from __future__ import annotations

import shutil
from dataclasses import replace

from benchmarks.harness.ours import serve_ours
from benchmarks.harness.rows import RECORD_KEY
from benchmarks.ingest.run_ours import Ours
from benchmarks.metadata.job import Job
from hudi_ops import Table


class OursWithMetadata(Ours):
    """Each write, and each build, opens the table anew, as a scheduled job would."""

    def prepare(self, job: Job) -> None:  # type: ignore[override]
        """The table with its base rows; or another program's, taken over."""
        if job.foreign:
            shutil.copytree(job.foreign, job.table)
            Table.open(job.table, buckets=job.buckets, hash_fields=[RECORD_KEY]).adopt()
            return
        # What is built later begins with `files` alone, which a new table's metadata table does not.
        super().prepare(replace(job, options={**job.options, "metadata": bool(job.metadata) and not job.build}))
        if job.build:
            _build(job, job.metadata)

    def write(self, job: Job) -> None:  # type: ignore[override]
        """So many commits."""
        for _ in range(job.times):
            super().write(job)

    def build(self, job: Job) -> None:
        """Partitions."""
        _build(job, job.build)

    def index(self, job: Job) -> None:
        """The same: every build is planned, and executed as a service."""
        self.build(job)


def _build(job: Job, partitions: list[str]) -> None:
    opened = Table.open(job.table)
    result = opened.indexing.run(partitions=partitions, engine="local")
    opened.close()
    assert set(result.partitions) == set(partitions), result


if __name__ == "__main__":
    serve_ours(OursWithMetadata, Job, __doc__)
