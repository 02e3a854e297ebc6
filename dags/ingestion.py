"""The ingestion DAG: takes the new files of a folder into a table of `tables.yaml`, each file exactly once."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, Param
from hudi_ops_submit import HudiOpsSubmitOperator

from hudi_ops.config.tables_file import ENVIRONMENT_VARIABLE, FILE_NAME, load_tables
from hudi_ops.errors import InvalidRequest
from hudi_ops.redaction import CREDENTIALS

HOME = Path(os.environ.get("HUDI_OPS_HOME") or Path(__file__).resolve().parent.parent)
TABLES_FILE = Path(os.environ.get(ENVIRONMENT_VARIABLE) or HOME / FILE_NAME)
# No user and password, which would be kept and shown.
WITHOUT_CREDENTIALS = rf"(?![\s\S]*{CREDENTIALS})"

tables = load_tables(TABLES_FILE).tables
if not tables:
    raise InvalidRequest(
        f"{TABLES_FILE} declares no table, so there is nothing to ingest into", next_step="declare one"
    )

DOC = """
### Ingest files into a Hudi table

Takes every file of the source folder (CSV, JSON lines or Parquet) that the table has not taken yet, as **one** commit.
A run that finds nothing new makes no commit and succeeds. Running it twice, or again after a failure, never takes a
file twice.

| setting | meaning |
|---|---|
| table | a table of `tables.yaml` |
| source | folder or URI; empty: the folder that `tables.yaml` declares for the table |
| operation | `upsert` (default), `insert`, `delete`; `bulk_insert` adds rows without looking keys up; `insert_overwrite` replaces \
the partitions that the rows touch, `insert_overwrite_table` the whole table |
| evolve | whether the table takes new columns and wider types from the files; off: such files are refused |
| max_files, max_bytes | at most so much in one commit; the next run takes the rest. Empty: everything |
| retake | files that were corrected after they were taken, one a line: their paths below the source. They are taken again; \
`upsert` only |
| engine | `auto` chooses by the size of the work; `local` uses one process, `spark` the executors |

The task's result (XCom `return_value`) says what was done: instant, rows inserted, updated and deleted, engine and why.
A wrong setting, an unsupported or a damaged table fails at once; a conflict, a busy lock or an unreachable service is
tried again; a cancelled run is *skipped*.
"""

with DAG(
    dag_id="ingestion",
    description="Take the new files of a folder into a Hudi table",
    doc_md=DOC,
    schedule=os.environ.get("HUDI_OPS_INGESTION_SCHEDULE") or None,
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["hudi", "ingestion"],
    default_args={
        "owner": "hudi-ops",
        "retries": int(os.environ.get("HUDI_OPS_RETRIES", "2")),
        "retry_delay": timedelta(seconds=30),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=10),
    },
    params={
        "table": Param(
            next(iter(tables)), type="string", enum=list(tables), title="Table", description="A table of tables.yaml."
        ),
        "source": Param(
            "",
            type=["null", "string"],
            # Not an option of the application in disguise, and one line.
            pattern=rf"^{WITHOUT_CREDENTIALS}([^\s\-][^\r\n\t]*)?$",
            maxLength=1000,
            title="Source",
            description="Folder or URI with CSV, JSON or Parquet files. Empty: the source declared in tables.yaml.",
        ),
        "operation": Param(
            "upsert",
            type="string",
            enum=["upsert", "insert", "delete", "bulk_insert", "insert_overwrite", "insert_overwrite_table"],
            title="Operation",
            description="What to do with the rows; the last two replace what the table holds.",
        ),
        "evolve": Param(
            False,
            type="boolean",
            title="Evolve",
            description="Let the table take new columns and wider types from the files.",
        ),
        "engine": Param(
            "auto",
            type="string",
            enum=["auto", "local", "spark"],
            title="Engine",
            description="Where the work runs; auto chooses by size.",
        ),
        "max_files": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Most files",
            description="Take at most so many files in this commit. Empty: all.",
        ),
        "max_bytes": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Most bytes",
            description="Take files of at most so many bytes in this commit, one at least. Empty: all.",
        ),
        "retake": Param(
            [],
            type=["null", "array"],
            items={"type": "string", "pattern": rf"^{WITHOUT_CREDENTIALS}[^\s\-][^\r\n\t]*$", "maxLength": 1000},
            maxItems=1000,
            title="Take again",
            description="Files that were corrected after they were taken, one a line: their paths below the source. Upsert only.",
        ),
    },
) as dag:
    HudiOpsSubmitOperator(
        task_id="ingest",
        application=str(HOME / "spark_apps" / "ingest.py"),
        application_args=[
            "--table={{ params.table }}",
            "--source={{ params.source or '' }}",
            "--operation={{ params.operation }}",
            "--engine={{ params.engine }}",
            "--evolve={{ 'true' if params.evolve else 'false' }}",
            "--max-files={{ params.max_files or '' }}",
            "--max-bytes={{ params.max_bytes or '' }}",
            "--retake={{ (params.retake or []) | join('\\n') }}",
            f"--tables={TABLES_FILE}",
        ],
        name="hudi-ops ingest {{ params.table }}",
        conn_id="spark_default",
        driver_memory=os.environ.get("HUDI_OPS_DRIVER_MEMORY", "1g"),
        execution_timeout=timedelta(hours=6),
    )
