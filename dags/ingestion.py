"""Airflow DAGs `ingestion` and `ingestion__<table>`: take new files, each once."""

from __future__ import annotations

from hudi_ops.plugins.hudi_ops_dags import Service, ServiceDag, dags_of

from hudi_ops.config.requests import IngestRequest

DOC = """
### Ingest files into a Hudi table

Takes every file of the source folder (CSV, JSON lines or Parquet) that the table has not taken yet, as **one** commit.
A run that finds nothing new makes no commit and succeeds. Running it twice, or again after a failure, never takes a
file twice.

The task's result (XCom `return_value`) says what was done: instant, rows inserted, updated and deleted, engine and why.
A wrong setting, an unsupported or a damaged table fails at once; a conflict, a busy lock or an unreachable service is
tried again; a cancelled run is *skipped*.
"""

SERVICE = Service(
    "ingestion", IngestRequest, "ingest.py", description="Take the new files of a folder into a Hudi table", doc=DOC
)


def add_tasks(service: ServiceDag) -> None:
    """Add the one task."""
    service.task("ingest", hours=6)


globals().update(dags_of(SERVICE, add_tasks))
