"""Spark application: check that a table is whole; fails when it is not.

spark-submit spark_apps/verify.py --table flights [--deep] [--index] [--sample 100]
"""

from __future__ import annotations

from _app import Job, serve

from hudi_ops.config.requests import VerifyRequest


def work(job: Job) -> object:
    """Verify the table, without changing it."""
    return job.verified()


if __name__ == "__main__":
    serve("verify", VerifyRequest, work)
