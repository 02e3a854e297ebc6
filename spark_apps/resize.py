"""Spark application: split and merge the buckets of a table with hash rings.

spark-submit spark_apps/resize.py --table rides --mode plan [--split-bytes 500000000] [--merge-bytes 50000000] [--max-partitions 10]
spark-submit spark_apps/resize.py --table rides --mode execute --instant 20261121101500123 [--engine auto]
"""

from __future__ import annotations

from _app import modes_of, serve_modes

from hudi_ops.config.requests import ResizeRequest

if __name__ == "__main__":
    serve_modes("resize", ResizeRequest, modes_of(lambda table: table.resize))
