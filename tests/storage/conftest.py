"""An S3 server of the tests' own: moto's, in a process of its own on a free port of this machine."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import boto3
import pytest

from hudi_ops.storage.object_store import ObjectStorage

S3_SETTINGS = {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "tests",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
DEADLINE_S = 60


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a server that lives as long as the session."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("s3") / "server.log"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env=os.environ | S3_SETTINGS)
    try:
        wait_until_open(port, server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def wait_until_open(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
    raise AssertionError(f"no server after {DEADLINE_S} s: {log.read_text()}")


@pytest.fixture
def s3_settings(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Sets the environment variables that lead to the server; gives its URL."""
    for name, value in {**S3_SETTINGS, "AWS_ENDPOINT_URL": s3_endpoint}.items():
        monkeypatch.setenv(name, value)
    return s3_endpoint


@pytest.fixture
def make_s3(s3_settings: str) -> Callable[[], ObjectStorage]:
    """Makes storages below a prefix of a new bucket each."""
    client = boto3.client("s3", endpoint_url=s3_settings)

    def make() -> ObjectStorage:
        name = f"contract-{uuid4().hex}"
        client.create_bucket(Bucket=name)
        return ObjectStorage(f"s3://{name}/tables/trips")

    return make
