"""Run applications of `spark_apps/` as Airflow tasks; ask one to stop before killing it.

Airflow gives a task about five seconds between SIGTERM and SIGKILL, and sends both to the task's whole process group.
So the application runs in a session of its own, where the first signal does not reach it, and is asked through a file.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
    AirflowTaskTimeout,
)
from hudi_ops.plugins.hudi_ops_assets import TABLES, asset_of, emit_events
from hudi_ops.plugins.hudi_ops_links import TableLink
from hudi_ops.plugins.hudi_ops_report import LineLevels, parse_result, sentence
from hudi_ops.plugins.hudi_ops_stop import answer_file, answer_to, begin_cancel, drain_until_exit

from hudi_ops.config.doors import REQUESTER, request_of_arguments
from hudi_ops.errors import HudiOpsError, InvalidRequest
from hudi_ops.redaction import redacted

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Context
    from pydantic import BaseModel

FAIL_EXIT_CODES = frozenset({2, 3, 20, 70})
"""Invalid request, unsupported, corrupt, internal: a retry would fail in the same way. See `hudi_ops.errors`."""

CANCELLED_EXIT_CODE = 12

STOP_GRACE_S = 3.5
"""How long a stop may take; with the kill that follows it must stay under Airflow's five seconds."""

CANCEL_GRACE_S = 1.5
"""How long the application may take to answer before the operator cancels its plan."""

_CANCEL_END_S = 4.4

_SPARK_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
}


