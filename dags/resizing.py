"""Airflow DAGs `resizing` and `resizing__<table>`: split and merge the buckets of a table."""

from __future__ import annotations

from hudi_ops.plugins.hudi_ops_dags import Service, ServiceDag, dags_of

from hudi_ops.config.requests import ResizeRequest

DOC = """
### Resize the buckets of a Hudi table

Splits the large buckets of a table with hash rings, and merges the small ones. **plan** chooses the buckets and publishes the
plan, **execute** runs it; ingestion goes on all the while. When there is nothing to plan, **execute** is *skipped*, and the result
of **plan** says why. Run alone, **execute** takes the oldest pending plan.

A plan is executed once: a retry, or a run after a worker was restarted, finds it completed and succeeds, finds it alive elsewhere
and is tried again, or takes it over from a dead executor. A plan that an earlier run left is executed before a new one is made.
"""

SERVICE = Service(
    "resizing",
    ResizeRequest,
    "resize.py",
    description="Split and merge the buckets of a Hudi table",
    doc=DOC,
    offers=lambda table: table.bucket_engine != "simple",
    needs="declared with hash rings (bucket_engine: consistent or extendible), so there is nothing to resize",
)

globals().update(dags_of(SERVICE, ServiceDag.plan_and_execute))
