"""The compaction DAG: plans which log files of a table are merged into new base files, then executes the plan."""

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
    raise InvalidRequest(f"{TABLES_FILE} declares no table, so there is nothing to compact", next_step="declare one")
# Those that Apache Hudi made may be declared without their type: where none is, any may be chosen.
NAMES = [name for name, table in tables.items() if table.type == "mor"] or list(tables)
RETRIES = int(os.environ.get("HUDI_OPS_RETRIES", "2"))

DOC = """
### Compact a merge-on-read table

Merges log files into new base files, so that reads stay fast. **plan** chooses the file groups and publishes the plan,
**execute** runs it; ingestion goes on all the while. When there is nothing to plan, **execute** is *skipped*, and the result of
**plan** says why.

| setting | meaning |
|---|---|
| table | a merge-on-read table of `tables.yaml` |
| strategy | which file groups come first: `size` (bytes of log files), `count` (log files), `commits` (delta commits since they \
were compacted), `age` (oldest log file) |
| least | what has less waits: bytes, files, commits or seconds. Empty: any log file, 5, 5, 1 h |
| max_bytes | a plan reads at most so much, one file group at least. Empty: everything |
| partitions | paths or patterns, separated by commas. Empty: all |
| engine | `auto` chooses by the bytes of the plan; `local` uses one process, `spark` the executors |

A plan is executed once: a retry, or a run after a worker was restarted, finds it completed and succeeds, finds it alive elsewhere
and is tried again, or takes it over from whoever died. A plan that an earlier run left is executed before a new one is made.
"""

with DAG(
    dag_id="compaction",
    description="Merge the log files of a Hudi table into new base files",
    doc_md=DOC,
    schedule=os.environ.get("HUDI_OPS_COMPACTION_SCHEDULE") or None,
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["hudi", "compaction"],
    default_args={
        "owner": "hudi-ops",
        "retries": RETRIES,
        "retry_delay": timedelta(seconds=30),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=10),
    },
    params={
        "table": Param(
            NAMES[0], type="string", enum=NAMES, title="Table", description="A merge-on-read table of tables.yaml."
        ),
        "strategy": Param(
            "size",
            type="string",
            enum=["size", "count", "commits", "age"],
            title="Strategy",
            description="Which file groups come first.",
        ),
        "least": Param(
            None,
            type=["null", "number"],
            minimum=0,
            title="Least",
            description="What has less waits: bytes, log files, delta commits or seconds. Empty: the strategy's own.",
        ),
        "max_bytes": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Most bytes",
            description="Plan at most so many bytes of base and log files, one file group at least. Empty: all.",
        ),
        "partitions": Param(
            "",
            type=["null", "string"],
            # Not an option of the application in disguise, and one line.
            pattern=r"^([^\s\-][^\r\n\t]*)?$",
            maxLength=1000,
            title="Partitions",
            description="Paths such as origin=JFK, or patterns, separated by commas. Empty: all.",
        ),
        "engine": Param(
            "auto",
            type="string",
            enum=["auto", "local", "spark"],
            title="Engine",
            description="Where the work runs; auto chooses by size.",
        ),
    },
) as dag:
    common = {
        "application": str(HOME / "spark_apps" / "compact.py"),
        "conn_id": "spark_default",
        "driver_memory": os.environ.get("HUDI_OPS_DRIVER_MEMORY", "1g"),
    }
    plan = HudiOpsSubmitOperator(
        task_id="plan",
        application_args=[
            "--mode=plan",
            "--table={{ params.table }}",
            "--strategy={{ params.strategy }}",
            "--least={{ params.least if params.least is not none else '' }}",
            "--max-bytes={{ params.max_bytes or '' }}",
            "--partitions={{ params.partitions or '' }}",
            f"--tables={TABLES_FILE}",
        ],
        name="hudi-ops plan compaction {{ params.table }}",
        execution_timeout=timedelta(hours=1),
        **common,
    )
    instant = "{{ (ti.xcom_pull(task_ids='plan') or {}).get('instant') or '' }}"
    execute = HudiOpsSubmitOperator(
        task_id="execute",
        only_if=instant,
        # An executor that died with its machine is taken for alive for two minutes: the tries must last longer.
        retries=2 * RETRIES,
        application_args=[
            "--mode=execute",
            "--table={{ params.table }}",
            f"--instant={instant}",
            "--engine={{ params.engine }}",
            f"--tables={TABLES_FILE}",
        ],
        name="hudi-ops compact {{ params.table }}",
        execution_timeout=timedelta(hours=12),
        **common,
    )
    plan >> execute
