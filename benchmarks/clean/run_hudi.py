"""Process of Apache Hudi: its SQL procedures, in one long-lived session; no metadata table."""

from __future__ import annotations

from typing import Any

from benchmarks.clean.job import Job
from benchmarks.harness.hudi import ApacheHudiBase, serve_hudi


class ApacheHudi(ApacheHudiBase):
    """One session; the table is entered into its catalog before each command, outside the measured call."""

    def enter(self, job: Job) -> None:
        """Enter the table into the catalog: the procedures of clean and archive take names."""
        self._spark.sql("drop table if exists measured")
        self._spark.sql(f"create table measured using hudi location '{job.table}'")

    def clean(self, job: Job) -> dict[str, Any]:
        """Plan and execute a clean."""
        call = (
            "CALL run_clean(table => 'measured', clean_policy => 'KEEP_LATEST_COMMITS', "
            f"retain_commits => {job.retain}, options => 'hoodie.metadata.enable=false')"
        )
        return {"rows": len(self._spark.sql(call).collect())}

    def archive(self, job: Job) -> dict[str, Any]:
        """Archive down to `keep_min` writes."""
        call = (
            f"CALL archive_commits(table => 'measured', min_commits => {job.keep_min}, max_commits => {job.keep_max}, "
            f"retain_commits => {job.retain}, enable_metadata => false)"
        )
        return {"rows": [str(row) for row in self._spark.sql(call).collect()]}

    def restore(self, job: Job) -> dict[str, Any]:
        """Undo what was written above the savepoint."""
        call = f"CALL rollback_to_savepoint(table => 'measured', instant_time => '{job.savepoint}')"
        return {"rows": [str(row) for row in self._spark.sql(call).collect()]}


if __name__ == "__main__":
    serve_hudi(ApacheHudi, Job, __doc__)
