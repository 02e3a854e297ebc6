"""Spark application: build partitions of a table's metadata table.

spark-submit spark_apps/metadata.py --table flights [--partitions record_index,bloom_filters] [--rebuild]
"""

from __future__ import annotations

from _app import Job, serve

from hudi_ops.config.requests import IndexRequest


def work(job: Job) -> object:
    """Build what is missing, or what `--rebuild` names."""
    return job.table.metadata.build(job.request, progress=job.look)


if __name__ == "__main__":
    serve("metadata", IndexRequest, work)
