"""Application without Spark: cancel a pending plan, or all plans that are overdue.

python spark_apps/cancel.py --table flights --instant 20261121101500123 [--reason 'not now'] [--wait-s 30]
python spark_apps/cancel.py --table flights
"""

from __future__ import annotations

from _app import Job, serve

from hudi_ops.config.requests import CancelRequest


def work(job: Job) -> object:
    """Cancel the plan and remove it; or cancel what is overdue, as a clean does first."""
    return job.cancelled() if job.request.instant else job.table.cancel_overdue()


if __name__ == "__main__":
    serve("cancel", CancelRequest, work, spark=False)
