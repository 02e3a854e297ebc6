"""Refuse a feature of Spark where the installed packages cannot run it."""

from __future__ import annotations

from importlib.util import find_spec

from hudi_ops.errors import not_installed


def require_classic_spark(feature: str) -> None:
    """Check that pyspark is installed with the part that starts a JVM.

    The extra `airflow` installs pyspark-client, which has the folder `pyspark` without that part: a session of it needs the
    address of a server.

    Raises:
        Unsupported: pyspark is not installed, or only pyspark-client is.
    """
    if find_spec("pyspark") is None:
        missing = not_installed(feature, "spark", found="no package pyspark")
        raise missing
    # The import system is asked, not the disk: under spark-submit pyspark is a zip. Spark 3.5 has `rdd` in the package itself.
    if all(find_spec(f"pyspark.{part}") is None for part in ("core", "rdd")):
        missing = not_installed(feature, "spark", found="pyspark-client alone, which has no JVM")
        raise missing
