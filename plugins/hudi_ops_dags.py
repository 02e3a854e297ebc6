"""Make the DAGs of a service: one with a form, and one for each schedule of tables.yaml.

Airflow's discovery looks for the words "airflow" and "dag" in a file of the DAG folder, so both stand in each of ours.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param
from airflow.sdk.exceptions import AirflowFailException
from hudi_ops.plugins.hudi_ops_assets import asset_of
from hudi_ops.plugins.hudi_ops_submit import HudiOpsProcessOperator, HudiOpsSubmitOperator
from pydantic import BaseModel

from hudi_ops.config.doors import docs_table, form_arguments, form_fields, form_values, other_arguments
from hudi_ops.config.places import folder, home
from hudi_ops.config.requests.request import refuse_unknown
from hudi_ops.config.requests.schedule import Schedule
from hudi_ops.config.tables_file import (
    ENVIRONMENT_VARIABLE,
    FILE_NAME,
    TableDeclaration,
    TablesFile,
    load_tables,
)
from hudi_ops.errors import InvalidRequest

ON_FAILURE = "HUDI_OPS_ON_FAILURE"
"""Variable that names the function that Airflow calls when a task has failed for good."""

ON_STOP = "HUDI_OPS_ON_STOP"
"""Variable that says what becomes of the plan that a killed task executes: `leave` or `cancel`."""

OTHER_PRESETS: Iterable[str] = ("@once", "@continuous")
"""Schedules of Airflow that stand for no cron expression."""


@dataclass(frozen=True)
class Service:
    """Service that has DAGs.

    Attributes:
        name: id of the DAG with the form, and the first part of the others'.
        request: its request, whose fields are the form's.
        application: file in `spark_apps/`.
        description: one line for the list of DAGs.
        doc: Markdown about it; the table of settings is added.
        offers: tables that the form offers; default: all.
        needs: the condition of `offers` in words; shown where no table fits.
        completes: whether it completes instants of the table, which are events of its asset.
        spark: whether its application is submitted to Spark; else it is a process of the worker's Python.
    """

    name: str
    request: type[BaseModel]
    application: str
    description: str
    doc: str
    offers: Callable[[TableDeclaration], bool] = lambda table: True
    needs: str = ""
    completes: bool = True
    spark: bool = True


class ServiceDag:
    """DAG of one service, with the settings of the environment in which its file is parsed.

    Args:
        service: what it runs.
        declared: the tables file in force.
        table: a table with a schedule of its own; empty: the form offers all tables of the service.
        schedule: of that table, with the values of the request.
    """

    def __init__(
        self, service: Service, declared: TablesFile, table: str = "", schedule: Schedule | None = None
    ) -> None:
        defaults = task_defaults()
        self.retries: int = defaults["retries"]
        self._service, self._declared = service, declared
        declared_fields = declared.get(table).request_fields(service.name) if table else {}
        self._given = {**declared_fields, **(schedule.request if schedule is not None else {})}
        self._tables = [table] if table else [name for name, one in declared.tables.items() if service.offers(one)]
        self._note = "" if self._tables else f"No table of {declared.file} is {service.needs}."
        timing = schedule.schedule if schedule is not None else self._schedule_of_environment()
        self.dag = DAG(
            dag_id=f"{service.name}__{table}" if table else service.name,
            description=f"{service.description}: {table}" if table else service.description,
            doc_md=self._doc(),
            schedule=timing,
            start_date=datetime(2024, 1, 1, tzinfo=UTC),
            catchup=False,
            max_active_runs=1,
            tags=["hudi", service.name],
            default_args=defaults,
            params=self._params(),
        )

    def task(
        self,
        task_id: str,
        *arguments: str,
        hours: int,
        plan: HudiOpsSubmitOperator | None = None,
        other: Service | None = None,
        **options: Any,
    ) -> HudiOpsSubmitOperator:
        """Add a task that submits the application with what the form says.

        A task that executes a plan gets its instant, and is skipped only when `plan` said that there is nothing to do. Run alone,
        without a result of `plan`, it executes the oldest pending plan.

        Args:
            task_id: its name, and the job's.
            arguments: further arguments of the application.
            hours: how long it may take.
            plan: the task before it, which makes the plan that it executes.
            other: another service to run with its defaults, in place of that of the DAG.
            options: as for the operator.
        """
        if plan is not None:
            planned = f"ti.xcom_pull(task_ids='{plan.task_id}')"
            has_work = f"{planned} is none or {planned}.get('instant')"
            options["only_if"] = f"{{{{ 'yes' if ({has_work}) and not params.get('dry_run') else '' }}}}"
            arguments += (f"--instant={{{{ ({planned} or {{}}).get('instant') or '' }}}}",)
        service = other or self._service
        options.setdefault("table", "{{ params.table }}" if service.completes else "")
        if other is None:
            request = service.request
            arguments = (*form_arguments(request), *other_arguments(request, self._given), *arguments)
        operator = HudiOpsSubmitOperator if service.spark else HudiOpsProcessOperator
        return operator(
            dag=self.dag,
            task_id=task_id,
            application=str(folder("spark_apps") / service.application),
            application_args=["--table={{ params.table }}", *arguments, f"--tables={self._declared.file}"],
            inlets=[asset_of(name) for name in self._tables],
            request=service.request,
            pre_execute=refuse_other_fields(self.dag.params),
            refused=f"{self._note} {self._next_step}" if self._note else "",
            name=f"hudi-ops {self.dag.dag_id} {task_id} {{{{ params.table }}}}",
            conn_id="spark_default",
            driver_memory=os.environ.get("HUDI_OPS_DRIVER_MEMORY", "1g"),
            execution_timeout=timedelta(hours=hours),
            on_stop=_on_stop(),
            **options,
        )

    def plan_and_execute(self) -> tuple[HudiOpsSubmitOperator, HudiOpsSubmitOperator]:
        """Add a task that plans, and one that executes its plan; return both."""
        plan = self.task("plan", "--mode=plan", hours=1, table="")  # a plan completes nothing
        # An executor that died with its machine is taken for alive for two minutes: the tries must last longer.
        execute = self.task("execute", "--mode=execute", hours=12, plan=plan, retries=2 * self.retries)
        plan >> execute
        return plan, execute

    @property
    def _next_step(self) -> str:
        return "Next: add a table that is, or correct its declaration; the form offers it within a minute."

    def _schedule_of_environment(self) -> str | None:
        """Return the schedule of the DAG with the form: it works on the first table."""
        return (os.environ.get(f"HUDI_OPS_{self._service.name.upper()}_SCHEDULE") or None) if self._tables else None

    def _doc(self) -> str:
        parts = [self._service.doc.strip(), docs_table(self._service.request)]
        if self._note:
            parts.insert(0, f"**{self._note}** A run fails. {self._next_step}")
        return "\n\n".join(parts) + "\n"

    def _params(self) -> dict[str, Param]:
        help_text = " ".join(filter(None, ["A table of tables.yaml.", self._note]))
        names = self._tables or [""]
        table = Param(names[0], type="string", enum=names, title="Table", description=help_text)
        schemas = form_fields(self._service.request)
        given = form_values(self._service.request, self._given)
        return {"table": table} | {name: Param(**{**schemas[name], "default": given[name]}) for name in schemas}


def dags_of(service: Service, add_tasks: Callable[[ServiceDag], object]) -> dict[str, DAG]:
    """Return the DAGs of a service by their ids: the form's, and one for each schedule.

    Args:
        service: what they run.
        add_tasks: adds the tasks to a DAG.

    Raises:
        InvalidRequest: tables.yaml declares no table, or something wrong; names file, table and field.
    """
    declared = declared_tables()
    made = [ServiceDag(service, declared)]
    for table, declaration in declared.tables.items():
        schedule = declaration.schedules.get(service.name)
        if schedule is not None:
            refuse_schedule(f"{declared.file}: tables.{table}.schedules.{service.name}", schedule.schedule)
            made.append(ServiceDag(service, declared, table, schedule))
    for one in made:
        add_tasks(one)
    return {one.dag.dag_id: one.dag for one in made}


def declared_tables() -> TablesFile:
    """Return the tables file in force.

    Raises:
        InvalidRequest: it declares no table, or something wrong; names file, table and field.
    """
    declared = load_tables(Path(os.environ.get(ENVIRONMENT_VARIABLE) or home() / FILE_NAME))
    if not declared.tables:
        raise InvalidRequest(
            f"{declared.file} declares no table, so there is nothing to work on", next_step="declare one"
        )
    return declared


def task_defaults() -> dict[str, Any]:
    """Return the settings that the tasks of all DAGs share, such as owner and retries.

    Raises:
        InvalidRequest: `HUDI_OPS_ON_FAILURE` names no function.
    """
    return {
        "owner": "hudi-ops",
        "retries": int(os.environ.get("HUDI_OPS_RETRIES", "2")),
        "retry_delay": timedelta(seconds=30),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=10),
        "on_failure_callback": failure_callback(),
    }


def refuse_other_fields(fields: Iterable[str]) -> Callable[[Any], None]:
    """Return a check of the names in a run's configuration, which Airflow takes as they come.

    A misspelt `dry_run` would otherwise be a run that changes the table.

    Args:
        fields: names that the configuration may have.
    """
    known = frozenset(fields)

    def check(context: Any) -> None:
        try:
            refuse_unknown(context["dag_run"].conf or {}, known)
        except InvalidRequest as error:
            raise AirflowFailException(f"configuration of the run: {error}") from None

    return check


def _on_stop() -> str:
    """Return what the environment sets for the plan of a killed task.

    Raises:
        InvalidRequest: neither `leave` nor `cancel`.
    """
    said = os.environ.get(ON_STOP) or "leave"
    if said not in {"leave", "cancel"}:
        raise InvalidRequest(
            f"{ON_STOP} cannot be {said!r}",
            expected="leave or cancel",
            found=repr(said),
            next_step="correct the variable, or unset it",
        )
    return said


def failure_callback() -> Callable[..., Any] | None:
    """Return the function that the environment names for failed tasks, or None.

    Raises:
        InvalidRequest: there is no such function.
    """
    named = os.environ.get(ON_FAILURE)
    if not named:
        return None
    module, _, function = named.rpartition(".")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidRequest(
            f"{ON_FAILURE} names no function: {error}",
            expected="module.function, in the plugins folder or installed",
            found=named,
            next_step="correct the variable, or unset it",
        ) from error
    return found


def refuse_schedule(where: str, schedule: str) -> None:
    """Refuse a schedule by which Airflow cannot run a DAG.

    Raises:
        InvalidRequest: neither a cron expression nor a preset.
    """
    if schedule in OTHER_PRESETS:
        return
    from airflow.sdk import CronTriggerTimetable

    try:
        CronTriggerTimetable(schedule, timezone="UTC").validate()
    except Exception as error:
        # Whatever the parser raises for a text that it cannot read.
        raise InvalidRequest(
            f"{where}: {schedule!r} is no cron expression",
            expected="five fields such as '*/10 * * * *', or a preset such as @hourly",
            found=repr(schedule),
            next_step="correct the schedule",
        ) from error
