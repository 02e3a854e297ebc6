"""Airflow DAGs `indexing` and `indexing__<table>`: build indexes of a table."""

from __future__ import annotations

from hudi_ops.plugins.hudi_ops_dags import Service, ServiceDag, dags_of

from hudi_ops.config.requests import IndexRequest

DOC = """
### Build indexes of a Hudi table

Builds partitions of the metadata table while others write. **plan** publishes the plan, **execute** reads the table's files,
announces the indexes to writers, adds what completed meanwhile, and lists them for readers. When there is nothing to build,
**execute** is *skipped*, and the result of **plan** says why. Run alone, **execute** takes the oldest pending plan.

A retry, and *clear*, go on where the last try ended: after the announcement nothing is built again. Existing indexes stay as they
are; damaged ones, and those that are behind, are built anew with `rebuild`: until the build has ended, readers do without, and a
table whose index is the record index takes no rows. The DAG `cancel` ends a build and removes it.
"""

SERVICE = Service(
    "indexing",
    IndexRequest,
    "index.py",
    description="Build indexes of a Hudi table",
    doc=DOC,
    completes=False,
)

globals().update(dags_of(SERVICE, ServiceDag.plan_and_execute))
