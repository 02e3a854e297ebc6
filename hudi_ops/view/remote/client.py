"""Ask a timeline server over HTTP, with one deadline, and a pause after a failure.

A request runs in a thread of its own, which is left behind at the deadline: name look-ups have no other limit. Its connection is
shut down then, so that it ends also where headers trickle. A process has one client for each server, and a child process has its
own.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hudi_ops.config.write_settings import ViewServer
from hudi_ops.errors import InvalidRequest
from hudi_ops.view.remote.token_file import read_token
from hudi_ops.view.remote.wire import DEADLINE_HEADER

if TYPE_CHECKING:
    import urllib3

logger = logging.getLogger(__name__)

DEADLINE_S = 1.0
"""Time in which all requests of a question must be answered."""

PAUSE_S = 30.0
"""Time in which a server is not asked again after it failed."""

ANSWER_MAX_BYTES = 256 << 20
"""Largest answer that is read."""

_CHUNK_BYTES = 1 << 18


class NoAnswer(Exception):
    """The server gave no answer that may be used; says why."""


@dataclass(frozen=True)
class Reply:
    """Status and body of a response."""

    status: int
    body: bytes

    @property
    def reason(self) -> str:
        """Reason that an error gives; empty: it gives none."""
        try:
            said = json.loads(self.body)
        except (ValueError, RecursionError):
            return ""
        text = str(said.get("reason", ""))[:200] if isinstance(said, Mapping) else ""
        return text.encode(errors="replace").decode()


@dataclass
class Client:
    """Client of one server.

    Attributes:
        settings: address, token and certificates.
        counts: questions by how they ended.
        now_s: monotonic time.
        closed_until_s: time until which the server is not asked.
    """

    settings: ViewServer
    counts: Counter[str] = field(default_factory=Counter)
    now_s: Callable[[], float] = time.monotonic
    closed_until_s: float = 0.0
    _failed: bool = False
    _is_probed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _pool: urllib3.PoolManager | None = None

    @property
    def is_open(self) -> bool:
        """Whether the server may be asked: it did not fail within `PAUSE_S`."""
        return self.now_s() >= self.closed_until_s

    @contextmanager
    def asking(self) -> Iterator[Deadline]:
        """Ask one question inside the `with` block.

        After a failure the server is not asked for `PAUSE_S`; then one thread asks, and the others once it was answered.

        Raises:
            NoAnswer: the server failed, in this block or shortly before.
        """
        is_probe = self._begin()
        try:
            yield Deadline(self, self.now_s() + DEADLINE_S)
        except NoAnswer:
            self.fail()
            raise
        except Exception:  # it was answered: the state is unknown, or the answer is bad
            self._failed = False
            raise
        else:
            self._failed = False
        finally:
            if is_probe:
                self._is_probed = False

    def fail(self) -> None:
        """Do not ask the server for `PAUSE_S`."""
        self._failed, self.closed_until_s = True, self.now_s() + PAUSE_S

    def _begin(self) -> bool:
        with self._lock:
            if not self.is_open:
                self.counts["not asked"] += 1
                raise NoAnswer("it failed shortly before")
            if not self._failed:
                return False
            if self._is_probed:
                self.counts["not asked"] += 1
                raise NoAnswer("another thread finds out whether it answers again")
            self._is_probed = True
            return True

    def pool(self) -> urllib3.PoolManager:
        """Return the pool of connections.

        Raises:
            NoAnswer: urllib3 is not installed.
        """
        if self._pool is None:
            try:
                import urllib3
            except ImportError:
                raise NoAnswer("urllib3 is not installed: pip install 'hudi-ops[server]'") from None
            self._pool = urllib3.PoolManager(
                num_pools=1, maxsize=4, retries=False, ca_certs=self.settings.ca_file, cert_reqs="CERT_REQUIRED"
            )
            self._pool.pool_classes_by_scheme = _pools()
        return self._pool

    def headers(self, deadline_s: float) -> dict[str, str]:
        """Return the headers of a request, with the token.

        Raises:
            NoAnswer: the token cannot be read, or other users can read it.
        """
        found = {DEADLINE_HEADER: str(max(1, int((deadline_s - self.now_s()) * 1000)))}
        if (path := self.settings.token_file) is not None:
            try:
                found["authorization"] = f"Bearer {read_token(path)}"
            except InvalidRequest as error:
                raise NoAnswer(str(error)) from error
        return found


@dataclass(frozen=True)
class Deadline:
    """Requests of one question, which end together."""

    client: Client
    at_s: float

    def request(self, method: str, path: str, body: bytes | None = None) -> Reply:
        """Send a request, again if the connection broke, and return the response.

        Raises:
            NoAnswer: the server did not answer in time, is overloaded, or refuses this client.
        """
        pool, headers = self.client.pool(), self.client.headers(self.at_s)
        exchange = _Exchange(pool, method, self.client.settings.url + path, body, headers, self.at_s, self.client.now_s)
        reply = exchange.run()
        if reply.status in {401, 403, 429} or reply.status >= 500:
            raise NoAnswer(f"it answered {reply.status} {reply.reason}".rstrip())
        return reply


@dataclass
class _Exchange:
    """One request in a thread of its own."""

    pool: urllib3.PoolManager
    method: str
    url: str
    body: bytes | None
    headers: dict[str, str]
    deadline_s: float
    now_s: Callable[[], float]
    reply: Reply | None = None
    error: Exception | None = None
    is_left: bool = False

    def run(self) -> Reply:
        """Wait for the response until the deadline.

        Raises:
            NoAnswer: there is none.
        """
        thread = threading.Thread(target=self._work, name="view of the timeline server", daemon=True)
        thread.start()
        thread.join(max(0.0, self.deadline_s - self.now_s()))
        self.is_left = True
        if thread.is_alive():
            _shut(thread.ident)
            # A later reply is not used: the shutdown looks like the end of the headers.
            raise NoAnswer("it took too long")
        if self.reply is not None:
            return self.reply
        if self.error is None or self._left_s() <= 0:  # an error at the deadline is its consequence
            raise NoAnswer("it took too long")
        raise NoAnswer(f"{type(self.error).__name__}: {self.error}")

    def _work(self) -> None:
        try:
            self._try_twice()
        finally:
            _in_use.pop(threading.get_ident(), None)

    def _try_twice(self) -> None:
        import urllib3

        for tried in range(2):
            try:
                self.reply = self._exchanged()
                return
            except (
                urllib3.exceptions.ProtocolError
            ) as error:  # the connection broke, perhaps one that was kept too long
                self.error = error
                if tried or self._left_s() <= 0:
                    return
            except Exception as error:  # noqa: BLE001 - the edge of a thread: the caller raises it
                self.error = error
                return

    def _exchanged(self) -> Reply:
        import urllib3

        wait = urllib3.Timeout(total=max(0.001, self._left_s()))
        response = self.pool.request(
            self.method,
            self.url,
            body=self.body,
            headers=self.headers,
            timeout=wait,
            preload_content=False,
            redirect=False,
            decode_content=False,
        )
        found = bytearray()
        try:
            while chunk := response.read1(_CHUNK_BYTES, decode_content=False):
                found += chunk
                if len(found) > ANSWER_MAX_BYTES:
                    raise NoAnswer(f"its answer is above {ANSWER_MAX_BYTES:,} bytes")
                if self.is_left:
                    raise NoAnswer("it took too long")
        except BaseException:
            response.close()  # the rest is not read
            raise
        response.release_conn()
        return Reply(response.status, bytes(found))

    def _left_s(self) -> float:
        return self.deadline_s - self.now_s()


_in_use: dict[int, Any] = {}
"""Connections with a request, by thread."""


def _pools() -> dict[str, Any]:
    """Return the classes of pools by scheme, whose connections are known by thread."""
    import urllib3
    from urllib3.connection import HTTPConnection, HTTPSConnection

    class Plain(HTTPConnection):
        def request(self, *args: Any, **options: Any) -> None:
            _in_use[threading.get_ident()] = self
            super().request(*args, **options)

    class Secure(HTTPSConnection):
        def request(self, *args: Any, **options: Any) -> None:
            _in_use[threading.get_ident()] = self
            super().request(*args, **options)

    class PlainPool(urllib3.HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}


def _shut(thread: int | None) -> None:
    """Shut down the connection of a thread, whose reads then end."""
    opened = getattr(_in_use.get(thread or 0), "sock", None)
    if opened is not None:
        with suppress(OSError):
            socket.socket.shutdown(opened, socket.SHUT_RDWR)


_clients: dict[tuple[int, Any], Client] = {}


def client_of(settings: ViewServer) -> Client:
    """Return this process's client of a server; all tables share it."""
    server = settings.model_copy(update={"table": None})
    key = (os.getpid(), server)
    found = _clients.get(key)
    if found is None:
        found = _clients.setdefault(key, Client(server))
    return found
