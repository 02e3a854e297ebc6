"""A Spark application of a user: writes a DataFrame into a table and reads the table through the data source, both on executors,
and says what it did and found, as JSON."""

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
    from hudi_ops import Table
    from hudi_ops.datasource import register

    # Rows that are there already, so that what is read does not depend on how often this runs.
    rows = spark.range(0, 100_000, 100).selectExpr("id", "concat('p', id % 3) AS part", "id AS value")
    written = Table.open(table).ingest(rows)
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
        "written": [written.engine, written.updated, written.inserted],
        "sums": [list(row) for row in by_part],
        "one": [row.id for row in frame.where("id = 7").collect()],
    }
    print("ANSWER " + json.dumps(answer))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
