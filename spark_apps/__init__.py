"""One application for each service, for spark-submit; installed as `hudi_ops.spark_apps`."""
