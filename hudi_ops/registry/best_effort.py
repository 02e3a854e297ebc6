"""Write to the registry without ever failing the caller.

Services and the health DAG call these functions. A registry that is missing, full, down, hanging, slow, or of another version costs
each process one warning and at most `LIMIT_S`, and nothing else.

What uses the database is imported when there is a registry: it may not be installed.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from hudi_ops.clock import SystemClock
from hudi_ops.config.places import REGISTRY_FILE, REGISTRY_VARIABLE, home
from hudi_ops.errors import Cancelled, HudiOpsError, Internal
from hudi_ops.redaction import redacted, redacted_values
from hudi_ops.registry.cpu import measured_cpu_s
from hudi_ops.registry.rows import Run, TableKey, TimelineRuns, process_mark

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from hudi_ops.config.tables_file import TableLocation
    from hudi_ops.health.verdict import HealthVerdict

logger = logging.getLogger(__name__)

LIMIT_S = 10.0
"""Seconds that a process waits for the registry at most, over all calls together; of each call `PROMPT_S` do not count."""

PROMPT_S = 0.25
"""Seconds in which a registry answers that is well: a thousand answers in time are no reason to give it up."""

TABLE_S = 5.0
"""Seconds that a table has to tell of the instants of a run that ended."""

DAG_OF_APP = {
    "ingest": "ingestion",
    "compact": "compaction",
    "cluster": "clustering",
    "resize": "resizing",
    "index": "indexing",
    "verify": "verification",
}
"""Services, as their DAGs are called, by the names of their applications; the others have one name."""

T = TypeVar("T")


def is_wanted() -> bool:
    """Return whether there is a registry: the variable names one, or its SQLite file exists."""
    if os.environ.get(REGISTRY_VARIABLE, "").strip():
        return True
    try:
        return (home() / REGISTRY_FILE).exists()
    except (OSError, RuntimeError, ValueError):
        return False  # the user has no home, as in a container with a user of its own


def health_of_tables(
    names: Sequence[str],
    tables: str | None = None,
    previous: Mapping[str, HealthVerdict | Mapping[str, Any]] | None = None,
    *,
    limit_s: float | None = None,
) -> list[HealthVerdict]:
    """Judge tables, and keep verdicts, pictures and runs if there is a registry.

    Without one it is `health.many.health_of_tables`.

    Args:
        names: of tables.yaml, folders or URIs.
        tables: the tables file; None: the one in force.
        previous: last verdicts, by name; of the other tables those of the registry are used.
        limit_s: seconds after which a table counts as unreachable; None: `health.many.LIMIT_S`.

    Raises:
        InvalidRequest: the tables file cannot be read.
    """
    from hudi_ops.health import many

    limit_s = many.LIMIT_S if limit_s is None else limit_s
    if not _tried(lambda engine: True, instead=False):
        return many.health_of_tables(names, tables, previous, limit_s=limit_s)
    from hudi_ops.registry import refresh
    from hudi_ops.registry.recording import record_look

    kept = refresh.Kept(
        lambda asked: _tried(lambda engine: refresh.load_before(engine, asked), instead={}),
        lambda of_table: _tried(lambda engine: refresh.load_look(engine, of_table), instead=refresh.Pictured()),
        lambda found: _tried(lambda engine: record_look(engine, found), instead=None),
    )
    return refresh.look_at(names, tables, kept, previous, limit_s=limit_s)


@dataclass(frozen=True)
class KeptRun:
    """Run of an application that the registry knows; see `begin_run`."""

    location: TableLocation
    run: Run
    is_planning: bool = False

    def end(self, line: Mapping[str, Any], *, cpu_s: float | None = None) -> None:
        """Keep the end of a run; never raise.

        The instant of the service is its run from now on: the table tells of it, and the process adds what it knows. A process that
        completed no instant has a run of its own. Other instants that it made, such as rollbacks, are runs, too.

        Args:
            line: last line of the application: `ok`, the result, or the error.
            cpu_s: processor time of the application, in s; None: it is measured (`cpu.py`).
        """
        ended_ms = SystemClock().now_ms()
        _tried(lambda engine: self._keep_end(engine, line, cpu_s, ended_ms), instead=None)

    def _keep_end(self, engine: Engine, line: Mapping[str, Any], cpu_s: float | None, ended_ms: int) -> None:
        cpu_s = measured_cpu_s() if cpu_s is None else cpu_s
        line = redacted_values(dict(line))
        ended = _ended(replace(self.run, cpu_s=cpu_s, ended_ms=ended_ms), line, is_planning=self.is_planning)
        has_worked = ended.state not in {"planned", "skipped"}
        table_id, found = _from_timeline(self.location, tuple(dict.fromkeys(_instants_of(line))) if has_worked else ())
        own = next((run for run in found.runs if run.service == ended.service and self._made(run, line)), None)
        runs = [run for run in found.runs if run is not own]
        if own is None:
            runs.append(ended)
        else:
            merged = replace(
                own,
                begun_ms=max(own.begun_ms, ended.begun_ms),
                cpu_s=ended.cpu_s,
                note=own.note or ended.note,
                error=ended.error,
                dag_run=own.dag_run or ended.dag_run,
                requester=own.requester or ended.requester,
            )
            runs.append(merged)
        _keep(engine, self.location, runs, ends=self.run.key, table_id=table_id, instants=found.instants)

    def _made(self, run: Run, line: Mapping[str, Any]) -> bool:
        """Return whether this process ended an instant.

        An error may name one that another process completed before.
        """
        return bool(line.get("ok")) or run.ended_ms is None or run.ended_ms >= self.run.begun_ms


def begin_run(
    app: str, location: TableLocation, *, instant: str = "", requester: str = "", is_planning: bool = False
) -> KeptRun:
    """Keep that an application began to work on a table, and return its run; never raise.

    Its run of Airflow is that of the environment, if any.

    Args:
        app: name of the application.
        location: of `locate_table`.
        instant: of the plan that it was asked to execute.
        requester: who asked for it; empty: unknown.
        is_planning: whether it only makes a plan, which another run executes.
    """
    from hudi_ops.context import Owner

    owner = Owner.of_this_process()
    run = Run(
        key=f"process-{process_mark(owner)}-{uuid4().hex[:16]}",
        service=DAG_OF_APP.get(app, app),
        state="running",
        begun_ms=SystemClock().now_ms(),
        instant=instant,
        dag_run=owner.run,
        requester=redacted(requester),
    )
    _tried(lambda engine: _keep(engine, location, [run]), instead=None)
    return KeptRun(location, run, is_planning)


def _keep(
    engine: Engine,
    location: TableLocation,
    runs: Sequence[Run],
    *,
    ends: str = "",
    table_id: str | None = None,
    instants: frozenset[str] = frozenset(),
) -> None:
    from hudi_ops.registry.recording import record_runs
    from hudi_ops.registry.refresh import key_at

    key, _ = key_at(location)
    read = TableKey(key.name, key.location, table_id)
    record_runs(engine, read, runs, ends=ends, is_read=table_id is not None, instants=instants)


def _from_timeline(location: TableLocation, instants: Sequence[str]) -> tuple[str | None, TimelineRuns]:
    """Return the id of the table, and the ends of instants that its timeline tells of.

    There are none if it cannot be read in time.
    """
    if not instants:
        return None, TimelineRuns()
    try:
        from hudi_ops.registry.runs import runs_of_table

        table_id, found = _within(TABLE_S, lambda: runs_of_table(location, instants))
    except Exception as error:  # noqa: BLE001
        # The edge of what a service does: its work is done, and must not fail now.
        logger.info("the table tells nothing of its instants: %s", redacted(str(error)))
        return None, TimelineRuns()
    # A plan that waits for its next executor is no run.
    ended = [run for run in found.runs if run.state in {"succeeded", "cancelled"}]
    return table_id, replace(found, runs=ended)


def _ended(run: Run, line: Mapping[str, Any], *, is_planning: bool) -> Run:
    """Return the run of a process with its end."""
    instant = next(_instants_of(line), run.instant)
    note = str(line.get("note") or "")
    if line.get("ok"):
        from hudi_ops.table.services import NOTHING_COMPLETED

        has_worked = bool(instant) or line.get("instant", "") is not None
        if not has_worked or note.startswith(NOTHING_COMPLETED):
            return replace(run, state="skipped", instant=instant, note=note)
        return replace(run, state="planned" if is_planning else "succeeded", instant=instant, note=note)
    error = {name: line[name] for name in ("error", "exit_code", "message", "next_step") if name in line}
    state = "cancelled" if line.get("exit_code") == Cancelled.exit_code else "failed"
    return replace(run, state=state, instant=instant, note=str(line.get("message", "")).partition("\n")[0], error=error)


def _instants_of(line: Mapping[str, Any]) -> Iterator[str]:
    """Yield the instants that a result names, its own first."""
    named = [line.get("instant")]
    undone = line.get("rolled_back")
    if isinstance(undone, list | tuple):
        named += [one.get("rollback") for one in undone if isinstance(one, Mapping)]
    yield from (one for one in named if isinstance(one, str) and one)


class _Patience:
    """Seconds for which this process still waits for the registry.

    Calls that wait at the same time share the time that passes.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting = 0
        self._waited_s = 0.0

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return max(0.0, LIMIT_S - self._waited_s)

    def begin(self) -> None:
        """Count a call that begins to wait."""
        with self._guard:
            self._waiting += 1

    def end(self, waited_s: float) -> None:
        """Count what a call waited."""
        with self._guard:
            self._waited_s += max(0.0, waited_s - PROMPT_S) / self._waiting
            self._waiting -= 1


