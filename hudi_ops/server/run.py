"""Run the timeline server in this process, until a signal ends it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import uvicorn

from hudi_ops.config.tables_file import TableLocation
from hudi_ops.config.write_settings import is_loopback
from hudi_ops.errors import InvalidRequest
from hudi_ops.server.app import Server
from hudi_ops.server.limits import Limits
from hudi_ops.view.remote.token_file import read_token

GRACE_S = 3
"""Time that open requests get after a signal."""

BACKLOG = 2048
"""Connections that wait to be taken."""


@dataclass(frozen=True)
class Listener:
    """Address of the server, and the files that protect it.

    Attributes:
        port: 0 takes a free one.
        token_file: None: no token, for loopback alone.
        tls_cert: certificate and those that sign it, as PEM.
        tls_key: key of the certificate, as PEM.
    """

    host: str = "127.0.0.1"
    port: int = 26760
    token_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None

    def token(self) -> str:
        """Return the token; empty: none.

        Raises:
            InvalidRequest: the file cannot be read, is open to others, or holds no token; or the address needs one.
        """
        if self.token_file is None:
            if not is_loopback(self.host):
                raise InvalidRequest(
                    f"without a token the server listens on this machine's loopback alone, not on {self.host}",
                    expected="--host 127.0.0.1, or a token",
                    next_step="write a token into a file with mode 600, and pass --token-file",
                )
            return ""
        return read_token(self.token_file)

    def check_tls(self) -> None:
        """Refuse a certificate without a key, and files that do not fit each other.

        Raises:
            InvalidRequest: they cannot be used.
        """
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InvalidRequest("TLS needs a certificate and its key", next_step="pass both --tls-cert and --tls-key")
        if self.tls_cert is not None:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.tls_cert, self.tls_key)
            except (OSError, ssl.SSLError) as error:
                raise InvalidRequest(
                    f"the certificate {self.tls_cert} and its key cannot be used: {error}",
                    expected="two PEM files that fit each other",
                    next_step="correct --tls-cert and --tls-key",
                ) from error

    def bind(self) -> socket.socket:
        """Return the socket of the address.

        Raises:
            InvalidRequest: the port is taken, or the address is not this machine's.
        """
        try:
            (family, *_, address), *_ = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            return socket.create_server(address, family=family, backlog=BACKLOG)
        except OSError as error:
            raise InvalidRequest(
                f"the server cannot listen on {self.host} port {self.port}: {error.strerror or error}",
                expected="a free port of this machine",
                next_step="pass another --port (0 takes a free one) or --host, or end the process that has the port",
            ) from error


def serve(
    locations: Mapping[str, TableLocation], listener: Listener, limits: Limits, started: Callable[[str], None]
) -> None:
    """Serve tables until a signal ends the process.

    `started` gets the URL once the port is bound.

    Raises:
        InvalidRequest: the token, the files for TLS, or the address cannot be used.
    """
    token = listener.token()
    listener.check_tls()
    bound = listener.bind()
    server = Server.of(locations, limits, token)
    config = uvicorn.Config(
        server.app(),
        http="httptools",
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE_S,
        ssl_certfile=listener.tls_cert,
        ssl_keyfile=listener.tls_key,
    )
    scheme = "http" if listener.tls_cert is None else "https"
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    started(f"{scheme}://{host}:{bound.getsockname()[1]}")
    uvicorn.Server(config).run(sockets=[bound])
