"""How an application ends decides what becomes of the task; real processes, Airflow's own exceptions."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

STAND_IN = Path(__file__).with_name("stand_in_spark_submit.py")


class Submit:
    """One operator whose `spark-submit` is the stand-in; `record` is what the stand-in saw."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.record_file = folder / "record.json"
        binary = folder / "bin" / "spark-submit"
        binary.parent.mkdir()
        binary.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_IN}" "$@"\n')
        binary.chmod(0o755)
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("PATH", f"{binary.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("STAND_IN_RECORD", str(self.record_file))

    def operator(self, how: str, **settings: object):
        from hudi_ops.plugins.hudi_ops_submit import HudiOpsSubmitOperator

        self._monkeypatch.setenv("STAND_IN", how)
        return HudiOpsSubmitOperator(
            task_id="ingest", application="app.py", application_args=["--table=trips"], **settings
        )

    @property
    def record(self) -> dict:
        return json.loads(self.record_file.read_text())


@pytest.fixture
def submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, airflow_home: Path) -> Submit:
    return Submit(tmp_path, monkeypatch)


def wait_until(condition: Callable[[], bool], within_s: float = 20) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_the_last_json_line_is_the_tasks_result(submit: Submit) -> None:
    assert submit.operator("ok").execute({}) == {
        "app": "ingest",
        "ok": True,
        "instant": "20260101000000000",
        "inserted": 3,
    }


def test_the_command_goes_to_the_connections_master(submit: Submit) -> None:
    submit.operator("ok").execute({})
    assert submit.record["argv"][:2] == ["--master", "local[2]"]
    assert "spark.ui.enabled=false" in submit.record["argv"]
    assert submit.record["argv"][submit.record["argv"].index("app.py") :][1] == "--table=trips"


def test_the_application_runs_in_a_session_of_its_own(submit: Submit) -> None:
    submit.operator("ok").execute({})
    assert submit.record["sid"] == submit.record["pid"] != os.getsid(0)


def test_the_application_is_told_who_triggered_the_run(submit: Submit) -> None:
    submit.operator("ok").execute({"dag_run": SimpleNamespace(triggering_user_name="ada")})
    assert submit.record["requester"] == "ada"
    submit.operator("ok").execute({"dag_run": SimpleNamespace(triggering_user_name=None)})
    assert submit.record["requester"] == ""
    submit.operator("ok", env_vars={"MINE": "x"}).execute({"dag_run": SimpleNamespace(triggering_user_name="ada")})
    assert (submit.record["requester"], submit.record["python"]) == ("ada", sys.executable)


def test_an_application_does_not_inherit_the_mask_of_airflow_s_own_files(
    submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUDI_OPS_UMASK", "0027")
    submit.operator("ok").execute({})
    assert submit.record["umask"] == 0o027
    monkeypatch.delenv("HUDI_OPS_UMASK")
    submit.operator("ok").execute({})
    mine = os.umask(0)
    os.umask(mine)
    assert submit.record["umask"] == mine


def test_the_first_command_makes_an_empty_database_and_what_airflow_keeps_is_its_owners_alone(tmp_path: Path) -> None:
    root, home = Path(__file__).resolve().parents[2], tmp_path / "airflow"
    environment = {**os.environ, "AIRFLOW_HOME": str(home), "HUDI_OPS_VENV": str(Path(sys.executable).parents[1])}
    command = [str(root / "bin" / "airflow"), "variables", "list"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "its database is empty; making it" in done.stderr
    modes = {file.name: file.stat().st_mode & 0o777 for file in home.rglob("*") if file.is_file()}
    assert {"secret_key", "jwt_secret", "airflow.cfg", "airflow.db"} <= set(modes)
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o177} == {}


@pytest.mark.parametrize("exit_code", [2, 3, 20, 70])
def test_a_lasting_failure_is_not_tried_again(submit: Submit, exit_code: int) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=r"Boom \(exit code \d+\): it went wrong"):
        submit.operator(str(exit_code)).execute({})


@pytest.mark.parametrize("exit_code", [10, 11, 13, 14])
def test_a_passing_failure_is_tried_again(submit: Submit, exit_code: int) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

    with pytest.raises(AirflowException, match="it went wrong") as caught:
        submit.operator(str(exit_code)).execute({})
    assert not isinstance(caught.value, (AirflowFailException, AirflowSkipException))


def test_a_cancelled_run_is_skipped(submit: Submit) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    with pytest.raises(AirflowSkipException, match="it went wrong"):
        submit.operator("12").execute({})


def test_a_task_without_anything_to_do_is_skipped_and_submits_nothing(submit: Submit) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    with pytest.raises(AirflowSkipException, match="nothing to do"):
        submit.operator("ok", only_if=" ").execute({})
    assert not submit.record_file.exists()
    assert submit.operator("ok", only_if="20260101000000000").execute({})["ok"] is True
    assert "only_if" in submit.operator("ok").template_fields


def test_a_crash_is_tried_again(submit: Submit) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    with pytest.raises(AirflowException, match="Error code is: 1") as caught:
        submit.operator("crash").execute({})
    assert not isinstance(caught.value, AirflowFailException)