_patience = _Patience()

_broken = threading.Event()
"""Set once the registry failed in this process: it is not asked again."""

_has_skipped = threading.Event()
"""Set once the registry refused a single record in this process."""


def _tried(work: Callable[[Engine], T], *, instead: T) -> T:
    """Return what `work` finds in the registry.

    Without a registry, after an error, or once the patience of this process ended, it is `instead`.
    """
    if _broken.is_set() or not is_wanted():
        return instead
    clock = SystemClock()
    begun_s = clock.monotonic_s()
    _patience.begin()
    try:
        return _within(_patience.left_s, lambda: work(_engine()))
    except Internal as error:
        if not _has_skipped.is_set():
            _has_skipped.set()
            logger.warning("not kept in the registry: %s", redacted(" ".join(str(error).split())))
    except Exception as error:  # noqa: BLE001
        # The edge of what a service needs: no error of the registry is one of the service.
        _give_up(error)
    finally:
        _patience.end(clock.monotonic_s() - begun_s)
        if not _patience.left_s:
            _give_up(TimeoutError(f"this process waited {LIMIT_S:g} s for it"))
    return instead


def _within(limit_s: float, call: Callable[[], T]) -> T:
    """Return what a function returns within a time; it raises as the function does.

    Raises:
        TimeoutError: the time is over.
    """
    found: list[T] = []
    failed: list[Exception] = []

    def called() -> None:
        try:
            found.append(call())
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    # A thread, because a database or a storage that hangs in the middle of an answer knows no time-out.
    thread = threading.Thread(target=called, name="registry", daemon=True)
    thread.start()
    thread.join(limit_s)
    if failed:
        raise failed[0]
    if not found:
        raise TimeoutError(f"it did not answer within {limit_s:.3g} s")
    return found[0]


_opened: dict[tuple[int, str], Engine] = {}
"""Registry of this process, whose version is asked for once; a process that was forked opens its own."""


def _engine() -> Engine:
    from hudi_ops.registry.database import opened, registry_url

    url = registry_url()
    of_process = (os.getpid(), url)
    if of_process not in _opened:
        _opened[of_process] = opened(url)
    return _opened[of_process]


def _give_up(error: BaseException) -> None:
    """Warn once, and let this process do without the registry."""
    if _broken.is_set():
        return
    _broken.set()
    if isinstance(error, HudiOpsError):
        said = f"{error.what}: {error.found}. Next: {error.next_step}" if error.next_step else str(error)
    elif isinstance(error, ImportError):
        said = f"{error}. Next: pip install 'hudi-ops[registry]'"
    else:
        said = f"{type(error).__name__}: {error}"
    logger.warning("this process goes on without the registry: %s", redacted(" ".join(said.split())))
