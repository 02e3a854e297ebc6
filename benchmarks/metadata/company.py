"""Processes that work on one table at once, with the lock of a ZooKeeper, as the comparison tells them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from benchmarks.concurrency.compare import Talker
from hudi_ops.concurrency.lock.embedded_zookeeper import EmbeddedZooKeeper


class Company:
    """Named processes of `worker.py`, which stay alive between runs, and a ZooKeeper.

    Args:
        work: folder of the server's data and of the logs.
        names: of the processes.
    """

    def __init__(self, work: Path, names: Sequence[str]) -> None:
        self._work = work
        self._names = names
        self._stack = ExitStack()
        self._talkers: dict[str, Talker] = {}
        self._opened: list[str] = []
        self._hosts = ""

    def __enter__(self) -> Self:
        self._hosts = self._stack.enter_context(EmbeddedZooKeeper(self._work / "zookeeper")).hosts
        command = [sys.executable, "-m", "benchmarks.metadata.worker"]
        for name in self._names:
            self._talkers[name] = self._stack.enter_context(Talker(command, self._work / f"{name}.log"))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def open(self, name: str, table: Path, key: str, cpus: list[int] | None = None) -> None:
        """Let a process open a table; `key` names the lock, which no other run has, `cpus` where the process may run."""
        self.ask(name, "open", table=str(table), hosts=self._hosts, key=key, name=name, cpus=cpus)
        self._opened.append(name)

    def close(self) -> None:
        """Let all processes close their tables."""
        for name in self._opened:
            self.ask(name, "close")
        self._opened.clear()

    def ask(self, talker: str, command: str, **fields: Any) -> dict[str, Any]:
        """One command and its answer."""
        self.tell(talker, command, **fields)
        return self.hear(talker)

    def tell(self, talker: str, command: str, **fields: Any) -> None:
        """One command, whose answer is heard later."""
        self._talkers[talker].tell(json.dumps({"command": command, **fields}))

    def go(self, name: str) -> None:
        """Let a process go on that waits."""
        self._talkers[name].tell("")

    def hear(self, name: str) -> dict[str, Any]:
        """The next answer."""
        answer: dict[str, Any] = json.loads(self._talkers[name].hear())
        return answer
