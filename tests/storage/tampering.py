"""A door before a server that passes requests on, except as its rule says: a store without conditions, a lost reply."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import obstore
import pytest

from hudi_ops.storage import bucket
from hudi_ops.storage.object_store import ObjectStorage

CONDITION = "if-none-match"


@dataclass
class Rules:
    """What the door does to a request, by method and path; and what came by."""

    drop_condition: bool = False
    lose_reply: Callable[[str, str], bool] = lambda method, path: False
    cut_reply: Callable[[str, str], bool] = lambda method, path: False
    refuse: Callable[[str, str], int] = lambda method, path: 0
    seen: list[tuple[str, str, bool]] = field(default_factory=list)


@contextmanager
def door(endpoint: str, rules: Rules) -> Iterator[str]:
    """URL of the door while the block runs."""
    target = urlsplit(endpoint)

    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # one packet for an answer

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            rules.seen.append((self.command, self.path, CONDITION in self.headers))
            if status := rules.refuse(self.command, self.path):
                self.answer(status, [], b"")
                return
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            is_signed = headers.get("authorization", "").startswith("SharedKey ")  # with every header that it has
            if rules.drop_condition and not is_signed:
                headers = {name: value for name, value in headers.items() if name.lower() != CONDITION}
            inner = http.client.HTTPConnection(target.hostname or "", target.port)
            inner.request(self.command, self.path, body, headers)
            reply = inner.getresponse()
            content = reply.read()
            if rules.drop_condition and is_signed and reply.status == 409:
                self.answer(201, [("ETag", '"1"'), ("Last-Modified", reply.headers["Date"])], b"")
                return
            if rules.lose_reply(self.command, self.path):
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if rules.cut_reply(self.command, self.path):
                self.answer(reply.status, reply.getheaders(), content, sent=len(content) // 2)
                return
            self.answer(reply.status, reply.getheaders(), content)

        def answer(self, status: int, headers: list[tuple[str, str]], content: bytes, sent: int | None = None) -> None:
            self.send_response_only(status)
            kept = [each for each in headers if each[0].lower() not in {"connection", "transfer-encoding"}]
            if not any(name.lower() == "content-length" for name, _ in kept):
                kept.append(("Content-Length", str(len(content))))
            for name, value in kept:
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content[:sent])
            if sent is not None:
                self.wfile.flush()
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def keys(storage: ObjectStorage) -> list[str]:
    """All of the bucket, hidden files too."""
    return [each["path"] for each in obstore.list(storage._client()).collect()]


def retry_at_once(monkeypatch: pytest.MonkeyPatch, retries: int) -> None:
    """Let the client library wait for nothing; one more lost reply than retries is a failure that reaches the caller."""
    backoff = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=2), "base": 2}
    settings = {"max_retries": retries, "retry_timeout": timedelta(seconds=5), "backoff": backoff}
    monkeypatch.setattr(bucket, "_RETRIES", settings)
