"""`spark_apps`: whatever happens, the last line is one JSON object and the exit code follows from the error's class."""

from __future__ import annotations

import json
import logging
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.clock import SystemClock
from hudi_ops.concurrency.lease.lease import inherit_lease, lease_facts, lease_path
from hudi_ops.concurrency.lock.in_process import InProcessLock
from hudi_ops.context import Owner, TableContext
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.testing.simulated import simulated_context
from tests.fault_plans import DiesBefore

ROOT = Path(__file__).resolve().parents[2]
APPLICATIONS = ROOT / "spark_apps"


def in_a_process(app: str, *arguments: str, folder: Path) -> tuple[int, dict, str]:
    """Run an application as spark-submit does; return its exit code, its last line and its log."""
    done = subprocess.run(
        [sys.executable, str(APPLICATIONS / f"{app}.py"), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, json.loads(done.stdout.splitlines()[-1]), done.stderr


Call = Callable[..., tuple[int, dict]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Call]:
    """Run an application in this process, from its arguments to its exit code; return the code and the last line."""
    monkeypatch.syspath_prepend(str(APPLICATIONS))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    loggers = [logging.getLogger(name) for name in ("", "py4j", "hudi_ops.services.base.waves")]
    levels = [logger.level for logger in loggers]

    def run(app: str, *arguments: str, folder: Path) -> tuple[int, dict]:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", [f"{app}.py", *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(APPLICATIONS / f"{app}.py"), run_name="__main__")
        logging.disable(logging.NOTSET)
        return int(str(ended.value.code)), json.loads(capsys.readouterr().out.splitlines()[-1])

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--table"),
        (["--table=trips", "--operation=merge"], "merge"),
        (["--table=trips", "--engine=flink"], "flink"),
        (["--table=trps"], "Did you mean 'trips'"),
        (["--table=riders"], "no source for table riders"),
        (["--table=trips", "--tables=gone.yaml"], "gone.yaml does not exist"),
    ],
)
def test_a_wrong_call_exits_with_2(tables_file: Path, call: Call, arguments: list[str], says: str) -> None:
    code, line = call("ingest", *arguments, folder=tables_file.parent)
    assert code == 2
    assert (line["app"], line["ok"], line["error"], line["exit_code"]) == ("ingest", False, "InvalidRequest", 2)
    assert says in line["message"]


@pytest.mark.parametrize("app", ["ingest", "compact", "cluster", "clean", "cancel", "index", "archive", "recover"])
def test_every_application_can_go_on_behind_an_instant_in_the_future(tables_file: Path, app: str) -> None:
    """Each application runs in a process of its own here; other tests call them in this one."""
    code, line, log = in_a_process(
        app,
        "--table=trips",
        *("--source=landing",) * (app == "ingest"),
        *("--sort-by=ts",) * (app == "cluster"),
        *("--engine=local",) * (app not in {"archive", "cancel", "clean", "recover"}),
        "--accept-future-instants",
        folder=future_table(tables_file),
    )
    assert (code, line["ok"]) == (0, True), log


def future_table(tables_file: Path) -> Path:
    """The folder of a merge-on-read table with an instant in the future, log files, and a file to take."""
    home = tables_file.parent
    schema = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64())])
    Table.create(
        str(home / "trips"),
        name="trips",
        record_key=["id"],
        partition_by=["city"],
        ordering="ts",
        schema=schema,
        table_type="mor",
        metadata=False,
    )
    ahead = ManualClock(SystemClock().now_ms() + 400 * 86_400_000)
    table = Table(TableContext(storage=LocalStorage(home / "trips"), locks=InProcessLock("t"), clock=ahead))
    for ts in (1, 2):
        table.ingest(pa.table({"id": ["a"], "city": ["oslo"], "ts": [ts]}, schema=schema))
    (home / "landing").mkdir()
    (home / "landing" / "a.csv").write_text("id,city,ts\na,oslo,3\n")
    return home


def test_a_path_that_is_no_table_is_named(tables_file: Path, call: Call) -> None:
    (tables_file.parent / "landing").mkdir()
    code, line = call("ingest", "--table=trips", folder=tables_file.parent)
    assert (code, line["ok"]) == (2, False)
    assert str(tables_file.parent / "trips") in line["message"]


def test_several_files_are_taken_again_from_one_argument(tables_file: Path, call: Call) -> None:
    home = tables_file.parent
    schema = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64())])
    Table.create(
        str(home / "trips"), name="trips", record_key=["id"], partition_by=["city"], ordering="ts", schema=schema
    )
    (home / "landing").mkdir()
    files = [home / "landing" / name for name in ("a.csv", "b, c.csv")]
    for file in files:
        file.write_text(f"id,city,ts\n{file.stem[0]},oslo,1\n")
    assert call("ingest", "--table=trips", "--engine=local", "--retake=", folder=home)[1]["files"] == 2
    for file in files:
        file.write_text(f"id,city,ts\n{file.stem[0]},oslo,22\n")
    code, line = call("ingest", "--table=trips", "--engine=local", "--retake=a.csv\nb, c.csv", folder=home)
    assert (code, line["files"], line["updated"]) == (0, 2, 2)


