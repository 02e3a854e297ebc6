"""Airflow DAG `metadata`: builds partitions of a metadata table while others write."""

from __future__ import annotations

from hudi_ops_dags import ServiceDag

from hudi_ops.config.requests import IndexRequest

DOC = """
### Build the metadata table of a table

Reads the table's files and builds partitions of its metadata table; others may write all the while. Partitions that are there are
left as they are, so running it again is harmless, and goes on after a failure. Damaged ones, and those that are behind, are built
anew with `rebuild`: until the build has ended, readers do without, and a table whose index is the record index takes no rows.
"""

service = ServiceDag(
    "metadata",
    IndexRequest,
    "metadata.py",
    description="Build partitions of the metadata table of a Hudi table",
    doc=DOC,
    scheduled=False,
)
dag = service.dag
# A builder that died with its machine is taken for alive for two minutes: the tries must last longer.
service.task("build", hours=12, retries=2 * service.retries)
