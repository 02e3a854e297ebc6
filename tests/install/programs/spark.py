"""Run a Spark job, read the core's table as a DataFrame, and ingest on Spark's engine."""

import json
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

from hudi_ops import Table

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
table = Table.open("trips")
total = spark.range(100).selectExpr("sum(id)").collect()[0][0]
frame = table.spark_frame(spark).count()
table.ingest(pa.table({"id": [4], "city": ["Rome"], "fare": [1.0]}), engine="spark")
jars = (Path(pyspark.__file__).parent / "jars").is_dir()
print(json.dumps({"sum": total, "frame": frame, "ingested": table.read().num_rows, "jars": jars}))
spark.stop()
