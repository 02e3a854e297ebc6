"""Signals whose effect a test waits for."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

DEADLINE_S = 60.0


def freeze(pid: int) -> None:
    """Stop a process with SIGSTOP, and wait until each of its threads stands still.

    `kill` returns at once. The other threads of a process, those of Java for instance, run on until they notice, and
    may answer one more request.
    """
    os.kill(pid, signal.SIGSTOP)
    deadline_s = time.monotonic() + DEADLINE_S
    while not _stands_still(pid):
        assert time.monotonic() < deadline_s, f"process {pid} runs {DEADLINE_S} s after SIGSTOP"
        time.sleep(0.001)


def thaw(pid: int) -> None:
    """Let a frozen process go on."""
    os.kill(pid, signal.SIGCONT)


def _stands_still(pid: int) -> bool:
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            state = stat.read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread ended
        if state not in "TtZX":
            return False
    return True
