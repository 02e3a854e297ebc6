"""Credentials show up nowhere: not in what commands print, in logs or errors, and not in what a table or ZooKeeper keeps."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kazoo.client import KazooClient

from hudi_ops.concurrency.lock.embedded_zookeeper import EmbeddedZooKeeper
from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock
from hudi_ops.config.zookeeper_settings import ZooKeeperSettings
from tests.zookeeper.conftest import BASE_PATH, DEADLINE_S

PASSWORD = "Zoo/Kee per+Secret"
KEY_SECRET = "wJalrXUtnFEMI/K7MDENG"
ENDPOINT_SECRET = "endpoint-Secret"
SECRETS = (PASSWORD, KEY_SECRET, ENDPOINT_SECRET, "url-Secret", "yaml-Secret", "Zoo%2FKee")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def home(tmp_path: Path, server: EmbeddedZooKeeper, key: str) -> Path:
    """A folder with a declared table, credentials for its lock, and rows to take."""
    (tmp_path / "landing").mkdir()
    pq.write_table(pa.table({"id": ["a", "b"]}), tmp_path / "landing" / "a.parquet")
    declare(tmp_path, f"lock: zookeeper://{server.hosts}{BASE_PATH}", key)
    return tmp_path


def declare(folder: Path, lock: str, key: str, zookeeper: str = "{auth: digest, user: hudi}", path: str = "t") -> None:
    text = f"""\
{lock}
zookeeper: {zookeeper}
tables:
  {key}: {{path: "{path}", record_key: [id], source: landing}}
"""
    (folder / "tables.yaml").write_text(text)


def run(folder: Path, *command: str, **environment: str) -> tuple[int, str]:
    """Run a program in the folder; its exit code and all that it said."""
    names = {"HUDI_OPS_TABLES": str(folder / "tables.yaml"), "HUDI_OPS_ZOOKEEPER_PASSWORD": PASSWORD}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, **names, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def refuse_secrets(text: str) -> None:
    assert [secret for secret in SECRETS if secret in text] == [], text


def cli(folder: Path, *arguments: str, code: int = 0, **environment: str) -> str:
    found, said = run(folder, "-m", "hudi_ops.cli.main", "-v", *arguments, **environment)
    assert found == code, said
    refuse_secrets(said)
    return said


def test_commands_and_files_hold_no_credentials(home: Path, server: EmbeddedZooKeeper, key: str) -> None:
    cli(home, "create", key, "--like", "landing/a.parquet")
    cli(home, "ingest", key, "--json")
    cli(home, "show", key, "--json")
    assert "zookeeper://" in cli(home, "lock", key)
    cli(home, "zookeeper", "protect", key)
    cli(home, "verify", key, "--json")
    for file in home.rglob("*"):
        if file.is_file():
            refuse_secrets(file.read_bytes().decode("latin-1"))
    code, said = run(home, str(ROOT / "spark_apps" / "ingest.py"), f"--table={key}")
    assert code == 0, said
    refuse_secrets(said)


def test_refusals_hold_no_credentials(home: Path, server: EmbeddedZooKeeper, key: str) -> None:
    cli(home, "ingest", key, "--json", code=2)
    declare(home, f"lock: zookeeper://me:url-Secret@{server.hosts}/x", key)
    assert "must hold no user and password" in cli(home, "show", key, code=2)
    declare(home, "lock: in-process", key, path=f"s3://AKIA:{KEY_SECRET}@bucket/t")
    assert "must hold no user and password" in cli(home, "show", key, "--json", code=2)
    for zookeeper in (
        "{auth: digest, user: u, password: [yaml-Secret]}",
        "{password: yaml-Secret, nope: 1}",
        "yaml-Secret",
    ):
        declare(home, f"lock: zookeeper://{server.hosts}/x", key, zookeeper)
        cli(home, "ingest", key, code=2)
    (home / "tables.yaml").write_text('zookeeper: {password: "yaml-Secret\ntables: {}\n')
    assert "line" in cli(home, "show", key, code=2)
    cli(home, "show", f"s3://AKIA:{KEY_SECRET}@bucket/t", "--json", code=2, HUDI_OPS_TABLES="")


def test_an_endpoint_with_credentials_is_not_shown(tmp_path: Path) -> None:
    endpoint = f"http://me:{ENDPOINT_SECRET}@127.0.0.1:9"
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
    code, said = run(tmp_path, "-c", _READ_BUCKET, AWS_ENDPOINT_URL=endpoint, HUDI_OPS_TABLES="", **keys)
    assert code == 0, said
    assert "127.0.0.1:9" in said
    refuse_secrets(said)


_READ_BUCKET = """
import hudi_ops.storage.bucket as bucket
from datetime import timedelta
bucket._RETRIES = {"max_retries": 0, "retry_timeout": timedelta(seconds=1)}
from hudi_ops.errors import HudiOpsError
from hudi_ops.storage.object_store import ObjectStorage
try:
    ObjectStorage("s3://bucket/t").get("x")
except HudiOpsError as error:
    print(error, repr(error), error.as_dict(), error.args)
"""


def test_logs_of_the_client_library_hold_no_credentials(
    server: EmbeddedZooKeeper, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ZooKeeperSettings.model_validate({"auth": "digest", "user": "hudi", "password": PASSWORD})
    with caplog.at_level(1, logger="kazoo"):
        lock = ZooKeeperLock(server.hosts, BASE_PATH, key, owner="ours", settings=settings)
        lock.has_foreign_writers = False
        with lock.acquire(10, "ingest"):
            watcher = KazooClient(server.hosts, logger=logging.Logger("silent"))
            watcher.start(timeout=DEADLINE_S)
            (child,) = watcher.get_children(lock.path)
            refuse_secrets(watcher.get(f"{lock.path}/{child}")[0].decode())
            watcher.stop()
            watcher.close()
        lock.close()
    said = caplog.text
    assert "scheme='digest'" in said, "the request with the credentials was logged"
    refuse_secrets(said)
    refuse_secrets(f"{settings!r} {settings} {settings.model_dump_json()} {lock!r} {lock.address}")
