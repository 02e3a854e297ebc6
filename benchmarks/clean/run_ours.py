"""Process of hudi_ops: each command opens the table anew, as a scheduled job would."""

from __future__ import annotations

from typing import Any

from benchmarks.clean.job import Job
from benchmarks.harness.ours import OursBase, serve_ours
from hudi_ops import Table


class Ours(OursBase):
    """One process."""

    def clean(self, job: Job) -> dict[str, Any]:
        """Plan and execute a clean."""
        with_table = Table.open(job.table)
        done = with_table.clean.run(retain=job.retain)
        with_table.close()
        return {"instant": done.instant}

    def archive(self, job: Job) -> dict[str, Any]:
        """Archive down to `keep_min` writes."""
        with_table = Table.open(job.table)
        done = with_table.archive.run(keep_min=job.keep_min, keep_max=job.keep_max)
        with_table.close()
        return {"lock_s": done.lock_s}

    def restore(self, job: Job) -> dict[str, Any]:
        """Undo what was written above the savepoint."""
        with_table = Table.open(job.table)
        with_table.savepoints.restore(job.savepoint)
        with_table.close()
        return {}


if __name__ == "__main__":
    serve_ours(Ours, Job, __doc__)
