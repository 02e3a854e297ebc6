"""Make the DAG of a service: its form from the request, its tasks from the application.

Airflow's discovery looks for the words "airflow" and "dag" in a file of the DAG folder, so both stand in each of ours.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param
from hudi_ops_submit import HudiOpsSubmitOperator
from pydantic import BaseModel

from hudi_ops.config.doors import docs_table, form_arguments, form_fields
from hudi_ops.config.tables_file import ENVIRONMENT_VARIABLE, FILE_NAME, TableDeclaration, load_tables
from hudi_ops.errors import InvalidRequest

HOME = Path(os.environ.get("HUDI_OPS_HOME") or Path(__file__).resolve().parent.parent)


class ServiceDag:
    """DAG of one service, with the settings of the environment in which its file is parsed.

    Args:
        dag_id: its name; `HUDI_OPS_<NAME>_SCHEDULE` is its schedule, where `scheduled`.
        model: the service's request, whose fields are the form's.
        application: file in `spark_apps/`.
        description: one line for the list of DAGs.
        doc: Markdown about it; the table of settings is added.
        offers: tables that the form offers, where any are declared; default: all.
        scheduled: whether it may have a schedule.
    """

    def __init__(
        self,
        dag_id: str,
        model: type[BaseModel],
        application: str,
        *,
        description: str,
        doc: str,
        offers: Callable[[TableDeclaration], bool] = lambda table: True,
        scheduled: bool = True,
    ) -> None:
        self.retries = int(os.environ.get("HUDI_OPS_RETRIES", "2"))
        self._tables_file = Path(os.environ.get(ENVIRONMENT_VARIABLE) or HOME / FILE_NAME)
        self._model, self._application = model, application
        schedule = os.environ.get(f"HUDI_OPS_{dag_id.upper()}_SCHEDULE") if scheduled else None
        self.dag = DAG(
            dag_id=dag_id,
            description=description,
            doc_md=f"{doc.strip()}\n\n{docs_table(model)}\n",
            schedule=schedule or None,
            start_date=datetime(2024, 1, 1, tzinfo=UTC),
            catchup=False,
            max_active_runs=1,
            tags=["hudi", dag_id],
            default_args={
                "owner": "hudi-ops",
                "retries": self.retries,
                "retry_delay": timedelta(seconds=30),
                "retry_exponential_backoff": True,
                "max_retry_delay": timedelta(minutes=10),
            },
            params=self._params(offers),
        )

    def task(
        self, task_id: str, *arguments: str, hours: int, plan: HudiOpsSubmitOperator | None = None, **options: Any
    ) -> HudiOpsSubmitOperator:
        """Add a task that submits the application with what the form says.

        A task that executes a plan gets its instant, and is skipped only when `plan` said that there is nothing to do. Run alone,
        without a result of `plan`, it executes the oldest pending plan.

        Args:
            task_id: its name, and the job's.
            arguments: further arguments of the application.
            hours: how long it may take.
            plan: the task before it, which makes the plan that it executes.
            options: as for the operator.
        """
        if plan is not None:
            planned = f"ti.xcom_pull(task_ids='{plan.task_id}')"
            options["only_if"] = f"{{{{ 'yes' if {planned} is none or {planned}.get('instant') else '' }}}}"
            arguments += (f"--instant={{{{ ({planned} or {{}}).get('instant') or '' }}}}",)
        return HudiOpsSubmitOperator(
            dag=self.dag,
            task_id=task_id,
            application=str(HOME / "spark_apps" / self._application),
            application_args=[
                "--table={{ params.table }}",
                *form_arguments(self._model),
                *arguments,
                f"--tables={self._tables_file}",
            ],
            name=f"hudi-ops {self.dag.dag_id} {task_id} {{{{ params.table }}}}",
            conn_id="spark_default",
            driver_memory=os.environ.get("HUDI_OPS_DRIVER_MEMORY", "1g"),
            execution_timeout=timedelta(hours=hours),
            **options,
        )

    def _params(self, offers: Callable[[TableDeclaration], bool]) -> dict[str, Param]:
        """Return the form.

        Raises:
            InvalidRequest: no table is declared.
        """
        tables = load_tables(self._tables_file).tables
        if not tables:
            raise InvalidRequest(
                f"{self._tables_file} declares no table, so there is nothing to work on", next_step="declare one"
            )
        # A table that Apache Hudi made may be declared without its type: where none fits, any may be chosen.
        names = [name for name, table in tables.items() if offers(table)] or list(tables)
        table = Param(names[0], type="string", enum=names, title="Table", description="A table of tables.yaml.")
        schemas = form_fields(self._model).items()
        return {"table": table, **{name: Param(**schema) for name, schema in schemas}}
