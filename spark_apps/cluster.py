"""Spark application: merge the small files of a table into larger ones, and sort their rows.

spark-submit spark_apps/cluster.py --table flights --mode plan [--sort-by origin,departure --order z-order] [--max-bytes 5000000000]
spark-submit spark_apps/cluster.py --table flights --mode execute --instant 20261121101500123 [--engine auto]
"""

from __future__ import annotations

from _app import modes_of, serve_modes

from hudi_ops.config.requests import ClusteringRequest

if __name__ == "__main__":
    serve_modes("cluster", ClusteringRequest, modes_of(lambda table: table.clustering))
