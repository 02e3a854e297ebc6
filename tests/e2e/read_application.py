"""A Spark application of a user: reads a table through the data source on executors, and says what it found, as JSON."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def where_from(_: int) -> str:
    import hudi_ops

    return str(hudi_ops.__file__)


def main(table: str) -> None:
    spark = SparkSession.builder.appName("reads").getOrCreate()
    import hudi_ops
    from hudi_ops.datasource import register

    register(spark)
    frame = spark.read.format("hudi_ops").load(table)
    frame.createOrReplaceTempView("rows")
    executors = spark.sparkContext.parallelize(range(8), 8).map(where_from).distinct().collect()
    by_part = spark.sql("select part, count(*), sum(value) from rows group by part order by part").collect()
    answer = {
        "master": spark.sparkContext.master,
        "driver": hudi_ops.__file__,
        "executors": executors,
        "partitions": frame.rdd.getNumPartitions(),
        "sums": [list(row) for row in by_part],
        "one": [row.id for row in frame.where("id = 7").collect()],
    }
    print("ANSWER " + json.dumps(answer))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
