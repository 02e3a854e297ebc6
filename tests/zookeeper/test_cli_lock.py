"""`hudi-ops lock` over a real server: the holder and those who wait, in order, with everything that they say of themselves."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.cli.main import main
from hudi_ops.concurrency.lock.embedded_zookeeper import EmbeddedZooKeeper
from tests.zookeeper.own_server import OwnServer


@pytest.fixture
def table(server: EmbeddedZooKeeper, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "tables.yaml").write_text(
        f"lock: zookeeper://{server.hosts}/hudi/locks\ntables:\n  {key}: {{path: t, record_key: [id]}}\n"
    )
    Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=pa.schema([("id", pa.int64())]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HUDI_OPS_TABLES", raising=False)
    return key


def shown(table: str, capsys: pytest.CaptureFixture[str]) -> dict:
    capsys.readouterr()
    assert main(["lock", table, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_line_in_order(
    server: EmbeddedZooKeeper, table: str, new_process, new_lock, line_at, eventually, capsys
) -> None:
    nobody = shown(table, capsys)
    assert (nobody["is_visible"], nobody["line"]) == (True, [])
    assert nobody["lock"] == f"zookeeper://{server.hosts}/hudi/locks/{table}"
    first, second, third = (new_process(server) for _ in range(3))
    assert first.ask("acquire 20 ingest 20260101000000000") == "acquired"
    second.tell("acquire 60 second")
    eventually(lambda: len(line_at(server)) == 2)
    third.tell("acquire 60 third")
    eventually(lambda: len(line_at(server)) == 3)
    line = shown(table, capsys)["line"]
    assert [one["purpose"] for one in line] == ["ingest 20260101000000000", "second", "third"]
    assert {(one["owner"], one["run"], one["host"]) for one in line} == {("child", "run-7", socket.gethostname())}
    assert all(one["since"].startswith("20") for one in line)
    assert main(["lock", table]) == 0
    said = capsys.readouterr().out
    assert "is held, 2 others in line" in said
    assert [said.index(word) for word in ("ingest 2026", "second", "third")] == sorted(
        said.index(word) for word in ("ingest 2026", "second", "third")
    )
    assert first.ask("release") == "released"
    assert second.hear() == "acquired"
    assert [one["purpose"] for one in shown(table, capsys)["line"]] == ["second", "third"]
    assert len(line_at(server)) == 2, "looking leaves nothing behind"


def test_without_a_server_it_says_so(
    own_server: OwnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=pa.schema([("id", pa.int64())]))
    (tmp_path / "tables.yaml").write_text(
        f"lock: zookeeper://{own_server.hosts}/locks\ntables:\n  t: {{path: t, record_key: [id]}}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HUDI_OPS_TABLES", raising=False)
    own_server.kill()
    assert main(["lock", "t", "--json"]) == 13
    assert own_server.hosts in json.loads(capsys.readouterr().out)["message"]
