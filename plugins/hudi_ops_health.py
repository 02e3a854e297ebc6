"""Judge the health of all tables, and give an alarm where trouble lasts too long.

Airflow's state store keeps the last verdict of a table under its asset `hudi://<table>`. So it belongs to no run, task or date:
triggered runs find it, also when tables moved to other tasks, and Airflow deletes it with the asset. XCom of earlier runs cannot
replace it: runs without a logical date come first in one database and last in another, and `airflow db clean` deletes old runs.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator, Param
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError
from hudi_ops.plugins.hudi_ops_assets import asset_of
from hudi_ops.plugins.hudi_ops_dags import (
    declared_tables,
    failure_callback,
    refuse_other_fields,
    refuse_schedule,
    task_defaults,
)
from hudi_ops.plugins.hudi_ops_links import TableLink
from hudi_ops.plugins.hudi_ops_submit import files_mask

if TYPE_CHECKING:
    from airflow.sdk import Context

    from hudi_ops.health.verdict import HealthVerdict

SCHEDULE = "HUDI_OPS_HEALTH_SCHEDULE"
"""Variable with the schedule of the DAG; empty or `none`: it runs when it is triggered."""

TABLES_A_TASK = 100
"""Tables that one task judges."""

STATE_KEY = "health"
"""Key of a table's last verdict, and of its checks whose alarm was given, in the state store of its asset."""

LINES_MAX = 15
"""Tables that the message of a failed run names."""

_JUDGE = "judge"


class HealthAlarm(AirflowFailException):
    """Raised when a target of a table is missed for longer than tolerated."""


