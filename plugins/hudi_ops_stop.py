"""Wait for an application that was asked to stop; cancel its plan if it does not answer.

Files beside the stop file `stop`: `stop.owner`, the executing process; `stop.answer`, what the application cancelled.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen, TimeoutExpired
from typing import Any

from hudi_ops.config.places import folder

_OUTPUT_KEPT_BYTES = 65536


def answer_file(asked: Path) -> Path:
    """Return the file in which an application answers a stop that asks for a cancel."""
    return asked.with_name(f"{asked.name}.answer")


def begin_cancel(arguments: Sequence[str], asked: Path, umask: int) -> Popen[str]:
    """Start a process that cancels the plan of an application; it outlives the task.

    Args:
        arguments: of the application.
        asked: its stop file.
        umask: mask of files that the process makes, or -1.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("--table", "--tables", "--instant", "--mode", "--accept-future-instants"):
        parser.add_argument(name, default="")
    found = {name.replace("_", "-"): value for name, value in vars(parser.parse_known_args(list(arguments))[0]).items()}
    owner = asked.with_name(f"{asked.name}.owner")
    found["owner"] = owner.read_text() if owner.exists() else ""
    given = [f"--{name}={value}" for name, value in found.items() if value]
    return Popen(
        [sys.executable, str(folder("spark_apps") / "_stop.py"), *given],
        stdout=PIPE,
        stderr=STDOUT,
        text=True,
        start_new_session=True,
        umask=umask,
    )


def answer_to(asked: Path, helper: Popen[str] | None, deadline: float) -> dict[str, Any]:
    """Return what was cancelled, by the application or by the process in its place.

    Args:
        asked: the stop file.
        helper: of `begin_cancel`; None: there is none.
        deadline: end of the wait for the answer of the helper, on the monotonic clock.
    """
    answer = answer_file(asked)
    text = answer.read_text() if answer.exists() else "{}"
    if helper is not None:
        try:
            said, _ = helper.communicate(timeout=max(0.1, deadline - time.monotonic()))
        except TimeoutExpired:
            return {"message": f"process {helper.pid} still works on it; see `hudi-ops plans TABLE`"}
        text = said.strip().rpartition("\n")[2]
    try:
        return dict(json.loads(text))
    except ValueError:
        return {"message": text}


def drain_until_exit(
    process: Popen[str], deadline: float, until: Callable[[], bool] = lambda: False
) -> tuple[bool, bytes]:
    """Wait for a process while reading its output; return whether it ended, and the last output.

    This runs inside a signal handler that interrupted the reader: without it the pipe stays unread, and a full one would
    keep the process from stopping. The raw descriptor is read, since the reader's buffer cannot be entered twice, and
    the process is looked at without reaping it, since the interrupted code may be about to.

    Args:
        process: to wait for.
        deadline: on the monotonic clock.
        until: a further condition that ends the wait.
    """
    said = b""
    with selectors.DefaultSelector() as selector:
        if process.stdout is not None:
            selector.register(process.stdout.fileno(), selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0 and not until():
            for key, _ in selector.select(min(left, 0.1)):
                chunk = os.read(key.fd, 65536)
                said = (said + chunk)[-_OUTPUT_KEPT_BYTES:]
                if not chunk:
                    selector.unregister(key.fd)
            # The end of the output comes first, as a rule; a grandchild may keep it open.
            if not selector.get_map() and _has_ended(process):
                return True, said
        return _has_ended(process), said


def _has_ended(process: Popen[str]) -> bool:
    if process.returncode is not None:
        return True
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