def test_verify_fails_for_a_damaged_table_and_names_what_is_wrong(tables_file: Path, call: Call) -> None:
    home = future_table(tables_file)
    code, line = call("verify", "--table=trips", "--deep=true", "--index=false", folder=home)
    assert (code, line["ok"], line["table"], line["deep"]) == (0, True, "trips", True)
    base = next((home / "trips").rglob("[!.]*.parquet"))
    base.unlink()
    code, line, log = in_a_process("verify", "--table=trips", folder=home)
    assert (code, line["error"]) == (20, "Corrupt")
    assert base.name in line["message"]
    assert line["findings"][0]["invariant"] == "file-missing"
    assert "ERROR hudi_ops.app: error file-missing" in log


def test_recover_rolls_back_a_dead_write(tables_file: Path, call: Call) -> None:
    home = tables_file.parent
    table = Table.create(
        str(home / "riders"), name="riders", record_key=["id"], schema=pa.schema([("id", pa.string())])
    )
    assert call("recover", "--table=riders", folder=home) == (
        0,
        {"app": "recover", "ok": True, "table": "riders", "rolled_back": [], "left": [], "metadata_files": 0},
    )
    gone = replace(Owner.of_this_process(), started="1")
    faulty = FaultyStorage(LocalStorage(home / "riders"), DiesBefore("put_if_absent:.hoodie/.commit_log/0"))
    with suppress(Crash):
        Table(replace(table.context, storage=faulty, owner=gone)).ingest(pa.table({"id": ["a"]}))
    dead = max(one.name.partition(".")[0] for one in (home / "riders/.hoodie/timeline").glob("*.inflight"))
    code, line = call("recover", "--table=riders", folder=home)
    assert (code, [one["instant"] for one in line["rolled_back"]]) == (0, [dead])


@pytest.fixture
def cancellable(tables_file: Path) -> tuple[Table, str]:
    """A merge-on-read table, and a plan of its compaction that may be cancelled."""
    path = str(tables_file.parent / "riders")
    table = Table.create(path, name="riders", record_key=["id"], schema="id string, v long", table_type="mor")
    for value in range(2):
        table.ingest(pa.table({"id": ["a"], "v": [value]}))
    return table, str(table.compaction.plan(cancel="cancellable").instant)


def test_a_cancel_is_busy_while_the_executor_lives_and_ends_once_it_has_ended(
    tables_file: Path, call: Call, cancellable: tuple[Table, str]
) -> None:
    (table, instant), home = cancellable, tables_file.parent
    inherit_lease(table.context, instant, "execute")
    asked = ("cancel", "--table=riders", f"--instant={instant}", "--reason=not now", "--wait-s=0")
    code, line = call(*asked, folder=home)
    assert (code, line["error"], line["instant"]) == (11, "Busy", instant)
    assert "is cancelled, and not removed yet" in line["message"]
    assert table.plans(instant)[0].state == "cancelled"
    table.context.storage.delete(lease_path(instant))
    code, line = call(*asked, folder=home)
    assert (code, line["state"], line["reason"]) == (0, "aborted", "not now")


@pytest.mark.parametrize("asked", [("cancel",), ("clean", "--mode=cancel")])
def test_what_is_cancelled_is_removed_by_a_run_without_an_instant(
    tables_file: Path, call: Call, cancellable: tuple[Table, str], asked: tuple[str, ...]
) -> None:
    (table, instant), (app, *arguments) = cancellable, asked
    table.request_cancel(instant, "not now")
    code, line = call(app, "--table=riders", *arguments, folder=tables_file.parent)
    assert (code, line["removed"], line["cancelled"], line["note"]) == (0, [instant], [], "")
    assert table.plans(instant)[0].state == "aborted"


@pytest.mark.parametrize(
    ("refused", "says"), [("force", "was not planned as cancellable"), ("archived", "no such instant")]
)
def test_a_cancel_that_cannot_be_is_refused(
    tables_file: Path, call: Call, cancellable: tuple[Table, str], refused: str, says: str
) -> None:
    table, instant = cancellable
    if refused == "force":
        table.cancel(instant)
        instant = str(table.compaction.plan().instant)
    else:
        instant = "20200101000000000"
    code, line = call("cancel", "--table=riders", f"--instant={instant}", folder=tables_file.parent)
    assert (code, says in line["message"]) == (2, True), line


