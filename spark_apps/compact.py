"""Spark application: merge the log files of a table into new base files.

spark-submit spark_apps/compact.py --table flights --mode plan [--strategy commits] [--threshold 10] [--max-bytes 50000000000]
spark-submit spark_apps/compact.py --table flights --mode execute --instant 20261121101500123 [--engine auto]
"""

from __future__ import annotations

from _app import modes_of, serve_modes

from hudi_ops.config.requests import CompactionRequest

if __name__ == "__main__":
    serve_modes("compact", CompactionRequest, modes_of(lambda table: table.compaction))
