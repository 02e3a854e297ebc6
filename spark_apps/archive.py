"""Spark application: move old instants of a table from the timeline into the history.

spark-submit spark_apps/archive.py --table flights [--keep-min 20] [--keep-max 30]
"""

from __future__ import annotations

from _app import Job, serve

from hudi_ops.config.requests import ArchiveRequest


def work(job: Job) -> object:
    """Archive once."""
    return job.table.archive.run(job.request)


if __name__ == "__main__":
    serve("archive", ArchiveRequest, work)
