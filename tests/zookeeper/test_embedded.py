"""The embedded server: real processes, asked, stopped, killed and taken over from other processes; and its commands."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hudi_ops.cli.locks.zookeeper import app
from hudi_ops.concurrency.lock.embedded_zookeeper import EmbeddedZooKeeper
from hudi_ops.concurrency.lock.zookeeper_session import probe
from hudi_ops.errors import InvalidRequest, Unavailable, Unsupported
from tests.zookeeper.own_server import OwnServer


def test_serves_when_start_returns_and_a_second_start_changes_nothing(own_server: OwnServer) -> None:
    before = own_server.status()
    assert before.is_running
    assert before.is_serving
    probe(own_server.hosts, 5.0)
    assert own_server.start() is False
    assert own_server.status() == before


def test_listens_on_loopback_only(server: EmbeddedZooKeeper) -> None:
    port = f":{server.status().port:04X}"
    listening = [
        line.split()[1]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(table).read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(port)
    ]
    loopback = "0100007F"  # 127.0.0.1, and within ::ffff:127.0.0.1
    assert [address.split(":")[0][-8:] for address in listening] == [loopback]


def test_other_processes_see_it_and_stop_it(own_server: OwnServer, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from hudi_ops.concurrency.lock.embedded_zookeeper import EmbeddedZooKeeper;"
        "it = EmbeddedZooKeeper(Path(sys.argv[1])); print(it.status().is_serving, it.stop(), it.status().is_running);"
        "assert 'pyspark' not in sys.modules"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "zookeeper")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert run.stdout.split() == ["True", "True", "False"]
    assert not own_server.status().is_running


def test_comes_back_after_a_crash_on_the_same_port_with_its_data(own_server: OwnServer) -> None:
    hosts = own_server.hosts
    own_server.kill()
    assert not own_server.status().is_running
    assert own_server.start() is True
    assert own_server.hosts == hosts


def test_paused_runs_and_does_not_serve(own_server: OwnServer) -> None:
    own_server.pause()
    status = own_server.status(timeout_s=0.5)
    assert (status.is_running, status.is_serving) == (True, False)
    own_server.resume()
    assert own_server.status().is_serving
    own_server.pause()  # a stop must reach a paused one too


def test_a_foreign_process_under_the_noted_pid_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "server.json").write_text(json.dumps({"pid": os.getpid(), "port": 21811, "started_ms": 1}))
    stranger = OwnServer(tmp_path)
    assert not stranger.status().is_running
    assert stranger.stop() is False
    with pytest.raises(InvalidRequest, match="does not run"):
        stranger.kill()


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InvalidRequest, match=f"port {port} .* is taken"):
            EmbeddedZooKeeper(tmp_path, port).start()


def test_another_port_than_the_running_one_is_refused(own_server: OwnServer, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="runs already, on another port"):
        EmbeddedZooKeeper(tmp_path / "zookeeper", own_server.status().port + 1).start()


def test_missing_java_names_the_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(Unsupported, match="Next: install it"):
        EmbeddedZooKeeper(tmp_path / "zk").start()


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way of the folder")
    with pytest.raises(Unavailable, match=r"did not start: its process ended: .*data[\s\S]*server.log"):
        EmbeddedZooKeeper(tmp_path).start()


def test_a_folder_with_spaces_and_accents(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path / "données du serveur") as server:
        assert server.status().is_serving


def test_probe_refuses_what_only_listens() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        with pytest.raises(Unavailable, match="answered within"):
            probe(f"127.0.0.1:{deaf.getsockname()[1]}", 0.3)


def test_commands(tmp_path: Path) -> None:
    runner, data = CliRunner(), ["--data", str(tmp_path / "zk")]

    def run(*arguments: str, code: int = 0) -> dict[str, object]:
        result = runner.invoke(app, [*arguments, *data, "--json"])
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    assert run("status", code=Unavailable.exit_code)["is_running"] is False
    assert run("stop")["was_stopped"] is False
    try:
        started = run("start", "--port", "0")
        assert (started["was_started"], started["is_serving"]) == (True, True)
        assert run("start", "--port", "0") == {**started, "was_started": False}
        assert run("status")["pid"] == started["pid"]
        result = runner.invoke(app, ["status", *data])
        assert result.stdout == f"ZooKeeper serves at {started['hosts']} (pid {started['pid']})\n"
        refused = runner.invoke(app, ["start", "--port", "1", *data])
        assert isinstance(refused.exception, InvalidRequest)
        assert run("stop")["was_stopped"] is True
    finally:
        EmbeddedZooKeeper(tmp_path / "zk").stop()
    assert run("stop")["was_stopped"] is False
