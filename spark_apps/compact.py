"""Spark application: merge the log files of a table into new base files.

spark-submit spark_apps/compact.py --table flights --mode plan [--strategy commits] [--threshold 10] [--max-bytes 50000000000]
spark-submit spark_apps/compact.py --table flights --mode execute --instant 20261121101500123 [--engine auto]
"""

from __future__ import annotations

from _app import Job, serve

from hudi_ops.config.requests import CompactionRequest

MODES = {
    "run": lambda job: job.table.compaction.run(job.request, progress=job.look),
    "plan": lambda job: job.table.compaction.plan(job.request, resume=True),
    "execute": lambda job: job.table.compaction.execute(job.request, progress=job.look),
}


def work(job: Job) -> object:
    """Plan, execute a plan, or both."""
    return MODES[job.options.mode](job)


if __name__ == "__main__":
    serve("compact", CompactionRequest, work, *MODES)
