"""Spark application: delete the files of a table that no retained instant needs.

spark-submit spark_apps/clean.py --table flights --mode plan [--policy commits] [--retain 10] [--max-files 10000]
spark-submit spark_apps/clean.py --table flights --mode execute --instant 20261121101500123
spark-submit spark_apps/clean.py --table flights --mode cancel
"""

from __future__ import annotations

from _app import Job, serve

from hudi_ops.config.requests import CleanRequest

MODES = {
    "run": lambda job: job.table.clean.run(job.request, progress=job.look),
    "plan": lambda job: job.table.clean.plan(job.request, resume=True),
    "execute": lambda job: job.table.clean.execute(job.request, progress=job.look),
    "cancel": lambda job: job.table.cancel_overdue(),
}


def work(job: Job) -> object:
    """Plan, execute a plan, or both; or cancel overdue plans, as planning does first."""
    return MODES[job.options.mode](job)


if __name__ == "__main__":
    serve("clean", CleanRequest, work, *MODES)
