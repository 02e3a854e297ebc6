"""Airflow DAGs `archive` and `archive__<table>`: keep the timeline of a table short."""

from __future__ import annotations

from hudi_ops.plugins.hudi_ops_archive import SERVICE
from hudi_ops.plugins.hudi_ops_dags import ServiceDag, dags_of


def add_tasks(service: ServiceDag) -> None:
    """Add the one task."""
    service.task("archive", hours=6)


globals().update(dags_of(SERVICE, add_tasks))
