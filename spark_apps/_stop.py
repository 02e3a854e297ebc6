"""Stop an application on request, and cancel its plan where that is asked for.

An operator that hears nothing from an application runs this file: it then cancels the plan in the application's place.

python spark_apps/_stop.py --table flights [--owner JSON] [--instant 20261121101500123]
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hudi_ops import Table
from hudi_ops.clock import ToldTime
from hudi_ops.concurrency.lock.locks import Guarded, Held, LockHolder, LockProvider
from hudi_ops.config.tables_file import TableLocation, locate_table
from hudi_ops.context import Owner
from hudi_ops.errors import Cancelled, HudiOpsError

logger = logging.getLogger("hudi_ops.app")

EXECUTING_MODES = frozenset({"run", "execute"})
"""Modes of an application that executes a plan; a plan that it was told to execute is cancelled with it."""

REASON = "its task was stopped"
LOOK_EVERY_S = 0.1
ANSWER_WITHIN_S = 10.0
"""How long a stop waits for the cancel that it asked for."""


class StopRequest:
    """Request to end this application, by SIGTERM or by creating the stop file.

    It is looked at between steps. A stop that comes in the middle of one step waits for the next look, or for the kill
    that follows; a killed application is a crashed one, which the next run cleans up after.

    Args:
        file: the stop file; it may hold `cancel` or `leave`, which says what becomes of the plan that is executed.
        on_stop: the same, for a SIGTERM and for an empty file.
    """

    def __init__(self, file: str | None = None, on_stop: str = "leave") -> None:
        self._file = Path(file) if file else None
        self._on_stop = on_stop
        self._signalled = False
        self._was_obeyed = False
        self._answered: threading.Event | None = None

    def listen(self) -> None:
        """Treat SIGTERM as a stop request from now on; it no longer ends the process."""
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, signum: int, frame: object) -> None:
        self._signalled = True

    @property
    def was_made(self) -> bool:
        """Return whether the application was asked to stop."""
        return self._signalled or (self._file is not None and self._file.exists())

    def check(self, step: str) -> None:
        """Raise once if the application was asked to stop; the clean-up after the error passes.

        Args:
            step: the next step; named in the error.

        Raises:
            Cancelled: the application was asked to stop.
        """
        if self.was_made and not self._was_obeyed:
            self._was_obeyed = True
            self.settle()
            raise Cancelled(
                f"stopped on request before {step}; nothing was committed",
                next_step="run it again when it is wanted: what was not taken, or planned and not executed, is still waiting",
            )

    def cancel_by(self, cancel: Callable[[], dict[str, Any]]) -> None:
        """Cancel the executed plan as soon as a stop request asks for it.

        A thread of its own does it, so that a long step does not delay the decision. It answers beside the stop file.

        Args:
            cancel: cancels the plan; returns the answer.
        """
        self._answered = threading.Event()
        if self._on_stop == "cancel":
            self._write("owner", asdict(Owner.of_this_process()))
        threading.Thread(target=self._await_stop, args=(cancel, self._answered), daemon=True).start()

    def settle(self) -> None:
        """Wait until the cancel is decided, if a stop asked for one."""
        if self.was_made and self._answered is not None and not self._answered.wait(ANSWER_WITHIN_S):
            logger.warning("the cancel of the plan is not decided after %.0f s", ANSWER_WITHIN_S)

    def _await_stop(self, cancel: Callable[[], dict[str, Any]], answered: threading.Event) -> None:
        while not self.was_made:
            time.sleep(LOOK_EVERY_S)
        try:
            said = self._file.read_text().strip() if self._file is not None and self._file.exists() else ""
            if (said or self._on_stop) == "cancel":
                self._write("answer", cancel())
        except Exception:
            # The edge of the thread. The plan stays, and the operator hears nothing.
            logger.exception("the plan was not cancelled")
        finally:
            answered.set()

    def _write(self, what: str, facts: dict[str, Any]) -> None:
        """Put a file beside the stop file, whole or not at all."""
        if self._file is None or not self._file.parent.is_dir():
            return
        begun = self._file.with_name(f"{self._file.name}.part")
        begun.write_text(json.dumps(facts))
        begun.replace(self._file.with_name(f"{self._file.name}.{what}"))


def cancel_plan(
    location: TableLocation, owner: Owner | None, instant: str | None, *, accept_future: bool = False
) -> dict[str, Any]:
    """Cancel the plan that a process executes, or was to execute; log what was done."""
    table = Table.at(location, accept_future=accept_future)
    try:
        done = table.cancel_executed(owner, REASON, instant=instant)
    finally:
        table.close()
    for cancelled in done.cancelled:
        logger.info("plan %s is cancelled: %s", cancelled, REASON)
    for kept, why in done.kept.items():
        logger.warning("plan %s stays: %s", kept, why)
    return done.as_dict()


class StoppableLocks:
    """Locks that check the stop request first: the lock is the last step before a decision."""

    def __init__(self, locks: LockProvider, stop: StopRequest) -> None:
        self._locks = locks
        self._stop = stop

    def acquire(self, timeout_s: float, purpose: str) -> AbstractContextManager[Held]:
        """Wait for the lock, unless the application was asked to stop."""
        self._stop.check(purpose)
        return self._locks.acquire(timeout_s, purpose)

    @property
    def address(self) -> str:
        """Address of the lock; leases name it as the lock under which this application writes."""
        return self._locks.address

    @property
    def has_foreign_writers(self) -> bool | None:
        """Whether writers of Apache Hudi share the table; None: not known."""
        return self._locks.has_foreign_writers if isinstance(self._locks, Guarded) else None

    @has_foreign_writers.setter
    def has_foreign_writers(self, has_any: bool | None) -> None:
        if isinstance(self._locks, Guarded):
            self._locks.has_foreign_writers = has_any

    @property
    def shares_credentials(self) -> bool:
        """Whether writers of Apache Hudi are declared to use the lock's credentials."""
        return isinstance(self._locks, Guarded) and self._locks.shares_credentials

    def protect(self) -> None:
        """As the lock itself does."""
        if isinstance(self._locks, Guarded):
            self._locks.protect()

    @property
    def told(self) -> ToldTime | None:
        """When the lock was taken last, by the lock service's clock."""
        told: ToldTime | None = getattr(self._locks, "told", None)
        return told

    def holder(self) -> LockHolder | None:
        """Who holds the lock now, or None."""
        return self._locks.holder()

    def close(self) -> None:
        """Close the connection to the lock service, if there is one."""
        close = getattr(self._locks, "close", None)
        if close is not None:
            close()


def main() -> int:
    """Cancel the plan of an application that does not answer; print the answer."""
    parser = argparse.ArgumentParser(description="Cancel the plan that an application executes.")
    parser.add_argument("--table", required=True)
    parser.add_argument("--tables")
    parser.add_argument("--owner", default="", help="the executing process, as JSON; empty: it has not begun")
    parser.add_argument("--instant", default="")
    parser.add_argument("--mode", default="", help="of the application: only some execute a plan")
    parser.add_argument("--accept-future-instants", default="")
    given = parser.parse_args()
    instant = given.instant if given.mode in EXECUTING_MODES else ""
    accept_future = given.accept_future_instants == "true"
    try:
        owner = Owner(**json.loads(given.owner)) if given.owner else None
        location = locate_table(given.table, given.tables)
        line, code = cancel_plan(location, owner, instant or None, accept_future=accept_future), 0
    except HudiOpsError as error:
        line, code = error.as_dict(), error.exit_code
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
    return code


if __name__ == "__main__":
    sys.exit(main())
