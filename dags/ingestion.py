"""Airflow DAG `ingestion`: takes the new files of a folder into a table, each exactly once."""

from __future__ import annotations

from hudi_ops_dags import ServiceDag

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

service = ServiceDag(
    "ingestion",
    IngestRequest,
    "ingest.py",
    description="Take the new files of a folder into a Hudi table",
    doc=DOC,
)
dag = service.dag
service.task("ingest", hours=6)
