"""A standalone Spark cluster on loopback: one master, two workers, from pip's pyspark; each a process that is stopped by its id."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
START_S = 90


def spark_environment(**extra: str) -> dict[str, str]:
    """This process's environment for Spark's scripts, without any path to hudi_ops."""
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "SPARK_MASTER"}}
    return kept | {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "PYSPARK_PYTHON": sys.executable,
        **extra,
    }


@contextmanager
def standalone_cluster(folder: Path, hosts: Sequence[str] = ("127.0.0.1", "127.0.0.1")) -> Iterator[str]:
    """Gives the master's URL once a worker on every host is registered; speculative copies need another host."""
    with ExitStack() as stack:
        log = folder / "master.log"
        master = "org.apache.spark.deploy.master.Master"
        stack.enter_context(_daemon([master, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"], log))
        url = _said(log, r"Starting Spark master at (spark://\S+)")
        for number, host in enumerate(hosts):
            where = folder / f"worker{number}"
            options = ["--host", host, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "512m"]
            command = ["org.apache.spark.deploy.worker.Worker", *options, "--work-dir", str(where), url]
            stack.enter_context(_daemon(command, folder / f"worker{number}.log"))
        for number in range(len(hosts)):
            _said(folder / f"worker{number}.log", r"Successfully registered with master (\S+)")
        yield url


@contextmanager
def _daemon(command: list[str], log: Path) -> Iterator[None]:
    with (
        open(log, "w", encoding="utf-8") as out,
        subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), *command], stdout=out, stderr=out, env=spark_environment()
        ) as process,
    ):
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def _said(log: Path, pattern: str) -> str:
    """What the log says, as soon as it does."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        found = re.search(pattern, log.read_text(encoding="utf-8", errors="replace"))
        if found:
            return found[1]
        time.sleep(0.1)  # between two looks at a file that another process writes
    raise AssertionError(f"{log.name} never said {pattern}:\n{log.read_text(errors='replace')[-2000:]}")
