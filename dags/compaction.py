"""Airflow DAGs `compaction` and `compaction__<table>`: compact a table."""

from __future__ import annotations

from hudi_ops.plugins.hudi_ops_dags import Service, ServiceDag, dags_of

from hudi_ops.config.requests import CompactionRequest

DOC = """
### Compact a merge-on-read table

Merges log files into new base files, so that reads stay fast. **plan** chooses the file groups and publishes the plan,
**execute** runs it; ingestion goes on all the while. When there is nothing to plan, **execute** is *skipped*, and the result of
**plan** says why. Run alone, **execute** takes the oldest pending plan.

A plan is executed once: a retry, or a run after a worker was restarted, finds it completed and succeeds, finds it alive elsewhere
and is tried again, or takes it over from a dead executor. A plan that an earlier run left is executed before a new one is made.
"""

SERVICE = Service(
    "compaction",
    CompactionRequest,
    "compact.py",
    description="Merge the log files of a Hudi table into new base files",
    doc=DOC,
    offers=lambda table: table.type == "mor",
    needs="declared as merge-on-read (type: mor), so there is nothing to compact",
)

globals().update(dags_of(SERVICE, ServiceDag.plan_and_execute))
