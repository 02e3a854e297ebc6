"""A reverse proxy that serves another server below a path, and nothing else; as nginx does for Airflow."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream = 0
    path_prefix = ""

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.path.startswith(f"{self.path_prefix}/"):
            self.send_error(404, "not behind this proxy")
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
        upstream = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=60)
        try:
            upstream.request(self.command, self.path, body or None, {**headers, "X-Forwarded-Proto": "http"})
            answer = upstream.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.send_error(502, str(error))
            return
        finally:
            upstream.close()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP | {"content-length"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with suppress(ConnectionError):  # a browser that goes to another page does not wait
            self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = do_HEAD = _forward

    def log_message(self, *args: object) -> None:
        """Print nothing: the tests have their own."""


@contextmanager
def proxied(port: int, upstream: int, prefix: str) -> Iterator[None]:
    """Serve what a server on another port of this machine answers, below a path such as `/airflow`."""
    handler = type("Handler", (_Handler,), {"upstream": upstream, "path_prefix": prefix})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="proxy", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)
