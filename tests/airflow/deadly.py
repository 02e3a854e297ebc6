"""Tasks whose driver is killed at an operation of storage, and that are then tried again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.airflow.dag_runs import airflow, last_result

DIES_ONCE = """
import os, signal

if "PYSPARK_GATEWAY_PORT" in os.environ:  # a driver of spark-submit
    from hudi_ops.storage import disk
    from hudi_ops.storage.local import LocalStorage

    def deadly(call):
        def called(self, path, *others):
            found = call(self, path, *others)
            mark = os.environ["DIES_MARK"]
            if os.environ["DIES_AT"] in path and not os.path.exists(mark):
                open(mark, "x").close()
                os.kill(os.getpid(), signal.SIGKILL)
            return found
        return called

    for holder, name in ((LocalStorage, "put"), (LocalStorage, "put_if_absent"), (disk, "unlink")):
        setattr(holder, name, deadly(getattr(holder, name)))
"""


def dies_once(home: Path, folder: Path, dag: str, task: str, dies_at: str) -> dict[str, Any]:
    """Run a task alone; its driver dies after it has put or deleted a path with `dies_at` in it. Return the retry's result."""
    (folder / "sitecustomize.py").write_text(DIES_ONCE)
    mark = folder / f"{task} died at {dies_at.replace('/', ' ')}"
    call = ("tasks", "test", dag, task, "2026-03-01")
    hook = {"PYTHONPATH": str(folder), "DIES_AT": dies_at, "DIES_MARK": str(mark)}
    died = airflow(home, *call, **hook)
    assert mark.exists(), died.stdout[-3000:]
    assert "Cannot execute: spark-submit" in died.stdout  # `tasks test` exits with 0 all the same
    again = airflow(home, *call, **hook)
    assert "Cannot execute" not in again.stdout, again.stdout[-3000:]
    result: dict[str, Any] = last_result(again.stdout)
    assert result["ok"]
    return result
