"""Share what all Spark applications need: arguments, stop request, last line, exit code.

The last line on stdout is one JSON object, always, and the exit code follows from the error's class, so the program that
started the application does not need its log.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from _stop import EXECUTING_MODES, StoppableLocks, StopRequest, cancel_plan
from pydantic import BaseModel

from hudi_ops import Table
from hudi_ops.concurrency.lock.open_lock import lock_of
from hudi_ops.config.doors import REQUESTER, add_arguments, request_of
from hudi_ops.config.tables_file import TableLocation, find_tables_file, locate_table
from hudi_ops.context import Owner
from hudi_ops.engine.progress import Progress, ProgressLines
from hudi_ops.engine.protocol import Engine, I, Produced, R, Scattered
from hudi_ops.engine.stopping import StopSignal
from hudi_ops.errors import Busy, Cancelled, Conflict, Corrupt, HudiOpsError, Internal, InvalidRequest
from hudi_ops.read.current_view import storage_at
from hudi_ops.redaction import RedactingFormatter
from hudi_ops.registry.best_effort import begin_run
from hudi_ops.services.cancel.abort import CancelResult
from hudi_ops.table.plans import ASKED
from hudi_ops.table.services import ServiceApi
from hudi_ops.verify import Report, verify_table

logger = logging.getLogger("hudi_ops.app")

FINDINGS_MAX = 20
"""Findings of a damaged table that the last line has; the log has all."""

_LEVELS = {"error": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO}


class SubmittedSpark:
    """Engine over the Spark session that `spark-submit` configured; starts it at the first step.

    A session costs seconds, and an ingest that turns out small never asks for it. Each step looks at the stop request.
    """

    name = "spark"

    def __init__(self, app_name: str, stop: StopRequest) -> None:
        self._app_name = app_name
        self._stop = stop
        self._started: Engine | None = None

    def map(self, task: Callable[[I], R], inputs: Sequence[I], *, stop: StopSignal | None = None) -> list[R]:
        """Results in the order of the inputs."""
        return self._engine("the next step").map(task, inputs, stop=stop)

    def scatter(
        self, produce: Callable[[I], Iterable[Produced]], inputs: Iterable[I]
    ) -> AbstractContextManager[Scattered]:
        """Run the first step, and keep its chunks until the context ends."""
        return self._engine("the source was read").scatter(produce, inputs)

    def _engine(self, step: str) -> Engine:
        self._stop.check(step)
        if self._started is None:
            from hudi_ops.engine.spark import SparkEngine  # pyspark takes a second to import

            self._started = SparkEngine.of_new_session(self._app_name)
        return self._started


class ArgumentParser(argparse.ArgumentParser):
    """Parser that reports a wrong call as any other error: with a JSON line."""

    def error(self, message: str) -> NoReturn:
        """Report a wrong call.

        Args:
            message: argparse's own words.

        Raises:
            InvalidRequest: always.
        """
        raise InvalidRequest(f"{self.prog}: {message}", next_step=f"{self.prog} --help")


@dataclass
class Job:
    """Job of an application: its request, and the table, whose lock and engine check for a stop."""

    app: str
    request: Any
    options: argparse.Namespace
    location: TableLocation
    stop: StopRequest
    spark: bool = True
    _logged: str = ""

    @cached_property
    def table(self) -> Table:
        """The table, opened by the first use."""
        self.stop.check("the table was opened")
        return Table.at(
            self.location,
            locks=StoppableLocks(lock_of(self.location), self.stop),
            engine=SubmittedSpark(f"hudi-ops {self.app} {self.location.name}", self.stop) if self.spark else None,
            accept_future=self.options.accept_future_instants == "true",
        )

    def cancelled(self) -> CancelResult:
        """Cancel the plan of the request, and remove it.

        Raises:
            Busy: it is cancelled, and its executor has not ended yet.
        """
        request = self.request
        done = self.table.cancel(
            request.instant,
            request.reason or ASKED,
            requester=_requester(),
            force=request.force,
            wait_s=request.wait_s,
        )
        if done.state != "aborted":
            raise Busy(
                f"the {done.action} is cancelled, and not removed yet: {done.note}",
                table=done.table,
                instant=done.instant,
                expected="an executor that has ended",
                found=f"a plan that is {done.state}",
                next_step="run it again; nothing more is to be decided",
            )
        return done

    def cancel_own_plan(self) -> dict[str, Any]:
        """Cancel the plan that this application executes, or was to execute."""
        mode = getattr(self.options, "mode", "")
        instant = self.request.instant if mode in EXECUTING_MODES else None
        accept_future = self.options.accept_future_instants == "true"
        return cancel_plan(self.location, Owner.of_this_process(), instant, accept_future=accept_future)

    @cached_property
    def lines(self) -> ProgressLines:
        """Lines for the log, every ten seconds while the work lasts."""
        return ProgressLines(f"{self.app} {self.location.name}", logger.info)

    def look(self, progress: Progress) -> None:
        """Log the progress when work of a kind begins or ends; raise if a stop was requested."""
        self.lines.tell(progress)
        if progress.what != self._logged or progress.done == progress.total:
            self._logged = progress.what
            of_bytes = f", {progress.bytes_done:,} of {progress.bytes_in:,} bytes" if progress.bytes_in else ""
            said = f"; {progress.note}" if progress.note else ""
            logger.info("%s: %s of %s done%s%s", progress.what, progress.done, progress.total, of_bytes, said)
        self.stop.check("the rest of the work")

    def verified(self) -> Report:
        """Verify the table, without a lock and without changing it.

        Raises:
            Corrupt: the table is damaged; names the first findings.
        """
        self.stop.check("the table was verified")
        request, name = self.request, self.location.name
        storage = storage_at(self.location)
        report = verify_table(
            storage, deep=request.deep, index=request.index, sample=request.sample, progress=self.look
        )
        for finding in report.findings:
            logger.log(_LEVELS[finding.severity], "%s", finding)
        if not report.ok:
            worst = report.errors[0]
            where = f" [{worst.where}]" if worst.where else ""
            raise Corrupt(
                f"table {name} is damaged: {worst.invariant}: {worst.what}{where}",
                expected="no error",
                found=f"{len(report.errors)} among {len(report.findings)} findings",
                next_step=worst.next_step or "read the findings in the log above",
                findings=[one.as_dict() for one in report.findings[:FINDINGS_MAX]],
            )
        return replace(report, table=name)

    def folder(self, given: str | None) -> str:
        """Return the folder to ingest: as given, relative to tables.yaml, or as declared.

        Raises:
            InvalidRequest: neither given nor declared.
        """
        if not given:
            if self.location.declaration is None or self.location.declaration.source is None:
                raise InvalidRequest(
                    f"no source for table {self.location.name}",
                    next_step="give --source, or declare a source in tables.yaml",
                )
            return self.location.declaration.source
        if re.match(r"^[a-z][a-z0-9+.-]*://", given, re.IGNORECASE):
            return given
        file = find_tables_file(self.options.tables)
        return os.path.normpath((file.parent if file else Path.cwd()) / given)


def _requester() -> str:
    """Return the user for whom this process works, with its run of Airflow; empty: unknown."""
    user, run = os.environ.get(REQUESTER, ""), Owner.of_this_process().run
    return f"{user} ({run})" if user and run else user


Work: TypeAlias = Callable[[Job], Any]


def modes_of(service: Callable[[Table], ServiceApi[Any, Any]]) -> dict[str, Work]:
    """Return the modes of an application that plans and executes a service, with what each does."""

    def executed(job: Job, mode: str) -> Any:
        api = service(job.table)
        try:
            return getattr(api, mode)(job.request, progress=job.look)
        except (Cancelled, Conflict) as error:
            return api.lost(error)

    return {
        "run": lambda job: service(job.table).plan(job.request) if job.request.dry_run else executed(job, "run"),
        "plan": lambda job: service(job.table).plan(job.request, resume=True),
        "execute": lambda job: executed(job, "execute"),
    }


def serve_modes(app: str, model: type[BaseModel], modes: Mapping[str, Work]) -> NoReturn:
    """Run an application that does what its argument `--mode` says, and end the process.

    Args:
        app: its name, for the last line.
        model: the request.
        modes: values of `--mode` with what each does, the default first.
    """
    serve(app, model, lambda job: modes[job.options.mode](job), *modes)


def serve(app: str, model: type[BaseModel], work: Callable[[Job], Any], *modes: str, spark: bool = True) -> NoReturn:
    """Run an application whose arguments are the fields of a request, and end the process.

    Args:
        app: its name, for the last line.
        model: the request.
        work: does the job; the result's `as_dict` goes onto the last line.
        modes: values of `--mode`, the default first; none: there is no such argument.
        spark: run large work on Spark; else all of it runs in this process, and no session is ever started.
    """

    def call() -> dict[str, Any]:
        options = _parser(app, model, modes).parse_args()
        stop = StopRequest(options.stop_file, options.on_stop)
        stop.listen()
        job = Job(app, request_of(model, options), options, locate_table(options.table, options.tables), stop, spark)
        stop.cancel_by(job.cancel_own_plan)
        stop.check("the request was read")
        return kept_in_registry(job, lambda: _worked(job, work))

    run(app, call)


def _worked(job: Job, work: Callable[[Job], Any]) -> dict[str, Any]:
    try:
        with job.lines:
            done: dict[str, Any] = work(job).as_dict()
        return done
    finally:
        job.stop.settle()
        if "table" in vars(job):
            job.table.close()


def kept_in_registry(job: Job, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the result of a job's work; keep its begin and its end in the registry.

    A dry run is not kept: it changes nothing.

    Raises:
        BaseException: as the work does, also when the process is interrupted.
    """
    if getattr(job.request, "dry_run", False):
        return work()
    kept = begin_run(
        job.app,
        job.location,
        instant=getattr(job.request, "instant", None) or "",
        requester=os.environ.get(REQUESTER, ""),
        is_planning=getattr(job.options, "mode", "") == "plan",
    )
    try:
        done = work()
    except BaseException as error:
        kept.end({"ok": False, **as_told(error).as_dict()})
        raise
    kept.end({"ok": True, **done})
    return done


