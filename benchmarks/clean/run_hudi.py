"""Process of Apache Hudi: its SQL procedures, in one long-lived session; no metadata table."""

from __future__ import annotations

from typing import Any

from benchmarks.clean.job import Job
from benchmarks.harness.hudi_options import versions
from benchmarks.harness.serve import arguments, serve
from benchmarks.harness.session import start_session


class ApacheHudi:
    """One session; the table is entered into its catalog before each command, outside the measured call."""

    def __init__(self, spark: Any, jar: str) -> None:
        self._spark = spark
        self._jar = jar
        for key in ("hoodie.metadata.enable", "hoodie.archive.automatic", "hoodie.clean.automatic"):
            spark.conf.set(key, "false")

    def versions(self) -> dict[str, str]:
        """Bundle, Spark and Java."""
        return versions(self._spark, self._jar)

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

    def close(self) -> None:
        """Stop Spark."""
        self._spark.stop()


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    if options.jar is None:
        raise SystemExit("--jar is needed: Apache Hudi's Spark bundle")

    def start() -> ApacheHudi:
        return ApacheHudi(start_session("apache-hudi", options.jar, options.work, options.driver_memory), options.jar)

    serve(start, Job)


if __name__ == "__main__":
    main()
