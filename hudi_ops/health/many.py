"""Judge the health of many tables; one that does not answer delays no other."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from hudi_ops.clock import Clock, SystemClock
from hudi_ops.commit.session import Session
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.config.definition import OpenOptions
from hudi_ops.config.tables_file import TableLocation, find_tables_file, load_tables, locate_table
from hudi_ops.config.write_settings import FileSizes
from hudi_ops.context import TableContext
from hudi_ops.errors import HudiOpsError, Internal, Unavailable
from hudi_ops.health.health import health, verdict_of
from hudi_ops.health.verdict import HealthVerdict, said_time
from hudi_ops.read.current_view import storage_at
from hudi_ops.redaction import redacted
from hudi_ops.services.create.adoption import Adoption, AdoptionOptions

AT_ONCE, AT_MOST = 8, 128
"""Tables that are judged at the same time, and with those that have not answered for `PATIENCE_S`."""

PATIENCE_S = 5.0
"""Seconds after which a table that has not answered leaves its place to another."""

LIMIT_S = 120.0
"""Seconds after which a table counts as unreachable."""


Then: TypeAlias = Callable[[str, TableLocation, HealthVerdict], None]


def health_of_tables(
    names: Sequence[str],
    tables: str | None = None,
    previous: Mapping[str, HealthVerdict | Mapping[str, Any]] | None = None,
    *,
    limit_s: float = LIMIT_S,
    now_ms: int | None = None,
) -> list[HealthVerdict]:
    """Return the verdicts on tables, in their order.

    A table that cannot be judged has a verdict with the error.

    Args:
        names: names of `tables.yaml`, folders or URIs.
        tables: the tables file; None: the one in force.
        previous: last verdicts, by name.
        limit_s: seconds after which a table counts as unreachable.
        now_ms: time of the verdicts, in ms since 1970; None: now.

    Raises:
        InvalidRequest: the tables file cannot be read.
    """
    # Read once: a file with many tables takes a tenth of a second.
    file = find_tables_file(tables)
    declared = load_tables(file) if file is not None else None
    found = {
        verdict.table: verdict
        for verdict in judged(
            {name: lambda name=name: locate_table(name, declared) for name in names},  # type: ignore[misc]
            previous,
            limit_s=limit_s,
            now_ms=now_ms,
        )
    }
    return [found[name] for name in dict.fromkeys(names)]


def judged(
    wanted: Mapping[str, Callable[[], TableLocation]],
    previous: Mapping[str, HealthVerdict | Mapping[str, Any]] | None = None,
    *,
    limit_s: float = LIMIT_S,
    now_ms: int | None = None,
    clock: Clock | None = None,
    then: Then = lambda name, location, verdict: None,
) -> Iterator[HealthVerdict]:
    """Yield the verdicts on tables as they come; arguments as in `health_of_tables`.

    Args:
        wanted: for each name the function that locates the table.
        previous: last verdicts, by name.
        limit_s: seconds after which a table counts as unreachable.
        now_ms: time of the verdicts, in ms since 1970; None: now.
        clock: of this process.
        then: reads more of a table that could be judged, in the thread of the table. If it hangs, the verdict is yielded after
            `limit_s`. It must not raise.
    """
    clock = clock or SystemClock()
    waiting, begun = list(reversed(list(wanted.items()))), dict[str, float]()
    done: queue.SimpleQueue[HealthVerdict] = queue.SimpleQueue()
    before, made = _Before(previous or {}), dict[str, HealthVerdict]()
    limit_s = min(limit_s, threading.TIMEOUT_MAX)

    def begin(name: str, locate: Callable[[], TableLocation]) -> None:
        def work() -> None:
            located, verdict = _judged(name, locate, before, clock, now_ms)
            made[name] = verdict
            if located is not None and verdict.error is None:
                then(name, located, verdict)
            done.put(verdict)

        begun[name] = clock.monotonic_s()
        # Not a pool: its threads would keep the process alive while a table does not answer.
        thread = threading.Thread(target=work, name=f"health of {name}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            work()  # the machine has no more threads

    def slow() -> int:
        now_s = clock.monotonic_s()
        return sum(now_s - since_s >= PATIENCE_S for since_s in begun.values())

    while waiting or begun:
        while waiting and len(begun) < min(AT_ONCE + slow(), AT_MOST):
            begin(*waiting.pop())
        try:
            until_s = min(begun.values()) + limit_s - clock.monotonic_s()
            verdict = done.get(timeout=max(0.0, min(until_s, PATIENCE_S) if waiting else until_s))
        except queue.Empty:
            now_s = clock.monotonic_s()
            for name in [name for name, since_s in begun.items() if now_s - since_s >= limit_s]:
                del begun[name]
                if name in made:  # what reads more of it has no end
                    yield made[name]
                    continue
                error = Unavailable(
                    f"the table did not answer within {limit_s:g} s",
                    table=name,
                    expected="answers of its storage",
                    next_step="look at its storage and network, then run the same call again",
                )
                yield _failed(name, error, before.of(name), clock, now_ms)
            continue
        if begun.pop(verdict.table, None) is not None:  # else it came too late
            yield verdict


class _Before:
    """Previous verdicts, by the name of the table, or by its URI if it has another name now."""

    def __init__(self, given: Mapping[str, HealthVerdict | Mapping[str, Any]]) -> None:
        found = {name: one for name, each in given.items() if (one := verdict_of(each)) is not None}
        self._by_name, self._by_uri = found, {one.path: one for one in found.values() if one.path}

    def of(self, name: str, uri: str = "") -> HealthVerdict | None:
        """Return the verdict on a table; None: there is none."""
        named = self._by_name.get(name)
        return self._by_uri.get(uri, named) if named is None or named.path != uri else named


def _judged(
    name: str, locate: Callable[[], TableLocation], before: _Before, clock: Clock, now_ms: int | None
) -> tuple[TableLocation | None, HealthVerdict]:
    """Return where a table is, unless that is the fault, and the verdict on it."""
    location = None
    try:
        location = locate()
        session = session_at(location)
        previous = before.of(name, session.ctx.storage.uri)
        return location, health(session, location.targets, previous, name=name, now_ms=now_ms)
    except HudiOpsError as error:
        return location, _failed(name, error.at(table=name), before.of(name), clock, now_ms)
    except BaseException as error:  # noqa: BLE001
        # A fault on one table must not hide the others.
        fault = Internal(f"unexpected {type(error).__name__}: {redacted(str(error))}", table=name)
        return location, _failed(name, fault, before.of(name), clock, now_ms)


def session_at(location: TableLocation) -> Session:
    """Return a session that reads the table at a location, with the settings of `tables.yaml`.

    Raises:
        InvalidRequest: the path cannot be opened.
    """
    options = OpenOptions(**location.options())
    ctx = TableContext(storage=storage_at(location), locks=None)
    return Session(
        ctx,
        Adoption(ctx, AdoptionOptions.of(options)),
        options.conflicts or ConflictSettings(),
        options.log_format,
        options.file_sizes or FileSizes(),
        options.metadata_compact_after,
        options.upkeep,
    )


def _failed(
    name: str, error: HudiOpsError, before: HealthVerdict | None, clock: Clock, now_ms: int | None
) -> HealthVerdict:
    """Return the verdict on a table that cannot be judged.

    It keeps the time of the first such verdict, and what the last one knew.
    """
    at = said_time(clock.now_ms() if now_ms is None else now_ms)
    since = before.since if before is not None and before.error is not None else None
    return HealthVerdict(
        table=name,
        path=before.path if before is not None else "",
        at=at,
        status="unknown",
        exit_code=error.exit_code,
        since=since or at,
        error=error.as_dict(),
        # After a fault of this program the facts may be what is wrong.
        seen=before.seen if before is not None and not isinstance(error, Internal) else None,
    )
