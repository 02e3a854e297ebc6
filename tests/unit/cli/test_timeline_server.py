"""`hudi-ops timeline-server`: what it refuses to start with, and reads by way of TLS and a token."""

from __future__ import annotations

import datetime
import ipaddress
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hudi_ops import Table
from hudi_ops.config.write_settings import ViewServer, ViewSettings
from hudi_ops.view.columns.kept import view_source
from tests.servers import ServerProcess

TOKEN = "a-token-of-a-test-0123456789"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    (file := tmp_path / "token").write_text(TOKEN)
    file.chmod(0o600)
    return file


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that is signed by its own key."""
    folder, key = tmp_path_factory.mktemp("tls"), ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")]), datetime.datetime.now(datetime.UTC)
    made = (
        x509
        .CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    (cert := folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    kinds = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (private := folder / "key.pem").write_bytes(key.private_bytes(*kinds))
    return cert, private


def test_it_refuses_to_start_unprotected_or_on_a_taken_port(
    call: Callable[..., Any], trips: Path, token: Path, certificate: tuple[Path, Path]
) -> None:
    def refused(*options: str) -> str:
        found = call("timeline-server", "--port", "0", *options)
        assert found.code == 2, found.out + found.err
        return " ".join(found.err.split())

    cert, key = map(str, certificate)
    assert "--token-file" in refused("--host", "0.0.0.0")
    assert "nowhere" in refused("--tables", "trips,nowhere")
    assert "--tls-key" in refused("--tls-cert", cert)
    assert "PEM" in refused("--tls-cert", key, "--tls-key", cert)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = str(taken.getsockname()[1])
        assert f"port {number}" in refused("--port", number)
    token.chmod(0o640)
    assert "chmod 600" in refused("--token-file", str(token))
    token.chmod(0o600)
    token.write_text("short")
    assert "openssl rand" in refused("--token-file", str(token))
    assert "cannot be read" in refused("--token-file", f"{token}-none")


def test_a_read_by_tls_and_token(trips: Path, token: Path, certificate: tuple[Path, Path]) -> None:
    """A client that does not know who signed the certificate lists the table itself."""
    cert, key = map(str, certificate)
    (tables := trips.parent / "served.yaml").write_text(f"tables:\n  trips: {{path: {trips}, record_key: [id]}}\n")
    secured = ("--token-file", str(token), "--tls-cert", cert, "--tls-key", key)
    server = ServerProcess.start(tables, "--port", "0", *secured, ca_file=cert)
    try:
        assert server.url.startswith("https://")

        def source_of(**settings: str) -> str:
            asked = ViewServer.model_validate({"url": server.url, "table": "trips"} | settings)
            opened = Table.open(trips, view=ViewSettings(server=asked))
            assert opened.read().num_rows
            return view_source(opened.context.storage)

        assert source_of(ca_file=cert, token_file=str(token)) == "server"
        assert "CERTIFICATE_VERIFY_FAILED" in source_of(token_file=str(token))
    finally:
        server.kill()
