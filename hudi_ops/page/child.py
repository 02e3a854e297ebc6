"""Run what reads or changes a table in child processes, one at a time for each API worker.

The API server also serves the heartbeats of tasks, so nothing here blocks its event loop: a child is spawned, its answer is passed
on as bytes, and what takes too long is killed with all that it started.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import sysconfig
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hudi_ops.config.places import REGISTRY_VARIABLE
from hudi_ops.redaction import redacted

LIMIT_S = 10.0
"""Seconds after which a child is killed."""

WAIT_S = 30.0
"""Longest time that a request waits for its child."""

WAITING_MAX = 16
"""Most requests that wait, of all tables."""

RETRY_AFTER_S = 3
"""Seconds after which a refused client asks again."""

ANSWER_MAX = 8 << 20
"""Most bytes of an answer."""

LOG_MAX = 16 << 10
"""Most bytes of a child's standard error that are logged."""

KILLED_WAIT_S = 5.0
"""How long the end of a killed child is waited for: one that waits for a disk ends later."""

GONE = 499
"""Status of an answer that is not sent: its client has gone."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Work:
    """What a child does.

    Attributes:
        operation: of `work/`.
        table: its name.
        command: does the same on the command line.
        values: further values of the request.
        decides: it may decide something: it is served before others, and not ended before its time.
    """

    operation: str
    table: str
    command: str
    values: Mapping[str, Any] = field(default_factory=dict)
    decides: bool = False


@dataclass(frozen=True)
class _Place:
    """Place of a request that waits.

    `given` becomes True when the request may have a child, and False when another one takes the place.
    """

    given: asyncio.Future[bool]
    decides: bool

    @property
    def is_given(self) -> bool:
        return self.given.done() and self.given.result()


@dataclass(frozen=True)
class Answered:
    """Answer to a request: the status, the JSON object as bytes, and headers."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def refusal(status: int, error: str, message: str, next_step: str = "", **headers: str) -> Answered:
    """Return the answer of a request that no child answered."""
    said = {"error": error, "message": message, "next_step": next_step}
    return Answered(status, json.dumps(said).encode(), headers)


def environment_of(environ: Mapping[str, str], operation: str) -> dict[str, str]:
    """Return the environment of a child: that of the server without Airflow's secrets.

    The child gets every variable except Airflow's own; an allow-list would miss credentials and certificates. Airflow's hold the
    keys of its tokens, its database and its connections. `AIRFLOW_HOME` is kept: tables.yaml and the registry may be there. Only a
    look gets the registry's URL.
    """
    names = ("AIRFLOW_", "_AIRFLOW_")
    kept = {name: text for name, text in environ.items() if not name.startswith(names) or name == "AIRFLOW_HOME"}
    if operation != "look":
        kept.pop(REGISTRY_VARIABLE, None)
    # A child runs the code of its server, also where that found it by its path alone.
    root = str(Path(__file__).resolve().parents[2])
    if root not in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        kept["PYTHONPATH"] = os.pathsep.join(filter(None, (root, kept.get("PYTHONPATH"))))
    return kept


