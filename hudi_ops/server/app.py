"""Routes of the timeline server: an ASGI application of Starlette.

| request | answer |
|---|---|
| `POST /v1/tables/{name}/{table id}/{start}/{digest}/files` | files of partitions, in the form of `view/remote/wire.py` |
| `GET /v1/tables/{name}/{table id}/{start}/{digest}/partitions` | names of partitions and their numbers of files |
| `GET /v1/tables/{name}` | id, start and digest of the newest state |
| `GET /v1/status` | counts, ages and bytes |
| `GET /health`, `GET /ready` | whether the process runs, and whether it has looked at each table |
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hudi_ops.config.tables_file import TableLocation
from hudi_ops.server.encoding import Cache
from hudi_ops.server.limits import Limits
from hudi_ops.server.questions import Address, FilesQuestion, OpenAnswers, Refused, deadline_s
from hudi_ops.server.table import ServedTable
from hudi_ops.server.table_reader import TableReader
from hudi_ops.view.remote.wire import DEADLINE_HEADER, MEDIA_TYPE

logger = logging.getLogger(__name__)

READERS, ENCODERS = 8, 2
"""Threads that read storage, and that encode: storage which hangs must not keep held states from being served."""

_HELD = "hudi_ops.held"
"""Key of a request's scope with what is given back at its end."""

