"""Spark application: finish what was decided, and roll back the writes of dead processes.

spark-submit spark_apps/recover.py --table flights [--abandoned]
"""

from __future__ import annotations

from _app import Job, serve

from hudi_ops.config.requests import RecoverRequest


def work(job: Job) -> object:
    """Recover the table."""
    return job.table.recover(abandoned=job.request.abandoned)


if __name__ == "__main__":
    serve("recover", RecoverRequest, work)