class HudiOpsSubmitOperator(SparkSubmitOperator):
    """Submit an application of `spark_apps/`; its last line of output becomes the task's result.

    The log has the result as a sentence, then as JSON. ERROR and WARNING lines of the application keep their level.

    How it ends follows from the application's exit code: 2, 3, 20 and 70 fail the task for good, 12 (cancelled) skips
    it, everything else (conflict, busy, unavailable, outcome unknown, a crash) fails it so that Airflow tries again.

    Args:
        application: path of the application.
        application_args: its arguments; `--stop-file` is added.
        table: the table of `tables.yaml` that it works on, a template. Each instant that it completes there is an event of the
            asset `hudi://<table>`; empty: there are no events.
        request: request of the application: wrong arguments fail the task before anything is submitted.
        refused: a sentence that says why there is nothing to submit; the task fails with it. Empty: there is.
        conf: Spark settings, on top of this class's own (no UI, warnings only, UTC).
        only_if: a template; where it comes out empty the task is skipped, and nothing is submitted. None: always submitted.
        stop_grace_s: how long a stop may take before the process group is killed; below 5 s.
        on_stop: what becomes of the plan that the application executes when Airflow kills the task: `leave` it to the next
            execution, or `cancel` it, if it is cancellable. The application then takes `--on-stop`, as those do that `serve` runs.
        kwargs: as for `SparkSubmitOperator`.
    """

    ui_color = "#d9ead3"
    template_fields = (*SparkSubmitOperator.template_fields, "only_if", "table")
    operator_extra_links = (*SparkSubmitOperator.operator_extra_links, TableLink())

    def __init__(
        self,
        *,
        table: str = "",
        request: type[BaseModel] | None = None,
        refused: str = "",
        conf: dict[str, Any] | None = None,
        only_if: str | None = None,
        stop_grace_s: float = STOP_GRACE_S,
        on_stop: str = "leave",
        **kwargs: Any,
    ) -> None:
        if table:
            kwargs["outlets"] = [*(kwargs.get("outlets") or []), TABLES]
            # A template names its table only when the task runs.
            kwargs["inlets"] = kwargs.get("inlets") or ([] if "{{" in table else [asset_of(table)])
        super().__init__(conf={**_SPARK_DEFAULTS, **(conf or {})}, **kwargs)
        if not 0 < stop_grace_s < 5:
            raise ValueError(f"stop_grace_s must lie between 0 and 5, found {stop_grace_s}: Airflow kills after 5 s")
        if on_stop not in {"leave", "cancel"}:
            raise ValueError(f"on_stop must be leave or cancel, found {on_stop!r}")
        self.table = table
        self.on_stop = on_stop
        self.request = request
        self.refused = refused
        self.only_if = only_if
        self.stop_grace_s = stop_grace_s
        self._stop_file: Path | None = None
        self._result: dict[str, Any] | None = None

    # The provider declares that it returns nothing; what an operator returns is the XCom of its task.
    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Run the application to its end.

        Args:
            context: Airflow's.

        Returns:
            The JSON object on the application's last line.

        Raises:
            AirflowFailException: it failed, and trying again would not help.
            AirflowSkipException: it was cancelled, or there is nothing to do.
            AirflowException: it failed, and may be tried again.
            AirflowTaskTimeout: passed on, once the application has ended.
            KeyboardInterrupt: passed on, once the application has ended.
            SystemExit: passed on, once the application has ended.
        """
        if self.refused:
            raise AirflowFailException(self.refused)
        if self.only_if is not None and not self.only_if.strip():
            raise AirflowSkipException("nothing to do: the task before it said so, or the run is a dry run")
        self._check_arguments()
        control = Path(tempfile.mkdtemp(prefix="hudi-ops-"))
        try:
            self._stop_file = control / "stop"
            self.application_args = [*(self.application_args or []), "--stop-file", str(self._stop_file)]
            if self.on_stop == "cancel":
                self.application_args += ["--on-stop", "cancel"]
            hook = self._hook = self._checked_hook()
            _add_environment(hook, {REQUESTER: requester_of(context)})
            process_log = hook._process_spark_submit_log
            # The hook offers no other place between the lines of the program and the log of the task.
            hook._process_spark_submit_log = lambda itr: process_log(self._keep_result(hook, itr))  # type: ignore[method-assign]
            try:
                hook.submit(self.application, start_new_session=True, umask=files_mask())
            except AirflowException as error:
                self._raise_failure(hook, error)
            except (KeyboardInterrupt, SystemExit, AirflowTaskTimeout):
                # Ctrl-C in a terminal does not reach a session of its own, and Airflow calls on_kill for signals only. After a
                # timeout it calls it too late: the stop file's folder is gone by then.
                self.on_kill()
                raise
            if self._result is None:
                raise AirflowException(
                    f"{self.application} ended well, but without its JSON line: is it one of spark_apps?"
                )
            self.log.info("%s", sentence(self._result))
            self.log.info("%s", json.dumps(self._result))
            if self.table:
                for event in emit_events(context, self.table, self._result):
                    self.log.info("Event of asset hudi://%s: %s", self.table, json.dumps(event))
            return self._result
        finally:
            shutil.rmtree(control, ignore_errors=True)

    def on_kill(self) -> None:
        """Ask the application to stop, wait a little, then kill its processes."""
        started_s = time.monotonic()
        asked = self._ask_to_stop()
        process: Popen[str] | None = getattr(self._hook, "_submit_sp", None)
        if process is None or process.returncode is not None:
            return
        self.log.info("Asked %s to stop, waiting up to %.1f s", self.application, self.stop_grace_s)
        helper = None
        if asked is not None and self.on_stop == "cancel":
            answer = answer_file(asked)
            self._drain(process, started_s + min(CANCEL_GRACE_S, self.stop_grace_s), answer.exists)
            helper = None if answer.exists() else self._begin_cancel(asked)
        if self._drain(process, started_s + self.stop_grace_s):
            self.log.info("It stopped by itself")
        else:
            self.log.warning("It did not stop in time; killing its process group")
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                self.log.info("It was gone by then")
        if asked is not None and self.on_stop == "cancel":
            self._log_answer(asked, helper, started_s + _CANCEL_END_S)

    def _ask_to_stop(self) -> Path | None:
        """Put the stop file in one step, and return it; None: no application runs."""
        if self._stop_file is None or not self._stop_file.parent.is_dir():
            return None
        begun = self._stop_file.with_name("asked.part")
        begun.write_text(self.on_stop)
        return begun.replace(self._stop_file)

    def _drain(self, process: Popen[str], deadline: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Wait for the application and keep its result; return whether it has ended."""
        has_ended, output = drain_until_exit(process, deadline, until)
        for line in output.decode(errors="replace").splitlines():
            self._result = parse_result(line) or self._result
        return has_ended

    def _begin_cancel(self, asked: Path) -> Popen[str] | None:
        """Cancel the plan in the application's place."""
        self.log.warning("No answer from it; cancelling the plan that it executes")
        try:
            return begin_cancel([str(one) for one in self.application_args or ()], asked, files_mask())
        except (OSError, HudiOpsError) as error:
            # The application must be killed all the same.
            self.log.error("The plan was not cancelled: %s", error)  # noqa: TRY400 - a sentence, not a traceback
            return None

    def _log_answer(self, asked: Path, helper: Popen[str] | None, deadline: float) -> None:
        """Log which plans are cancelled, and which stay; without an answer nothing."""
        if helper is None and not answer_file(asked).exists():
            return
        found = answer_to(asked, helper, deadline)
        for instant in found.get("cancelled", ()):
            self.log.info("Plan %s is cancelled", instant)
        for instant, why in found.get("kept", {}).items():
            self.log.warning("Plan %s stays: %s", instant, why)
        if "message" in found:
            self.log.error("The plan was not cancelled: %s", redacted(found["message"]))
        elif not found.get("cancelled") and not found.get("kept"):
            self.log.info("It executed no plan that could be cancelled")

    def _check_arguments(self) -> None:
        """Check the arguments as the application would, before Spark is started.

        Raises:
            AirflowFailException: it would refuse them.
        """
        if self.request is None:
            return
        try:
            request_of_arguments(self.request, [str(one) for one in self.application_args or ()])
        except InvalidRequest as error:
            raise AirflowFailException(str(error)) from None

    def _checked_hook(self) -> SparkSubmitHook:
        """Return the hook of a connection that runs applications on this machine.

        Raises:
            AirflowFailException: the connection does not exist, or names another deploy mode.
        """
        hook = self._get_hook()
        # The hook takes a connection that does not exist for `yarn`, and says so at INFO only.
        try:
            connection = hook.get_connection(self._conn_id)
        except AirflowNotFoundException as error:
            raise AirflowFailException(
                f"the Spark connection {self._conn_id!r} does not exist. Next: define it, for example "
                f'AIRFLOW_CONN_{self._conn_id.upper()}=\'{{"conn_type": "spark", "host": "local[*]"}}\''
            ) from error
        if (self._deploy_mode or connection.extra_dejson.get("deploy-mode")) == "cluster":
            raise AirflowFailException(
                f"connection {self._conn_id!r}: deploy mode cluster is not supported, use client"
            )
        # The driver must be this interpreter, where hudi_ops is installed; on one machine the executors must, too.
        _add_environment(hook, {"PYSPARK_DRIVER_PYTHON": sys.executable})
        if str(connection.host or "").startswith("local"):
            _add_environment(hook, {"PYSPARK_PYTHON": sys.executable})
        return hook

    def _keep_result(self, hook: SparkSubmitHook, lines: Iterable[str]) -> Iterator[str]:
        """Keep the result, log errors and warnings at their level, and pass on the other lines."""
        levels = LineLevels()
        for line in lines:
            result = parse_result(line)
            self._result = result or self._result
            if result is not None:
                continue  # logged at the end, behind its sentence
            level = levels.level_of(line)
            if level > logging.INFO:
                self.log.log(level, "%s", redacted(line.rstrip()))
                hook._last_submit_log_lines.append(line.rstrip())  # the end of the log stands in the error of a crash
            else:
                yield line

    def _raise_failure(self, hook: SparkSubmitHook, error: AirflowException) -> None:
        exit_code = hook._submit_sp.returncode if hook._submit_sp else None
        message = str(error)  # no word from the application: a crash, a kill, or spark-submit itself failed
        if self._result is not None and not self._result.get("ok"):
            message = f"{self._result.get('error')} (exit code {exit_code}): {self._result.get('message')}"
            self.log.info("%s", json.dumps(self._result))
        if exit_code == CANCELLED_EXIT_CODE:
            raise AirflowSkipException(message) from None
        if exit_code in FAIL_EXIT_CODES:
            raise AirflowFailException(message) from None
        raise AirflowException(message) from None


