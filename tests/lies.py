"""A proxy before a timeline server that delays, cuts, replays and alters answers, and the ways to alter one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyarrow as pa
import urllib3

from hudi_ops.view.columns.files import ROWS
from hudi_ops.view.remote.wire import Answer, Head, Part, decode, encode, sealed, sections

Lie = Callable[[str, bytes], bytes]
"""Returns what a client gets in place of the answer to a path."""


@dataclass
class Proxy:
    """A proxy, with what it does to answers.

    Attributes:
        url: where clients reach it.
        lie: what it does to a body; None: nothing.
        wait_s: time before it answers.
        cut: bytes that it leaves out at the end of a body, whose length it announced.
        seen: paths that were asked for.
    """

    url: str = ""
    target: str = ""
    lie: Lie | None = None
    wait_s: float = 0.0
    cut: int = 0
    told: int = 0
    seen: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def honest(self) -> None:
        """Do nothing to answers from now on."""
        self.lie, self.wait_s, self.cut = None, 0.0, 0


@contextmanager
def lying(target: str) -> Iterator[Proxy]:
    """Run a proxy before a server."""
    proxy, pool = Proxy(target=target), urllib3.PoolManager(maxsize=32, retries=False)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._relay("GET")

        def do_POST(self) -> None:
            self._relay("POST")

        def _relay(self, method: str) -> None:
            proxy.seen.append(self.path)
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            try:
                found = pool.request(method, proxy.target + self.path, body=body or None, headers=headers, timeout=30)
                status, said = found.status, found.data
            except urllib3.exceptions.HTTPError:
                status, said = 502, b""
            if proxy.lie is not None and status == 200:
                altered = proxy.lie(self.path, said)
                proxy.told += altered != said
                said = altered
            if proxy.wait_s:
                proxy.stopped.wait(proxy.wait_s)
            try:
                self.send_response(status)
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said[: len(said) - proxy.cut] if proxy.cut else said)
            except OSError:  # the client has gone
                self.close_connection = True
            if proxy.cut:
                self.close_connection = True

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield proxy
    finally:
        proxy.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join(30)


def altered(
    body: bytes, head: Callable[[Head], Head] | None = None, rows: Callable[[list[dict[str, Any]]], Any] | None = None
) -> bytes:
    """Return an answer with another head, or with other rows in its partition with most files, and a checksum that matches."""
    found = decode(body)
    said, parts = found.head, _parts(found)
    if rows is not None and found.files:
        at = max(range(len(said.partitions)), key=lambda at: said.partitions[at][1])
        now = rows(rows_of(found)[said.partitions[at][0]])
        parts[at] = Part.of(pa.RecordBatch.from_pylist(now, ROWS))
        partitions = list(said.partitions)
        partitions[at] = (partitions[at][0], len(now))
        said = replace(said, partitions=tuple(partitions))
    return encode(head(said) if head is not None else said, parts, _ahead(found))


def rows_of(found: Answer) -> dict[str, list[dict[str, Any]]]:
    whole = pa.Table.from_batches(found.files, ROWS).to_pylist()
    every, low = {}, 0
    for path, count in found.head.partitions:
        every[path] = whole[low : low + count]
        low += count
    return every


def _parts(found: Answer) -> list[Part]:
    return [Part.of(pa.RecordBatch.from_pylist(rows, ROWS)) for rows in rows_of(found).values()]


def _ahead(found: Answer) -> Sequence[Part]:
    return [Part.of(batch) for batch in found.ahead]


def unsealed(body: bytes, rows: Callable[[list[dict[str, Any]]], Any]) -> bytes:
    """Return an answer with other rows, and the checksum that it had."""
    now = altered(body, rows=rows)
    return now[:-12] + body[-12:]


def flipped(body: bytes, at: float) -> bytes:
    """Return an answer with one byte changed."""
    found = bytearray(body)
    found[int(at * (len(found) - 1))] ^= 0x04
    return bytes(found)


def with_text(body: bytes, **said: Any) -> bytes:
    """Return an answer with other words in its description, and a checksum that matches."""
    files, ahead, text, _ = sections(body)
    return sealed(files, ahead, json.dumps({**json.loads(text), **said}).encode())
