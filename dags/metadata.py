"""Airflow DAGs `metadata` and `metadata__<table>`: build a metadata table."""

from __future__ import annotations

from hudi_ops.plugins.hudi_ops_dags import Service, ServiceDag, dags_of

from hudi_ops.config.requests import IndexRequest

DOC = """
### Build the metadata table of a table

Reads the table's files and builds partitions of its metadata table; others may write all the while. Partitions that are there are
left as they are, so running it again is harmless, and goes on after a failure. Damaged ones, and those that are behind, are built
anew with `rebuild`: until the build has ended, readers do without, and a table whose index is the record index takes no rows.
"""

SERVICE = Service(
    "metadata",
    IndexRequest,
    "metadata.py",
    description="Build partitions of the metadata table of a Hudi table",
    doc=DOC,
    completes=False,
)


def add_tasks(service: ServiceDag) -> None:
    """Add the one task."""
    # A builder that died with its machine is taken for alive for two minutes: the tries must last longer.
    service.task("build", hours=12, retries=2 * service.retries)


globals().update(dags_of(SERVICE, add_tasks))
