"""Components of every protocol function.

Settings are values (`config`), components are objects. A protocol touches the world only through its context, so the same
function runs in production and, step by step, under a scheduler that crashes it.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from hudi_ops.clock import Clock, SystemClock, ToldTimes
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.protocol import Engine
from hudi_ops.storage.protocol import Storage


class Ids(Protocol):
    """Source of unique names; seeded in simulations."""

    def new_id(self) -> str:
        """Return a UUID as text."""
        ...


class RandomIds:
    """Random UUIDs."""

    def new_id(self) -> str:
        """Return a random UUID, version 4, as text."""
        return str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class Owner:
    """Identity of a working process; on the same machine it shows whether the process has ended.

    `started` is the process's start in clock ticks since boot: a process id alone is used again after a while.
    """

    host: str
    pid: int
    started: str
    run: str = ""

    @classmethod
    def of_this_process(cls) -> Owner:
        """Return the owner of this process; `run` names the Airflow run that started it, if any."""
        run = "/".join(
            value for key in ("AIRFLOW_CTX_DAG_ID", "AIRFLOW_CTX_TASK_ID", "AIRFLOW_CTX_DAG_RUN_ID")
            if (value := os.environ.get(key))
        )  # fmt: skip
        return cls(_machine(), os.getpid(), _process_start(os.getpid()), run)

    @classmethod
    def of_process_above(cls, command: str) -> Owner | None:
        """Return the nearest process above this one whose command has the name; None: there is none."""
        pid = os.getpid()
        while pid > 1:
            stat = stat_of(pid)
            if stat is None:
                return None
            name, fields = stat
            if name == command:
                return cls(_machine(), pid, fields[19])
            pid = int(fields[1])
        return None

    def can_be_judged(self) -> bool:
        """Return whether the process was started on this machine, since its last boot.

        Only then can `is_gone` distinguish a living process from an ended one.
        """
        return bool(self.started) and self.host == _machine()

    def is_gone(self) -> bool:
        """Return whether the process was started on this machine and boot, and has certainly ended."""
        if not self.can_be_judged():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False  # another user's process: /proc may hide its start
        return _process_start(self.pid) != self.started

    def is_this_process(self) -> bool:
        """Return whether this is the calling process; Airflow runs are not compared."""
        return (self.host, self.pid, self.started) == (_machine(), os.getpid(), _process_start(os.getpid()))

    def __str__(self) -> str:
        return f"{self.host.partition('#')[0]}:{self.pid}" + (f" ({self.run})" if self.run else "")


class Beats(Protocol):
    """Periodic calls while work runs; in simulations the scheduler makes them."""

    def every(self, interval_s: float, beat: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `beat` each `interval_s` seconds until the context ends."""
        ...


@dataclass(frozen=True)
class TableContext:
    """Components for one table.

    `locks` is typed as an object here because lock providers live a layer above; `concurrency` narrows it. By default, a
    second process makes the `beats` (`concurrency.lease.lease`). `told` holds the times that other machines reported.
    `follows_future`: new instants may follow one that lies in the future. `vain_waits` holds the writes for which the process
    waited in vain (`concurrency.vain_waits`), by URI and instant.
    """

    storage: Storage
    locks: object
    clock: Clock = field(default_factory=SystemClock)
    engine: Engine = field(default_factory=LocalEngine)
    ids: Ids = field(default_factory=RandomIds)
    owner: Owner = field(default_factory=Owner.of_this_process)
    beats: Beats | None = None
    lock_timeout_s: float = 60.0
    told: ToldTimes = field(default_factory=ToldTimes)
    follows_future: bool = False
    vain_waits: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def local_engine(self) -> LocalEngine:
        """Engine of this process, for work that waits for storage: executors would not help."""
        return self.engine if isinstance(self.engine, LocalEngine) else LocalEngine()


def _machine() -> str:
    # The boot id distinguishes containers with one host name, and one machine before and after a restart.
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    try:
        # Process ids of two containers on one machine do not compare: their pid namespaces differ.
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return f"{socket.gethostname()}#{boot}#{namespace}"


def _process_start(pid: int) -> str:
    stat = stat_of(pid)
    return "" if stat is None or stat[1][0] == "Z" else stat[1][19]


def stat_of(pid: int) -> tuple[str, list[str]] | None:
    """Return the command of a process, and the fields after it.

    They are: state first, parent second, start time 20th.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The command name in parentheses may hold anything; the fields after it are fixed.
    before, _, after = text.rpartition(")")
    return before.partition("(")[2], after.split()
