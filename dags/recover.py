"""Airflow DAGs `recover` and `recover__<table>`: clear away what dead writers left."""

from __future__ import annotations

from hudi_ops.plugins.hudi_ops_dags import Service, ServiceDag, dags_of

from hudi_ops.config.requests import RecoverRequest

DOC = """
### Recover a Hudi table

Finishes what was decided, and rolls back the writes of dead processes, as every write does first. Writers may go on: their
instants are left alone. Where nothing is to be done, the run succeeds and says so.
"""

SERVICE = Service(
    "recover", RecoverRequest, "recover.py", description="Clear away what dead writers of a Hudi table left", doc=DOC
)


def add_tasks(service: ServiceDag) -> None:
    """Add the one task."""
    service.task("recover", hours=2)


globals().update(dags_of(SERVICE, add_tasks))
