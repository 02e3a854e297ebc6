"""`hudi-ops` takes the lock that `tables.yaml` declares, and says so when no server answers."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kazoo.client import KazooClient

from hudi_ops.cli.main import main
from hudi_ops.concurrency.lock.embedded_zookeeper import EmbeddedZooKeeper
from tests.zookeeper.own_server import OwnServer


def declare(folder: Path, hosts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "landing").mkdir()
    pq.write_table(pa.table({"id": ["a", "b"]}), folder / "landing" / "first.parquet")
    (folder / "tables.yaml").write_text(
        f"lock: zookeeper://{hosts}/doors\ntables:\n  trips: {{path: data/any, record_key: [id], source: landing}}\n"
    )
    monkeypatch.chdir(folder)
    monkeypatch.delenv("HUDI_OPS_TABLES", raising=False)


def test_commands_take_the_declared_lock(
    server: EmbeddedZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = server.status().hosts
    declare(tmp_path, hosts, monkeypatch)
    assert main(["create", "trips", "--like", "landing/first.parquet"]) == 0
    capsys.readouterr()
    assert main(["ingest", "trips", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inserted"] == 2
    client = KazooClient(hosts)
    client.start(timeout=30)
    try:
        # The name, not the folder: what a foreign writer has as its lock key.
        assert client.get_children("/doors") == ["trips"]
        assert client.get_children("/doors/trips") == []
    finally:
        client.stop()
        client.close()


def test_reading_needs_no_server_and_writing_does(
    own_server: OwnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    declare(tmp_path, own_server.status().hosts, monkeypatch)
    assert main(["create", "trips", "--like", "landing/first.parquet"]) == 0
    own_server.stop()
    assert main(["read", "trips"]) == main(["verify", "trips"]) == 0
    capsys.readouterr()
    assert main(["ingest", "trips", "--json"]) == 13
    told = json.loads(capsys.readouterr().out)
    assert (told["error"], told["exit_code"]) == ("Unavailable", 13)
    assert "/doors/trips" in told["message"]
