"""Tasks that are stopped while they execute a plan: the plan stays or is cancelled, and a retry goes on or is skipped.

Method: the real application and the real operator; the application is held in its first file, or frozen.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.verify import verify_table
from tests.airflow.dag_runs import ROOT, airflow, airflow_command, last_result

COMPACT = ROOT / "spark_apps" / "compact.py"

HELD = """
import os, sys, time

if "--mode=execute" in sys.argv:
    from hudi_ops.storage.local import LocalStorage

    def held(call):
        def called(self, path, *others):
            if ".marker" in path and os.path.exists(os.environ["HOLD"]):
                stop = sys.argv[sys.argv.index("--stop-file") + 1] if "--stop-file" in sys.argv else ""
                open(os.environ["HOLD"] + ".reached", "w").write(str(os.getpid()))
                while os.path.exists(os.environ["HOLD"]) and not os.path.exists(stop):
                    time.sleep(0.02)
            return call(self, path, *others)
        return called

    for name in ("put", "put_if_absent"):
        setattr(LocalStorage, name, held(getattr(LocalStorage, name)))
"""
"""Holds an execution where it announces its first file, until it is asked to stop or let go."""


class World:
    """A table with log files, and executions that are held."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.path, self.hold = home, str(home / "trips"), home / "hold"
        self.table = Table.create(
            self.path, name="trips", record_key=["id"], schema="id string, v long", table_type="mor", metadata=False
        )
        for value in range(2):
            self.table.ingest(pa.table({"id": ["a", "b"], "v": [value, value]}))
        (home / "sitecustomize.py").write_text(HELD)
        monkeypatch.setenv("PYTHONPATH", str(home), prepend=os.pathsep)
        monkeypatch.setenv("HOLD", str(self.hold))
        self.hold.touch()

    def planned(self, **request: object) -> str:
        return str(self.table.compaction.plan(**request).instant)

    def arguments(self, instant: str) -> list[str]:
        tables = f"--tables={self.home / 'tables.yaml'}"
        return ["--table=trips", "--mode=execute", "--engine=local", f"--instant={instant}", tables]

    def application(self, instant: str, *others: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(COMPACT), *self.arguments(instant), *others]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def operator(self, instant: str, on_stop: str):
        from hudi_ops.plugins.hudi_ops_submit import HudiOpsProcessOperator

        arguments = self.arguments(instant)
        return HudiOpsProcessOperator(
            task_id="execute", application=str(COMPACT), application_args=arguments, on_stop=on_stop
        )

    def held_process(self) -> int:
        """Wait until an execution is held; its process."""
        reached = Path(f"{self.hold}.reached")
        end = time.monotonic() + 240
        while not (reached.exists() and reached.read_text()):
            assert time.monotonic() < end, "no execution came to its first file"
            time.sleep(0.02)
        return int(reached.read_text())

    def state(self, instant: str) -> str:
        (row,) = self.table.plans(instant)
        return row.state

    def check(self) -> None:
        assert self.table.read(["id", "v"]).sort_by("id").to_pylist() == [{"id": "a", "v": 1}, {"id": "b", "v": 1}]
        assert verify_table(self.table.context.storage, deep=True).findings == ()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, airflow_home: Path) -> World:
    (tmp_path / "tables.yaml").write_text("tables: {trips: {path: trips, record_key: [id], type: mor}}\n")
    monkeypatch.setenv("HUDI_OPS_TABLES", str(tmp_path / "tables.yaml"))
    return World(tmp_path, monkeypatch)


@pytest.fixture
def kill_when_held(world: World) -> Iterator[Callable[..., None]]:
    """Does to an operator what Airflow's SIGTERM does, once its application is held."""
    before = signal.getsignal(signal.SIGTERM)

    def kill(operator, *, frozen: bool) -> None:
        signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())

        def send() -> None:
            held = world.held_process()
            if frozen:
                os.kill(held, signal.SIGSTOP)
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=send, daemon=True).start()

    yield kill
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("on_stop", "frozen", "cancellable", "says"),
    [
        ("leave", False, True, "It stopped by itself"),
        ("cancel", False, True, "Plan {} is cancelled"),
        ("cancel", True, True, "No answer from it; cancelling the plan that it executes"),
        ("cancel", False, False, "Plan {} stays: this compaction was not planned as cancellable"),
    ],
)
def test_a_killed_task_leaves_or_cancels_its_plan_and_a_retry_goes_on_or_is_skipped(
    world: World,
    kill_when_held: Callable[..., None],
    capfd: pytest.CaptureFixture[str],
    on_stop: str,
    frozen: bool,
    cancellable: bool,
    says: str,
) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowSkipException

    instant = world.planned(cancel="cancellable" if cancellable else "never")
    operator = world.operator(instant, on_stop)
    kill_when_held(operator, frozen=frozen)
    with pytest.raises(AirflowException if frozen else AirflowSkipException):
        operator.execute({})
    shown = capfd.readouterr()
    assert says.format(instant) in shown.out + shown.err
    is_cancelled = on_stop == "cancel" and cancellable
    if frozen:
        # The cancel is decided by a process that outlives the task.
        end = time.monotonic() + 240
        while world.state(instant) != "cancelled" and time.monotonic() < end:
            time.sleep(0.05)
        assert world.state(instant) == "cancelled"
    else:
        assert world.state(instant) == ("aborted" if is_cancelled else "left")
    world.hold.unlink()
    retry = world.operator(instant, on_stop)
    if is_cancelled:
        with pytest.raises(AirflowSkipException, match="was cancelled: its task was stopped"):
            retry.execute({})
        (row,) = world.table.plans(instant)
        assert (row.state, row.reason) == ("aborted", "its task was stopped")
    else:
        assert retry.execute({})["slices"] == 1
        assert world.table.plans() == []
    world.check()


