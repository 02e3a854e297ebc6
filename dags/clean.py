"""Airflow DAGs `clean` and `clean__<table>`: clean a table."""

from __future__ import annotations

from hudi_ops.plugins.hudi_ops_archive import SERVICE as ARCHIVE
from hudi_ops.plugins.hudi_ops_dags import Service, ServiceDag, dags_of

from hudi_ops.config.requests import CleanRequest

DOC = """
### Clean a Hudi table

Deletes the files that no retained instant needs, so that the table stays small. **cancel** ends overdue plans of other services,
and removes cancelled ones, which hold back files; where there are none it says so. **plan** chooses the files and publishes the
plan, **execute** deletes them; ingestion goes on all the while. When there is nothing to delete, **execute** is *skipped*, and the
result of **plan** says why. Run alone, **execute** takes the oldest pending plan.

Then **archive** moves old instants from the timeline into the history, also when there was nothing to clean.

Savepoints, pending plans and holds keep their files. A retry goes on with the plan that is there, and a plan that an earlier run
left is executed before a new one is made.
"""

SERVICE = Service("clean", CleanRequest, "clean.py", description="Delete the old files of a Hudi table", doc=DOC)


def add_tasks(service: ServiceDag) -> None:
    """Add the tasks that cancel, plan, execute the plan, and archive."""
    cancel = service.task("cancel", "--mode=cancel", hours=1, table="")  # it completes nothing
    plan, execute = service.plan_and_execute()
    # A clean without files to delete is skipped; the timeline still has to be archived.
    dry_run = "--dry-run={{ 'true' if params.dry_run else '' }}"
    archive = service.task("archive", dry_run, hours=6, other=ARCHIVE, trigger_rule="none_failed")
    cancel >> plan
    execute >> archive


globals().update(dags_of(SERVICE, add_tasks))
