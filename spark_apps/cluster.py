"""Spark application: merge files and sort rows, or split and merge buckets of hash rings.

spark-submit spark_apps/cluster.py --table flights --mode plan [--sort-by origin,departure --order z-order] [--max-bytes 5000000000]
spark-submit spark_apps/cluster.py --table flights --service resize --mode plan [--split-bytes 500000000]
spark-submit spark_apps/cluster.py --table flights --mode execute --instant 20261121101500123 [--service resize] [--engine auto]
"""

from __future__ import annotations

from _app import modes_of, serve_services

from hudi_ops.config.requests import ClusteringRequest, ResizeRequest

if __name__ == "__main__":
    serve_services(
        "cluster",
        {"clustering": ClusteringRequest, "resize": ResizeRequest},
        {
            "clustering": modes_of(lambda table: table.clustering),
            "resize": modes_of(lambda table: table.resize),
        },
    )
