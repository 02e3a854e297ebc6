"""Airflow DAGs `verify` and `verify__<table>`: check that a table is whole."""

from __future__ import annotations

from hudi_ops.plugins.hudi_ops_dags import Service, ServiceDag, dags_of

from hudi_ops.config.requests import VerifyRequest

DOC = """
### Verify a Hudi table

Checks timeline, files, commit log and, with `index`, the metadata table of a table, and changes nothing. Writers may go on.
The task fails when the table is damaged; its result lists the findings, each with a next step. It is not tried again.
"""

SERVICE = Service(
    "verify",
    VerifyRequest,
    "verify.py",
    description="Check that a Hudi table is whole",
    doc=DOC,
    completes=False,
)


def add_tasks(service: ServiceDag) -> None:
    """Add the one task."""
    service.task("verify", hours=6)


globals().update(dags_of(SERVICE, add_tasks))