def test_success_without_a_result_is_an_error(submit: Submit) -> None:
    from airflow.sdk.exceptions import AirflowException

    with pytest.raises(AirflowException, match="without its JSON line"):
        submit.operator("silent").execute({})


def test_a_missing_connection_fails_instead_of_meaning_yarn(submit: Submit) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=r"'nowhere' does not exist.*AIRFLOW_CONN_NOWHERE"):
        submit.operator("ok", conn_id="nowhere").execute({})
    assert not submit.record_file.exists()


def test_cluster_deploy_mode_is_refused(submit: Submit) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match="cluster is not supported"):
        submit.operator("ok", deploy_mode="cluster").execute({})


def test_a_grace_beyond_airflows_own_is_refused(submit: Submit) -> None:
    with pytest.raises(ValueError, match="stop_grace_s"):
        submit.operator("ok", stop_grace_s=5)


def test_a_stop_that_is_neither_is_refused(submit: Submit) -> None:
    with pytest.raises(ValueError, match="on_stop must be leave or cancel, found 'kill'"):
        submit.operator("ok", on_stop="kill")


def test_a_task_that_takes_too_long_asks_its_application_to_stop(submit: Submit) -> None:
    """Method: Airflow raises its timeout within the task; it calls on_kill once the task has passed it on."""
    from airflow.sdk.exceptions import AirflowTaskTimeout

    def expire(signum: int, frame: object) -> None:
        raise AirflowTaskTimeout

    def send() -> None:
        wait_until(lambda: submit.record_file.exists() and bool(submit.record_file.read_text()))
        os.kill(os.getpid(), signal.SIGALRM)

    operator = submit.operator("stop")
    before = signal.signal(signal.SIGALRM, expire)
    threading.Thread(target=send, daemon=True).start()
    try:
        with pytest.raises(AirflowTaskTimeout):
            operator.execute({})
    finally:
        signal.signal(signal.SIGALRM, before)
    assert operator._result["error"] == "Cancelled"


@pytest.fixture
def kill_when_running(submit: Submit) -> Iterator[Callable[[object], list[float]]]:
    """Does to a running operator what Airflow's SIGTERM does: calls on_kill inside a signal handler of its thread."""
    before = signal.getsignal(signal.SIGTERM)

    def kill(operator) -> list[float]:
        took_s: list[float] = []

        def on_term(signum: int, frame: object) -> None:
            start = time.monotonic()
            operator.on_kill()
            took_s.append(time.monotonic() - start)

        signal.signal(signal.SIGTERM, on_term)

        def send() -> None:
            wait_until(submit.record_file.exists)
            wait_until(lambda: bool(submit.record_file.read_text()))
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=send, daemon=True).start()
        return took_s

    yield kill
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("how", ["stop", "chatter"])
def test_a_kill_asks_first_and_the_application_ends_by_itself(submit: Submit, kill_when_running, how: str) -> None:
    from airflow.sdk.exceptions import AirflowException

    operator = submit.operator(how)
    took_s = kill_when_running(operator)
    with pytest.raises(AirflowException):
        operator.execute({})
    assert operator._hook._submit_sp.returncode == 12
    assert took_s[0] < operator.stop_grace_s


def test_a_deaf_application_is_killed_with_its_children_in_time(submit: Submit, kill_when_running) -> None:
    from airflow.sdk.exceptions import AirflowException

    operator = submit.operator("deaf", stop_grace_s=1.0)
    took_s = kill_when_running(operator)
    with pytest.raises(AirflowException):
        operator.execute({})
    assert operator._hook._submit_sp.returncode == -signal.SIGKILL
    assert took_s[0] < 4
    wait_until(lambda: "child" in submit.record and not is_alive(submit.record["child"]))


def test_a_kill_before_the_submission_or_after_the_end_does_nothing(submit: Submit) -> None:
    operator = submit.operator("ok")
    operator.on_kill()
    operator.execute({})
    operator.on_kill()


def test_a_result_is_logged_as_a_sentence_then_as_json_and_errors_at_their_level(
    submit: Submit, capfd: pytest.CaptureFixture[str]
) -> None:
    submit.operator("warns").execute({})
    shown = capfd.readouterr()
    lines = re.findall(r"\[(\w+) *\] (.*?) *\[airflow", shown.out + shown.err)
    assert ("error", "2026-11-23 06:31:02,123 ERROR hudi_ops.app: it went wrong at first") in lines
    assert ("error", "  Next: look again") in lines
    assert ("info", "2026-11-23 06:31:03,123 INFO hudi_ops.app: it went on") in lines
    (json_at,) = [number for number, (_, text) in enumerate(lines) if text.startswith('{"app"')]
    assert lines[json_at - 1] == ("info", "trips: nothing new")


def test_wrong_arguments_and_refused_tasks_submit_nothing(submit: Submit) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from hudi_ops.config.requests import IngestRequest

    operator = submit.operator("ok", request=IngestRequest)
    operator.application_args = ["--table=trips", "--max-files=many"]
    with pytest.raises(AirflowFailException, match="max_files cannot be 'many'"):
        operator.execute({})
    with pytest.raises(AirflowFailException, match="nothing to compact"):
        submit.operator("ok", refused="nothing to compact").execute({})
    assert not submit.record_file.exists()