class JudgeOperator(BaseOperator):
    """Judge some tables, several at a time; return their verdicts by name.

    A table that cannot be read has a verdict with the error, and fails no task.

    Args:
        names: tables of tables.yaml.
        tables: path of tables.yaml.
        limit_s: how long one table may take, in seconds.
        kwargs: as for `BaseOperator`; the inlets hold the assets of all tables.
    """

    ui_color = "#d9ead3"
    operator_extra_links = (TableLink(),)

    def __init__(self, *, names: Sequence[str], tables: str, limit_s: float = 120.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.names = names
        self.tables = tables
        self.limit_s = limit_s

    def execute(self, context: Context) -> dict[str, Any]:
        """Judge the tables, and keep their verdicts for the next run.

        Args:
            context: Airflow's; the run's parameter `table` chooses one table.

        Returns:
            The JSON of each verdict, without the state that only the next verdict needs.
        """
        from hudi_ops.registry.best_effort import health_of_tables

        chosen = context["params"].get("table")
        names = [name for name in self.names if chosen in {None, name}]
        kept = {name: _kept(context, name) for name in names}
        previous = {name: one["verdict"] for name, one in kept.items() if one.get("verdict")}
        with _mask_of_tables():
            verdicts = health_of_tables(names, self.tables, previous, limit_s=self.limit_s)
        found: dict[str, Any] = {}
        for verdict in verdicts:
            _keep(context, verdict.table, _state_after(kept[verdict.table], verdict))
            found[verdict.table] = verdict.model_dump(mode="json", exclude={"seen"})
            if verdict.status != "healthy":
                self.log.warning("%s", verdict.summary())
        healthy = sum(verdict.status == "healthy" for verdict in verdicts)
        self.log.info("%d of %d tables are healthy", healthy, len(verdicts))
        return found


class ReportOperator(BaseOperator):
    """Sum up the verdicts of a run, give the alarms, and fail where trouble lasts too long.

    The function of `HUDI_OPS_ON_FAILURE` is called once for each table when one of its checks begins to be intolerable, with the
    context of the task, and with `table`, `verdict` and `exception` of the table. If it raises, the next run calls it again.

    Args:
        kwargs: as for `BaseOperator`; the inlets hold the assets of all tables.
    """

    ui_color = "#d9ead3"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._alarm = failure_callback()
        # Failures of the task itself alone: `execute` called the function for its tables.
        self.on_failure_callback = [_unless_alarmed(self._alarm)] if self._alarm else []

    def execute(self, context: Context) -> dict[str, Any]:
        """Return status, missed checks and their times by table.

        Args:
            context: Airflow's.

        Raises:
            HealthAlarm: a target is missed for longer than tolerated, or a task that judges failed.
        """
        verdicts = _verdicts_of_run(context)
        summary = {name: _summary(verdict) for name, verdict in verdicts.items()}
        now_ms = _now_ms()
        alarming = {name: found for name, verdict in verdicts.items() if (found := verdict.intolerable(now_ms))}
        for name, checks in alarming.items():
            if self._alarm is not None:
                self._give_alarm(context, self._alarm, verdicts[name], checks)
        if lines := [*_failed_tasks(context), *_lines([verdicts[name] for name in alarming], len(verdicts))]:
            # Airflow keeps no result of a task that fails.
            context["ti"].xcom_push("return_value", summary)
            raise HealthAlarm("\n".join(lines))
        self.log.info("No target of %d tables is missed for longer than tolerated", len(verdicts))
        return summary

    def _give_alarm(
        self, context: Context, call: Callable[..., Any], verdict: HealthVerdict, checks: Sequence[str]
    ) -> None:
        """Call the function for a table, unless it was called for all of these checks."""
        kept = _kept(context, verdict.table)
        if set(checks) <= set(kept.get("alarmed", ())):
            return
        given = {
            **context,
            "params": {**context["params"], "table": verdict.table},
            "exception": HealthAlarm(verdict.summary()),
            "table": verdict.table,
            "verdict": verdict.as_dict(),
        }
        try:
            call(given)
        except Exception:
            # A function of the user: its fault must not hide the alarms of other tables.
            self.log.exception("The alarm of %s was not given; the next run repeats it", verdict.table)
            return
        _keep(context, verdict.table, {**kept, "alarmed": sorted({*kept.get("alarmed", ()), *checks})})


def health_dag(doc: str) -> DAG:
    """Return the DAG `health`, with the settings of the environment.

    Args:
        doc: Markdown about it.

    Raises:
        InvalidRequest: tables.yaml or the schedule is wrong; names file or variable.
    """
    declared = declared_tables()
    names = list(declared.tables)
    dag = DAG(
        dag_id="health",
        description="Judge the health of all Hudi tables, and give an alarm",
        doc_md=doc,
        schedule=_schedule(),
        start_date=datetime(2024, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        tags=["hudi", "health"],
        default_args=task_defaults(),
        params={
            "table": Param(
                None,
                type=["null", "string"],
                enum=[None, *names],
                title="Table",
                description="A table of tables.yaml. Default: all.",
                values_display={"null": "all tables"},
            )
        },
    )
    common: dict[str, Any] = {"dag": dag, "inlets": [asset_of(name) for name in names]}
    parts = [names[start : start + TABLES_A_TASK] for start in range(0, len(names), TABLES_A_TASK)]
    judge = JudgeOperator.partial(
        task_id=_JUDGE,
        tables=str(declared.file),
        execution_timeout=timedelta(hours=1),
        pre_execute=refuse_other_fields(dag.params),
        **common,
    ).expand(names=parts)
    # Also after a task that failed: the alarms of the other tables are given.
    report = ReportOperator(
        task_id="report", trigger_rule="all_done", execution_timeout=timedelta(minutes=30), **common
    )
    judge >> report
    return dag


def _schedule() -> str | None:
    given = os.environ.get(SCHEDULE, "@hourly").strip()
    if given.lower() in {"", "none"}:
        return None
    refuse_schedule(SCHEDULE, given)
    return given


def _verdicts_of_run(context: Context) -> dict[str, HealthVerdict]:
    """Return the verdicts of this run by table."""
    from hudi_ops.health.verdict import HealthVerdict

    found = context["ti"].xcom_pull(task_ids=_JUDGE)
    # Airflow returns the result of a single task as it is, and those of several as a list.
    parts = [found] if isinstance(found, Mapping) else found or ()
    dumped = {name: one for part in parts if part for name, one in part.items()}
    return {name: HealthVerdict.model_validate(dumped[name]) for name in sorted(dumped)}


def _failed_tasks(context: Context) -> list[str]:
    """Return a line about tasks of this run that judge and failed."""
    run: str = context["run_id"]
    states = context["ti"].get_task_states(dag_id=context["dag"].dag_id, task_ids=[_JUDGE], run_ids=[run])
    failed = sorted(name for name, state in states.get(run, {}).items() if state not in {"success", "removed"})
    return [f"tasks without verdicts: {', '.join(failed)}; their logs say why"] if failed else []


def _lines(alarming: Sequence[HealthVerdict], count: int) -> list[str]:
    """Return the message about tables whose trouble is tolerated no longer."""
    if not alarming:
        return []
    lines = [f"{len(alarming)} of {count} tables miss a target for longer than tolerated:"]
    lines += [verdict.summary() for verdict in alarming[:LINES_MAX]]
    left = len(alarming) - LINES_MAX
    return lines + ([f"and {left} more tables: see the result of this task"] if left > 0 else [])


def _summary(verdict: HealthVerdict) -> dict[str, Any]:
    ill = [one for one in verdict.checks if one.status in {"missed", "unknown"}]
    return {
        "status": verdict.status,
        "exit_code": verdict.exit_code,
        "missed": [one.check for one in verdict.missed],
        "unknown": ["table"] if verdict.error is not None else [one.check for one in ill if one.status == "unknown"],
        "since": {"table": verdict.since} if verdict.error is not None else {one.check: one.since for one in ill},
    }


def _state_after(kept: Mapping[str, Any], verdict: HealthVerdict) -> dict[str, Any]:
    """Return the state of a table after a verdict.

    An alarm counts as given until a verdict sees its check healthy; one of a table that cannot be read says nothing about its
    checks. A name that tables.yaml gives to another table begins anew.
    """
    before, dumped, alarmed = kept.get("verdict", {}), verdict.as_dict(), kept.get("alarmed", [])
    if verdict.error is not None:
        return {"verdict": dumped, "alarmed": list(alarmed)}
    ill = {one.check for one in verdict.checks if one.status in {"missed", "unknown"}}
    is_same = before.get("path") in {"", verdict.path}
    return {"verdict": dumped, "alarmed": [check for check in alarmed if is_same and check in ill]}


def _kept(context: Context, table: str) -> dict[str, Any]:
    """Return what the last run kept about a table; empty: nothing."""
    try:
        found = context["asset_state_store"][asset_of(table)].get(STATE_KEY)
    except AirflowRuntimeError:
        logging.getLogger(__name__).exception("The last verdict on %s cannot be read: this one begins anew", table)
        return {}
    if not isinstance(found, dict):
        return {}
    verdict, alarmed = found.get("verdict"), found.get("alarmed")
    return {
        "verdict": verdict if isinstance(verdict, dict) else {},
        "alarmed": [name for name in alarmed if isinstance(name, str)] if isinstance(alarmed, list) else [],
    }


def _keep(context: Context, table: str, state: dict[str, Any]) -> None:
    """Keep the state of a table for the next run.

    A failure is logged, since it must not hide other tables.
    """
    try:
        context["asset_state_store"][asset_of(table)].set(STATE_KEY, state)
    except AirflowRuntimeError as error:
        if (error.error.detail or {}).get("status_code") == 404:
            # tables.yaml is newer than what Airflow knows of it.
            logging.getLogger(__name__).warning("Airflow does not know the asset of %s yet: no verdict is kept", table)
        else:
            logging.getLogger(__name__).exception("The verdict on %s was not kept: the next run begins anew", table)


def _unless_alarmed(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another one, unless the task ended with its alarms."""

    def called(context: Any) -> None:
        if not isinstance(context.get("exception"), HealthAlarm):
            call(context)

    return called


@contextmanager
def _mask_of_tables() -> Iterator[None]:
    """Write files, such as views that processes share, with the mask of applications."""
    mask = files_mask()
    before = os.umask(mask) if mask >= 0 else mask
    try:
        yield
    finally:
        if before >= 0:
            os.umask(before)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
