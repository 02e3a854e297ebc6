"""Service `archive`, which has a DAG of its own and is the last task of the DAG `clean`."""

from __future__ import annotations

from hudi_ops.plugins.hudi_ops_dags import Service

from hudi_ops.config.requests import ArchiveRequest

DOC = """
### Archive a Hudi table

Moves old instants from the timeline into the history, so that each write reads a short timeline. Ingestion goes on all the while.
What is pending, held, saved or not cleaned yet stays; the result says why. The DAG `clean` does this as its last task.
"""

SERVICE = Service(
    "archive",
    ArchiveRequest,
    "archive.py",
    description="Move old instants of a Hudi table into the history",
    doc=DOC,
    completes=False,
)