def _parser(app: str, model: type[BaseModel], modes: Sequence[str]) -> ArgumentParser:
    parser = ArgumentParser(prog=f"{app}.py", description=model.__doc__)
    parser.add_argument("--table", required=True, help="a name of tables.yaml, or a path")
    if modes:
        parser.add_argument("--mode", default=modes[0], choices=modes)
    add_arguments(parser, model)
    parser.add_argument("--tables", help="the tables.yaml to use")
    parser.add_argument(
        "--accept-future-instants",
        nargs="?",
        const="true",
        default="false",
        choices=["true", "false"],
        help="go on behind an instant that a wrong clock put into the future; new instants lie there, too",
    )
    parser.add_argument("--stop-file", help="end as soon as this file exists; a plan stays, nothing else is left")
    parser.add_argument(
        "--on-stop",
        default="leave",
        choices=["leave", "cancel"],
        help="cancel the plan that is executed when this process gets SIGTERM; the stop file says it for itself",
    )
    return parser


def run(app: str, work: Callable[[], dict[str, Any]]) -> NoReturn:
    """Run an application and end the process.

    Args:
        app: its name, for the last line.
        work: does the job; its result goes onto the last line.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logging.getLogger("hudi_ops.services.base.waves").setLevel(logging.WARNING)  # `Job.look` logs progress
    try:
        line, exit_code = {"app": app, "ok": True, **work()}, 0
    except HudiOpsError as error:
        line, exit_code = _failure(app, error), error.exit_code
    except (Exception, KeyboardInterrupt) as error:
        # The edge of the process: the last line must report every error.
        said = as_told(error)
        if isinstance(said, Internal):
            logger.exception("unexpected %s", type(error).__name__)
        line, exit_code = _failure(app, said), said.exit_code
    # In a Spark application both streams are one, and libraries log while the process ends: nothing may follow the last line.
    logging.disable()
    sys.stderr.flush()
    # A line of its own even if a library or the JVM wrote an unfinished one before.
    sys.stdout.write("\n" + json.dumps(line, default=str) + "\n")
    sys.stdout.flush()
    sys.exit(exit_code)


def as_told(error: BaseException) -> HudiOpsError:
    """Return the error of this library that reports any error."""
    if isinstance(error, HudiOpsError):
        return error
    if isinstance(error, KeyboardInterrupt):
        return Cancelled("interrupted from the keyboard")
    return Internal(f"unexpected {type(error).__name__}: {error}", next_step="report it, with the log above")


def _failure(app: str, error: HudiOpsError) -> dict[str, Any]:
    logger.error("%s", error)
    return {"app": app, "ok": False, **error.as_dict()}
