"""Spark applications that execute a plan, in processes that a test kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEADLINE_S = 180.0
MASTER = (
    "--master local[2,4] --conf spark.ui.enabled=false --conf spark.driver.host=127.0.0.1 "
    "--conf spark.driver.bindAddress=127.0.0.1 --driver-memory 1g pyspark-shell"
)


class Application:
    """One execution of a plan by a script of `spark_apps`, in a process group of its own."""

    def __init__(self, table: Path, instant: str, folder: Path, script: str = "compact.py") -> None:
        self.markers = table / ".hoodie" / ".temp" / instant
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SPARK_")}
        self.output = folder / f"{instant}.out"
        with open(self.output, "w", encoding="utf-8") as output, open(f"{self.output}.err", "w") as errors:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, str(ROOT / "spark_apps" / script), f"--table={table}", "--mode=execute"),
                    *(f"--instant={instant}", "--engine=spark"),
                ],
                stdout=output,
                stderr=errors,
                env={
                    **environment,
                    "PYSPARK_SUBMIT_ARGS": MASTER,
                    "PYSPARK_PYTHON": sys.executable,
                    "PYTHONPATH": str(ROOT),
                },
                start_new_session=True,
            )

    def wait_for_markers(self, count: int) -> bool:
        """Whether so many files were announced before the application ended."""
        deadline_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline_s:
            if len(list(self.markers.rglob("*.marker.*"))) >= count:
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.002)
        raise AssertionError(f"no {count} markers in {DEADLINE_S} s: {self.output.read_text()}")

    def kill_driver(self) -> None:
        """The Python of the driver ends; Java and its workers go on for as long as they do."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def kill_worker(self) -> bool:
        """One of the Python processes that run tasks ends; False: none runs."""
        workers = [
            pid for pid in descendants(self.process.pid) if "pyspark" in command_of(pid) and "daemon" in command_of(pid)
        ]
        leaves = [pid for pid in workers if not children_of(pid)]
        if leaves:
            os.kill(leaves[-1], signal.SIGKILL)
        return bool(leaves)

    def end(self) -> None:
        """Nothing of it is left."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def children_of(pid: int) -> list[int]:
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def descendants(pid: int) -> Iterator[int]:
    for child in children_of(pid):
        yield child
        yield from descendants(child)


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