_OPEN_TO_ALL = frozenset({"/health", "/ready"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,199}", re.ASCII)


@dataclass
class Server:
    """Tables of a server, and what it counts."""

    tables: Mapping[str, ServedTable]
    limits: Limits
    cache: Cache
    token: str = ""
    open_answers: OpenAnswers = field(init=False)
    began_s: float = field(default_factory=time.monotonic)
    open: int = 0
    answers: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.open_answers = OpenAnswers(self.limits.open_answers_bytes)

    @classmethod
    def of(cls, locations: Mapping[str, TableLocation], limits: Limits, token: str = "") -> Server:
        """Return the server of some tables."""
        half = limits.memory_bytes // 2
        cache = Cache(half)
        readers = ThreadPoolExecutor(READERS, "storage of the timeline server")
        encoders = ThreadPoolExecutor(ENCODERS, "encoder of the timeline server")
        tables = {
            name: ServedTable(
                TableReader(location, limits, half // max(1, len(locations))), limits, cache, readers, encoders
            )
            for name, location in locations.items()
        }
        return cls(tables, limits, cache, token)

    def app(self) -> ASGIApp:
        """Return the application."""
        state = "/v1/tables/{name}/{table_id}/{start}/{digest}"
        routes = [
            Route("/health", self.health),
            Route("/ready", self.ready),
            Route("/v1/status", self.status),
            Route("/v1/tables/{name}", self.newest),
            Route(f"{state}/partitions", self.partitions),
            Route(f"{state}/files", self.files, methods=["POST"]),
        ]
        handlers: dict[Any, Any] = {Refused: _refused, HTTPException: _http_error}
        inner = Starlette(routes=routes, exception_handlers=handlers, lifespan=self.lifespan)
        inner.router.redirect_slashes = False
        return _Gate(self, inner)

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Look at all tables in the background, while the server runs."""
        looks = [asyncio.ensure_future(table.look()) for table in self.tables.values()]
        yield
        for look in looks:
            look.cancel()

    async def health(self, request: Request) -> Response:
        """Say that the process runs."""
        return JSONResponse({"ok": True})

    async def ready(self, request: Request) -> Response:
        """Say whether each table was looked at."""
        waiting = sum(not table.looked for table in self.tables.values())
        return JSONResponse({"ready": not waiting, "waiting": waiting}, 503 if waiting else 200)

    async def status(self, request: Request) -> Response:
        """Return counts, ages and bytes."""
        cached = {"bytes": self.cache.bytes, "parts": len(self.cache), "hits": self.cache.hits}
        return JSONResponse({
            "seconds": round(time.monotonic() - self.began_s, 1),
            "open_requests": self.open - 1,
            "answers_bytes": self.open_answers.bytes,
            "answers": dict(self.answers),
            "cache": cached | {"misses": self.cache.misses, "limit_bytes": self.cache.limit_bytes},
            "tables": {name: table.status() for name, table in self.tables.items()},
        })

    async def newest(self, request: Request) -> Response:
        """Return the newest state of a table.

        Raises:
            Refused: 404 or 503, none is held.
        """
        found = self._table(request)
        if found.why_not:
            raise Refused(404, found.why_not)
        if not (newest := found.newest()):
            raise Refused(503, "the table was not read yet", 1)
        return JSONResponse(newest)

    async def partitions(self, request: Request) -> Response:
        """Return the names of the partitions of a state."""
        table, address = self._table(request), Address.of(request.path_params)
        return _Sent(await table.partitions(address, self._until_s(request)), media_type=MEDIA_TYPE)

    async def files(self, request: Request) -> Response:
        """Return the files of partitions of a state."""
        table, address, until_s = self._table(request), Address.of(request.path_params), self._until_s(request)
        wanted = FilesQuestion.of(await self._body(request, until_s), self.limits)

        def take(size_bytes: int) -> None:
            request.scope[_HELD].enter_context(self.open_answers.taking(size_bytes))  # until the answer was sent

        return _Sent(await table.files(address, wanted, until_s, take), media_type=MEDIA_TYPE)

    def _table(self, request: Request) -> ServedTable:
        """Return the table that a path names; nothing is read.

        Raises:
            Refused: 404, there is none; 400, it is no name.
        """
        name = str(request.path_params["name"])
        if (found := self.tables.get(name)) is not None:
            return found
        if _NAME.fullmatch(name):
            raise Refused(404, "unknown table")
        raise Refused(400, "it is no name of a table")

    def _until_s(self, request: Request) -> float:
        return time.monotonic() + deadline_s(request.headers.get(DEADLINE_HEADER), self.limits)

    async def _body(self, request: Request, until_s: float) -> bytes:
        """Return the body of a request.

        Raises:
            Refused: 413, it is above its limit; 408, it did not arrive within the deadline.
        """

        async def read() -> bytes:
            found = bytearray()
            async for chunk in request.stream():
                found += chunk
                if len(found) > self.limits.body_bytes:
                    raise Refused(413, f"a body may have {self.limits.body_bytes} bytes")
            return bytes(found)

        try:
            return await asyncio.wait_for(read(), until_s - time.monotonic())
        except TimeoutError:
            raise Refused(408, "the body did not arrive within the deadline") from None

    def is_allowed(self, scope: Scope) -> bool:
        """Return whether a request may be answered: it has the token, or needs none."""
        if not self.token or scope["path"] in _OPEN_TO_ALL:
            return True
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        wanted = f"Bearer {self.token}".encode()
        return len(given) == 1 and hmac.compare_digest(given[0], wanted)


class _Sent(Response):
    """Response that ends once most of it has left, so that its bytes are counted until then."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the body, and then its end: uvicorn waits there until its buffer has room."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _refused(request: Request, error: Refused) -> Response:
    headers = {} if error.retry_after_s is None else {"retry-after": str(error.retry_after_s)}
    return JSONResponse({"status": error.status, "reason": error.reason}, error.status, headers)


def _http_error(request: Request, error: HTTPException) -> Response:
    return JSONResponse({"status": error.status_code, "reason": str(error.detail)}, error.status_code, error.headers)


@dataclass
class _Gate:
    """The edge of the server: the token, the number of open requests, and errors that are left."""

    server: Server
    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        server, begun = self.server, False

        async def counted(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                server.answers[str(message["status"])] += 1
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await _refused(Request(scope), refusal)(scope, receive, counted)
            return
        server.open += 1
        held = scope[_HELD] = ExitStack()
        try:
            await self.app(scope, receive, counted)
        except ClientDisconnect:
            return
        except Exception:
            logger.exception("a request failed")
            if not begun:
                failed = Refused(503, "the request failed; see the log of the server", 1)
                await _refused(Request(scope), failed)(scope, receive, counted)
        finally:
            held.close()
            server.open -= 1

    def _refusal(self, scope: Scope) -> Refused | None:
        if not self.server.is_allowed(scope):
            return Refused(401, "no or wrong token")
        if self.server.open >= self.server.limits.open_requests and scope["path"] not in _OPEN_TO_ALL:
            return Refused(429, "too many requests", 1)
        return None
