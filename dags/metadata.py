"""The metadata DAG: builds partitions of a table's metadata table while others write."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, Param
from hudi_ops_submit import HudiOpsSubmitOperator

from hudi_ops.config.tables_file import ENVIRONMENT_VARIABLE, FILE_NAME, load_tables
from hudi_ops.errors import InvalidRequest

HOME = Path(os.environ.get("HUDI_OPS_HOME") or Path(__file__).resolve().parent.parent)
TABLES_FILE = Path(os.environ.get(ENVIRONMENT_VARIABLE) or HOME / FILE_NAME)

tables = load_tables(TABLES_FILE).tables
if not tables:
    raise InvalidRequest(
        f"{TABLES_FILE} declares no table, so there is no metadata table to build", next_step="declare one"
    )
RETRIES = int(os.environ.get("HUDI_OPS_RETRIES", "2"))
PARTITIONS = ["files", "column_stats", "partition_stats", "bloom_filters", "record_index"]

DOC = """
### Build the metadata table of a table

Reads the table's files and builds partitions of its metadata table; others may write all the while. Partitions that are there are
left as they are, so running it again is harmless, and goes on after a failure. Damaged ones, and those that are behind, are built
anew with `again`.

| setting | meaning |
|---|---|
| table | a table of `tables.yaml` |
| partitions | `files`, `column_stats`, `partition_stats`, `bloom_filters`, `record_index`; `files` is built with the others where \
there is none. None chosen: the first three |
| again | build those anew that are there; none chosen: all that are there. They are dropped first: until the build has ended, \
readers do without, and a table whose index is the record index takes no rows |
| engine | `auto` chooses by the bytes of the table; `local` uses one process, `spark` the executors |
"""

with DAG(
    dag_id="metadata",
    description="Build partitions of the metadata table of a Hudi table",
    doc_md=DOC,
    schedule=None,
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["hudi", "metadata"],
    default_args={
        "owner": "hudi-ops",
        # A builder that died with its machine is taken for alive for two minutes: the tries must last longer.
        "retries": 2 * RETRIES,
        "retry_delay": timedelta(seconds=30),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=10),
    },
    params={
        "table": Param(
            next(iter(tables)), type="string", enum=list(tables), title="Table", description="A table of tables.yaml."
        ),
        "partitions": Param(
            [],
            type=["null", "array"],
            items={"type": "string", "enum": PARTITIONS},
            examples=PARTITIONS,
            title="Partitions",
            description="What is built. None: files, column_stats and partition_stats.",
        ),
        "again": Param(
            False,
            type="boolean",
            title="Again",
            description="Build anew what is there, damaged or behind: it is dropped first.",
        ),
        "engine": Param(
            "auto",
            type="string",
            enum=["auto", "local", "spark"],
            title="Engine",
            description="Where files are read; auto chooses by size.",
        ),
    },
) as dag:
    build = HudiOpsSubmitOperator(
        task_id="build",
        application=str(HOME / "spark_apps" / "metadata.py"),
        conn_id="spark_default",
        driver_memory=os.environ.get("HUDI_OPS_DRIVER_MEMORY", "1g"),
        application_args=[
            "--table={{ params.table }}",
            "--partitions={{ (params.partitions or []) | join(',') }}",
            "--again={{ 'true' if params.again else 'false' }}",
            "--engine={{ params.engine }}",
            f"--tables={TABLES_FILE}",
        ],
        name="hudi-ops build metadata {{ params.table }}",
        execution_timeout=timedelta(hours=12),
    )
