"""Spark application: delete the files of a table that no retained instant needs.

spark-submit spark_apps/clean.py --table flights --mode plan [--policy commits] [--retain 10] [--max-files 10000]
spark-submit spark_apps/clean.py --table flights --mode execute --instant 20261121101500123
spark-submit spark_apps/clean.py --table flights --mode cancel
"""

from __future__ import annotations

from _app import modes_of, serve_modes

from hudi_ops.config.requests import CleanRequest

MODES = {
    **modes_of(lambda table: table.clean),
    "cancel": lambda job: job.table.cancel_overdue(dry_run=job.request.dry_run),  # as planning does first
}

if __name__ == "__main__":
    serve_modes("clean", CleanRequest, MODES)
