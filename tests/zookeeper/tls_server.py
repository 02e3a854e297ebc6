"""A ZooKeeper server that speaks TLS only, and the certificates for it; made by openssl, for one test."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

START_S = 60.0
_SETTINGS = """\
tickTime=500
dataDir={folder}/data
secureClientPort={port}
secureClientPortAddress=127.0.0.1
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.location={folder}/server.pem
ssl.trustStore.location={folder}/ca.pem
ssl.clientAuth={client_auth}
admin.enableServer=false
minSessionTimeout=1000
"""


def make_certificates(folder: Path) -> None:
    """An authority (`ca.pem`), a server on 127.0.0.1 and `localhost` (`server.pem`), a client (`client.pem`, `client.key`).

    The client's key is encrypted with the password `key-secret`.
    """
    names = "subjectAltName=IP:127.0.0.1,DNS:localhost"
    openssl(folder, "req", "-x509", *_new_key("ca.key"), "-days", "2", "-subj", "/CN=test authority", "-out", "ca.pem")
    for who in ("server", "client"):
        openssl(folder, "req", *_new_key(f"{who}.plain"), "-subj", f"/CN={who}", "-addext", names, "-out", f"{who}.csr")
        (folder / "names").write_text(names)
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
        openssl(folder, "x509", "-req", "-in", f"{who}.csr", *signed, "-out", f"{who}.crt")
    (folder / "server.pem").write_text((folder / "server.plain").read_text() + (folder / "server.crt").read_text())
    (folder / "client.pem").write_text((folder / "client.crt").read_text())
    encrypted = ("-topk8", "-passout", "pass:key-secret", "-out", "client.key")
    openssl(folder, "pkcs8", "-in", "client.plain", *encrypted)


def openssl(folder: Path, *arguments: str) -> None:
    program = shutil.which("openssl")
    assert program, "openssl is needed"
    subprocess.run([program, *arguments], cwd=folder, check=True, capture_output=True)


@contextmanager
def tls_server(folder: Path, client_auth: str = "none") -> Iterator[str]:
    """A running server; yields its connect string.

    Args:
        folder: with the certificates.
        client_auth: `none`, or `need` for one that asks for certificates of clients.
    """
    java = shutil.which("java")
    assert java, "Java is needed: run bin/bootstrap"
    jars = Path(importlib.util.find_spec("pyspark").origin).parent / "jars"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "zoo.cfg").write_text(_SETTINGS.format(folder=folder, port=port, client_auth=client_auth))
    command = [java, "-Xmx128m", "-cp", f"{jars}/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg"]
    log = (folder / "server.log").open("wb")
    with log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process:
        try:
            deadline_s = time.monotonic() + START_S
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > deadline_s:
                    pytest.fail(f"the server did not start: {(folder / 'server.log').read_text()[-2000:]}")
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _new_key(name: str) -> tuple[str, ...]:
    return ("-newkey", "rsa:2048", "-nodes", "-keyout", name)
