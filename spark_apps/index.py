"""Spark application: build indexes of a table, partitions of its metadata table.

spark-submit spark_apps/index.py --table flights --mode plan [--partitions record_index,bloom_filters] [--rebuild]
spark-submit spark_apps/index.py --table flights --mode execute --instant 20261121101500123 [--timeout-s 900] [--engine auto]
"""

from __future__ import annotations

from _app import modes_of, serve_modes

from hudi_ops.config.requests import IndexRequest

if __name__ == "__main__":
    serve_modes("index", IndexRequest, modes_of(lambda table: table.indexing))
