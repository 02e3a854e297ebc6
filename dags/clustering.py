"""Airflow DAGs `clustering` and `clustering__<table>`: merge and sort the files of a table."""

from __future__ import annotations

from hudi_ops.plugins.hudi_ops_dags import Service, ServiceDag, dags_of

from hudi_ops.config.requests import ClusteringRequest

DOC = """
### Cluster a Hudi table

Merges small files into larger ones, and sorts the rows by the columns that queries filter on, so that reads open fewer files.
**plan** chooses the file groups and publishes the plan, **execute** runs it; ingestion goes on all the while. When there is
nothing to plan, **execute** is *skipped*, and the result of **plan** says why. Run alone, **execute** takes the oldest pending
plan.

A plan is executed once: a retry, or a run after a worker was restarted, finds it completed and succeeds, finds it alive elsewhere
and is tried again, or takes it over from a dead executor. A plan that an earlier run left is executed before a new one is made.
"""

SERVICE = Service(
    "clustering",
    ClusteringRequest,
    "cluster.py",
    description="Merge the small files of a Hudi table and sort its rows",
    doc=DOC,
)

globals().update(dags_of(SERVICE, ServiceDag.plan_and_execute))