class Children:
    """Children of one worker: one runs, and one request for each table waits.

    Args:
        program: what is started; default: `work/`.
        limit_s: seconds after which a child is killed.
        wait_s: longest time that a request waits.
        waiting_max: most requests that wait.
    """

    def __init__(
        self,
        program: Sequence[str] = (),
        *,
        limit_s: float = LIMIT_S,
        wait_s: float = WAIT_S,
        waiting_max: int = WAITING_MAX,
    ) -> None:
        self._program = (*program,) or (sys.executable, "-P", "-m", "hudi_ops.page.work")
        self._limit_s = limit_s
        self._wait_s = wait_s
        self._waiting_max = waiting_max
        self._is_busy = False
        self._waiting: dict[str, _Place] = {}
        self._tasks: set[asyncio.Task[Answered]] = set()

    async def answer(self, work: Work, gone: Awaitable[object]) -> Answered:
        """Do the work in a child, and return its answer.

        Args:
            work: to do.
            gone: ends when the client has gone; then nothing waits for it, and the child is killed unless it decides something.
        """
        leaving = asyncio.ensure_future(gone)
        try:
            refused = await self._turn(work, leaving)
            if refused is not None:
                return refused
            # A task of its own: it frees the place of the child, even if nothing waits for its answer.
            task = asyncio.create_task(self._served(work))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            try:
                await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not task.done() and not work.decides:
                    task.cancel()
            return task.result() if task.done() else _gone(work)
        finally:
            leaving.cancel()

    async def _turn(self, work: Work, leaving: asyncio.Future[object]) -> Answered | None:
        """Wait until no other child runs; return the answer of a refused request, or None.

        Work that decides takes the place of a request of its table that waits and does not, and needs no free place.
        """
        if not self._is_busy:
            self._is_busy = True
            return None
        before = self._waiting.get(work.table)
        if before is not None and work.decides and not before.decides:
            self._waiting.pop(work.table).given.set_result(False)
        elif before is not None or (len(self._waiting) >= self._waiting_max and not work.decides):
            return _busy(work)
        place = _Place(asyncio.get_running_loop().create_future(), work.decides)
        self._waiting = {work.table: place, **self._waiting} if work.decides else {**self._waiting, work.table: place}
        is_ours = False
        try:
            ends: set[asyncio.Future[Any]] = {place.given, leaving}
            await asyncio.wait(ends, timeout=self._wait_s, return_when=asyncio.FIRST_COMPLETED)
            is_ours = place.is_given and not leaving.done()
        finally:
            if not is_ours and place.is_given:
                self._free()  # the child was given to a request that is gone
            elif self._waiting.get(work.table) is place:
                del self._waiting[work.table]
        if is_ours:
            return None
        return _gone(work) if leaving.done() else _busy(work)

    def _free(self) -> None:
        """Let the next request have a child."""
        self._is_busy = bool(self._waiting)
        if self._waiting:
            table = next(iter(self._waiting))
            self._waiting.pop(table).given.set_result(True)

    async def _served(self, work: Work) -> Answered:
        try:
            return await self._child(work)
        except OSError as error:
            _LOG.warning("no child process for %s of %s: %s", work.operation, work.table, error)
            return refusal(503, "Unavailable", "the server cannot start a process now", f"`{work.command}`")
        finally:
            self._free()

    async def _child(self, work: Work) -> Answered:
        """Start a child, and return its answer; kill it with its group at the end."""
        process = await asyncio.create_subprocess_exec(
            *self._program,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
            env=environment_of(os.environ, work.operation),
        )
        log, printed = bytearray(), bytearray()
        request = json.dumps({"operation": work.operation, "table": work.table, **work.values}).encode()
        others = [asyncio.create_task(_asked(process, request)), asyncio.create_task(_logged(process, log))]
        try:
            async with asyncio.timeout(self._limit_s):
                await _printed(process, printed)
        except TimeoutError:
            return self._too_slow(work)
        finally:
            await _ended(process, others)
            is_fault = not printed.startswith((b"2", b"4"))
            _tell(logging.WARNING if is_fault else logging.INFO, work, bytes(log))
        if len(printed) > ANSWER_MAX:
            return refusal(500, "TooLarge", "the answer is too large for a page", f"`{work.command}`")
        head, _, body = bytes(printed).partition(b" ")
        if len(head) != 3 or not head.isdigit() or not body.endswith(b"\n"):
            said = "the process ended without an answer; the server's log has what it said"
            return refusal(500, "Internal", said, f"`{work.command}`")
        return Answered(int(head), body.rstrip(b"\n"))

    def _too_slow(self, work: Work) -> Answered:
        said = f"it took longer than {self._limit_s:g} s, and was ended"
        if work.decides:
            said += ". It may have been decided: look at the plan before you repeat it"
        return refusal(503, "TooSlow", said, f"`{work.command}`")


def _busy(work: Work) -> Answered:
    said = f"others were served first: too many requests wait, or another one for {work.table}, or this one waited too long"
    again = f"try again in {RETRY_AFTER_S} s, or `{work.command}`"
    return refusal(429, "Busy", said, again, **{"Retry-After": str(RETRY_AFTER_S)})


def _gone(work: Work) -> Answered:
    return refusal(GONE, "Gone", f"the client of {work.operation} has gone")


async def _printed(process: Process, printed: bytearray) -> None:
    """Read the line that a child prints, or a bit more than is taken.

    The end of the line is the end of the answer. The end of the output may come later: what the child started may hold it open.
    """
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    while not printed.endswith(b"\n") and len(printed) <= ANSWER_MAX and (some := await process.stdout.read(1 << 16)):
        printed += some


async def _logged(process: Process, log: bytearray) -> None:
    """Read what a child logs, so that it never waits for a reader, and keep the first bytes."""
    assert process.stderr is not None  # noqa: S101 - it is a pipe
    while some := await process.stderr.read(1 << 14):
        log += some[: max(0, LOG_MAX - len(log))]


async def _asked(process: Process, request: bytes) -> None:
    """Send a child its request."""
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    with suppress(BrokenPipeError, ConnectionResetError):  # it ended before, and has no answer
        process.stdin.write(request)
        await process.stdin.drain()
        process.stdin.close()


async def _ended(process: Process, readers: Sequence[asyncio.Task[None]]) -> None:
    """Kill a child with all that it started, and wait for its end, so that no zombie is left."""
    _kill_group(process)
    with suppress(TimeoutError):
        async with asyncio.timeout(KILLED_WAIT_S):
            await process.wait()
            await asyncio.wait(readers)
    for reader in readers:
        reader.cancel()


def _kill_group(process: Process) -> None:
    with suppress(ProcessLookupError, PermissionError):  # all have ended
        os.killpg(process.pid, signal.SIGKILL)


def _tell(level: int, work: Work, log: bytes) -> None:
    """Write what a child printed to its standard error to the log."""
    text = redacted(log.decode("utf-8", "replace")).strip()
    if text:
        _LOG.log(level, "%s of %s: %s", work.operation, work.table, text)