class HudiOpsProcessOperator(HudiOpsSubmitOperator):
    """Run an application as a process of this Python: no Spark, no connection, no JVM."""

    def _checked_hook(self) -> SparkSubmitHook:
        hook = self._get_hook()

        def command(application: str) -> list[str]:
            return [sys.executable, application, *map(str, self.application_args or ())]

        hook._build_spark_submit_command = command  # type: ignore[method-assign]
        hook._should_track_driver_status = False  # whatever the connection says
        return hook


def _add_environment(hook: SparkSubmitHook, variables: dict[str, str]) -> None:
    """Add variables to the environment of an application.

    Those of the operator's `env_vars` win.
    """
    hook._env = {**variables, **(hook._env or {})}
    if hook._env_vars:
        # Where there are any, the hook replaces the others by them.
        hook._env_vars = {**variables, **hook._env_vars}


def requester_of(context: Context) -> str:
    """Return the user who triggered a run; empty: a schedule or an event did."""
    return str(getattr(context.get("dag_run"), "triggering_user_name", None) or "")


def files_mask() -> int:
    """Return the mask of files that work on tables writes, or -1: the process's own.

    bin/airflow restricts its own files; files of an application get the mask of the user who started it.
    """
    return int(os.environ.get("HUDI_OPS_UMASK") or "-1", 8)