def test_a_driver_that_gets_sigterm_cancels_its_plan(world: World) -> None:
    instant = world.planned(cancel="cancellable")
    held = world.application(instant, "--on-stop=cancel")
    world.held_process()
    held.send_signal(signal.SIGTERM)
    end = time.monotonic() + 240
    while world.state(instant) != "cancelled" and time.monotonic() < end:
        time.sleep(0.02)
    assert world.state(instant) == "cancelled", "decided while the step goes on"
    world.hold.unlink()
    out, _ = held.communicate(timeout=60)
    assert (held.returncode, json.loads(out.splitlines()[-1])["error"]) == (12, "Cancelled")
    assert world.state(instant) == "aborted"
    world.check()


@pytest.mark.parametrize(
    ("is_cancelled", "dies", "code"),
    [(False, False, 11), (True, False, 12), (False, True, 0)],
    ids=["meets the lease", "meets the cancel", "takes over"],
)
def test_a_twin_after_a_retry(world: World, is_cancelled: bool, dies: bool, code: int) -> None:
    """Goal: what the first application left decides how its twin ends; 11 is tried again, 12 is skipped."""
    instant = world.planned(cancel="cancellable")
    first = world.application(instant)
    world.held_process()
    if is_cancelled:
        world.table.request_cancel(instant, "not now")
    if dies:
        first.kill()
        first.wait(timeout=60)
        world.hold.unlink()
    twin = world.application(instant)
    out, err = twin.communicate(timeout=60)
    assert twin.returncode == code, out + err
    if not dies:
        world.hold.unlink()
        out, err = first.communicate(timeout=60)
        assert first.returncode == (12 if is_cancelled else 0), out + err
    if is_cancelled:
        assert world.state(instant) == "aborted"
    elif dies:
        assert json.loads(out.splitlines()[-1])["epoch"] == 2
    world.check()


def test_airflow_itself_kills_a_task_and_its_plan_is_cancelled(world: World) -> None:
    """Method: Airflow's own runner of tasks gets SIGTERM, as from its supervisor; the driver is one of spark-submit."""
    instant = world.planned(cancel="cancellable")
    command, environment = airflow_command(
        Path(os.environ["AIRFLOW_HOME"]),
        *(
            "tasks",
            "test",
            "compaction",
            "execute",
            "2026-05-01",
            "--task-params",
            '{"table": "trips", "engine": "local"}',
        ),
        HUDI_OPS_ON_STOP="cancel",
    )
    killed = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    held = world.held_process()
    killed.send_signal(signal.SIGTERM)
    shown, _ = killed.communicate(timeout=120)
    assert f"Plan {instant} is cancelled" in shown, shown[-3000:]
    assert last_result(shown)["exit_code"] == 12
    assert not Path(f"/proc/{held}").exists()
    assert world.state(instant) == "aborted"
    world.check()


def clustering_of(world: World) -> str:
    """A plan that sorts the table."""
    return str(world.table.clustering.plan(sort_by=["v"]).instant)


def resize_of(world: World) -> str:
    """A plan that splits the buckets of another table, which takes the place of the first."""
    world.path = str(world.home / "ringed")
    world.table = Table.create(
        world.path,
        name="trips",
        record_key=["id"],
        schema="id string, v long",
        table_type="mor",
        metadata=False,
        bucket_engine="consistent",
        buckets=1,
        buckets_max=2,
    )
    world.table.ingest(pa.table({"id": ["a", "b"], "v": [1, 1]}))
    (world.home / "tables.yaml").write_text(
        "tables: {trips: {path: ringed, record_key: [id], type: mor, bucket_engine: consistent}}\n"
    )
    return str(world.table.resize.plan(split_bytes=1000, merge_bytes=0).instant)


@pytest.mark.parametrize(
    ("dag", "app", "planned"),
    [
        pytest.param(
            "clustering", "cluster", clustering_of, marks=pytest.mark.soak("full has Airflow kill a resize, in one DAG")
        ),
        ("resizing", "resize", resize_of),
    ],
    ids=["clustering", "resize"],
)
def test_a_plan_that_airflow_killed_is_executed_by_the_next_try(
    world: World, dag: str, app: str, planned: Callable[[World], str]
) -> None:
    """Method: as above, with the plan left; the second call is what a cleared task does."""
    instant = planned(world)
    given = json.dumps({"table": "trips", "engine": "local"})
    call = ("tasks", "test", dag, "execute", "2026-05-02", "--task-params", given)
    home = Path(os.environ["AIRFLOW_HOME"])
    command, environment = airflow_command(home, *call, HUDI_OPS_ON_STOP="leave")
    killed = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    held = world.held_process()
    killed.send_signal(signal.SIGTERM)
    shown, _ = killed.communicate(timeout=120)
    assert last_result(shown)["exit_code"] == 12, shown[-3000:]
    assert not Path(f"/proc/{held}").exists()
    assert world.state(instant) == "left"
    world.hold.unlink()
    again = airflow(home, *call)
    result = last_result(again.stdout + again.stderr)
    assert (result["app"], result["instant"], result["groups"], result["epoch"]) == (app, instant, 1, 2)
    world.check()