def test_a_stop_request_ends_it_before_it_begins(tables_file: Path, call: Call, tmp_path: Path) -> None:
    (tmp_path / "stop").touch()
    code, line = call("ingest", "--table=trips", f"--stop-file={tmp_path / 'stop'}", folder=tmp_path)
    assert (code, line["error"]) == (12, "Cancelled")


WAITING = """
import sys, time
sys.path.insert(0, sys.argv[1])
from _app import StopRequest, run
stop = StopRequest()
stop.listen()
def work():
    print("listening", flush=True)
    while True:
        stop.check("the next step")
        time.sleep(0.01)
run("waiting", work)
"""


def test_sigterm_is_a_stop_request() -> None:
    process = subprocess.Popen([sys.executable, "-c", WAITING, str(APPLICATIONS)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "listening\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 12
    assert json.loads(out.splitlines()[-1])["error"] == "Cancelled"


UNEXPECTED = """
import sys
sys.path.insert(0, sys.argv[1])
from _app import run
def work():
    sys.stdout.write("half a line")
    raise ZeroDivisionError("by zero")
run("unexpected", work)
"""


def test_an_unexpected_error_still_has_its_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNEXPECTED, str(APPLICATIONS)], capture_output=True, text=True, timeout=60
    )
    line = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, line["error"]) == (70, "Internal")
    assert "ZeroDivisionError: by zero" in line["message"]
    assert "Traceback" in done.stderr


TALKATIVE = """
import atexit, logging, sys
sys.path.insert(0, sys.argv[1])
from _app import run
atexit.register(lambda: logging.getLogger("py4j").error("closing down"))
run("talkative", lambda: {"rows": 1})
"""


def test_nothing_follows_the_last_line() -> None:
    """Goal: a library that logs at exit does not hide the result. Method: one stream for both, as Spark has it."""
    done = subprocess.run(
        [sys.executable, "-c", TALKATIVE, str(APPLICATIONS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == {"app": "talkative", "ok": True, "rows": 1}


class CountingLocks:
    """A lock that counts how often it was taken."""

    address = "zookeeper://a:2181/locks/t"

    def __init__(self) -> None:
        self.taken = 0

    def acquire(self, timeout_s: float, purpose: str):
        self.taken += 1
        return purpose

    def holder(self) -> None:
        return None


def test_a_stop_refuses_the_lock_once_so_that_clean_up_can_take_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(APPLICATIONS))
    from _app import StoppableLocks, StopRequest

    from hudi_ops.errors import Cancelled

    inner = CountingLocks()
    locks = StoppableLocks(inner, StopRequest(str(tmp_path / "stop")))
    assert locks.acquire(1.0, "commit 1") == "commit 1"
    (tmp_path / "stop").touch()
    with pytest.raises(Cancelled, match="before commit 2"):
        locks.acquire(1.0, "commit 2")
    assert locks.acquire(1.0, "clean up") == "clean up"
    assert inner.taken == 2


def test_leases_of_an_application_name_the_lock_that_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it each writer of the same lock would be warned that this one takes another."""
    monkeypatch.syspath_prepend(str(APPLICATIONS))
    from _app import StoppableLocks, StopRequest

    inner = CountingLocks()
    ctx = simulated_context(MemoryStorage("t"), ManualClock(0), "app")
    ctx = replace(ctx, locks=StoppableLocks(inner, StopRequest(str(tmp_path / "stop"))))
    assert lease_facts(ctx, "write")["lock"] == inner.address


STOPPABLE_APPLICATION = """
import sys, time
sys.path.insert(0, {apps!r})
from _app import ArgumentParser, StopRequest, run
def work():
    parser = ArgumentParser(prog="waiting")
    parser.add_argument("--stop-file")
    stop = StopRequest(parser.parse_args().stop_file)
    stop.listen()
    open({started!r}, "w").close()
    while True:
        stop.check("the next step")
        time.sleep(0.01)
run("waiting", work)
"""


def test_a_real_spark_submit_stops_cleanly_when_airflow_kills_the_task(tmp_path: Path, airflow_home: Path) -> None:
    """Goal: the whole chain: operator, spark-submit, JVM, driver. Method: on_kill inside a signal handler."""
    import threading

    from airflow.sdk.exceptions import AirflowSkipException
    from hudi_ops.plugins.hudi_ops_submit import HudiOpsSubmitOperator

    started = tmp_path / "started"
    application = tmp_path / "waiting.py"
    application.write_text(STOPPABLE_APPLICATION.format(apps=str(APPLICATIONS), started=str(started)))
    operator = HudiOpsSubmitOperator(task_id="waiting", application=str(application))
    before = signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())

    def send() -> None:
        end = time.monotonic() + 120
        while not started.exists() and time.monotonic() < end:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=send, daemon=True).start()
    try:
        with pytest.raises(AirflowSkipException, match="Cancelled"):
            operator.execute({})
    finally:
        signal.signal(signal.SIGTERM, before)
    assert operator._hook._submit_sp.returncode == 12
