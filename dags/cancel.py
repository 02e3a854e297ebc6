"""Airflow DAGs `cancel` and `cancel__<table>`: end a pending plan of a table for good."""

from __future__ import annotations

from hudi_ops.plugins.hudi_ops_dags import Service, ServiceDag, dags_of

from hudi_ops.config.requests import CancelRequest

DOC = """
### Cancel a plan of a Hudi table

Ends a pending plan of a table service for good, whether or not a process executes it: it never completes, and its files are
removed. Rows do not change. `hudi-ops plans TABLE` lists the plans with their instants. Without an instant, every plan that is
overdue is cancelled, as a clean does first.

A living executor stops by itself; a run that does not see it end in time is tried again. A wrong instant, a plan that completed and
one that is not cancellable fail at once. A run for a plan that was cancelled before succeeds. The task needs no Spark.
"""

SERVICE = Service(
    "cancel",
    CancelRequest,
    "cancel.py",
    description="End a pending plan of a Hudi table for good",
    doc=DOC,
    completes=False,
    spark=False,
)


def add_tasks(service: ServiceDag) -> None:
    """Add the one task."""
    # An executor that died with its machine is taken for alive for two minutes: the tries must last longer.
    service.task("cancel", hours=2, retries=2 * service.retries)


globals().update(dags_of(SERVICE, add_tasks))
