"""Spark application: take the new files of a folder into a table.

spark-submit spark_apps/ingest.py --table flights [--source DIR] [--operation upsert] [--engine auto] [--evolve]
"""

from __future__ import annotations

from _app import Job, serve

from hudi_ops.config.requests import IngestRequest


def work(job: Job) -> object:
    """Take the new files, each exactly once."""
    request = job.request.model_copy(update={"source": job.folder(job.request.source)})
    return job.table.ingest_files(request, progress=job.look)


if __name__ == "__main__":
    serve("ingest", IngestRequest, work)
