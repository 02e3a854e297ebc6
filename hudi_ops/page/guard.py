"""Refuse requests without rights and changes from other sites; add headers to every answer.

The guard stands before the routes, so that a route that is added later, an unknown path and a wrong method are guarded as well,
and no body is read before the rights are known.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from urllib.parse import urlsplit

from fastapi import HTTPException, Request
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hudi_ops.page.rights import Rights

POLICY = (
    "default-src 'none'; base-uri 'none'; img-src 'self' data:; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'self'"
)
"""Content-Security-Policy: nothing comes from, or goes to, another server, and no script or style is inline."""

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "x-hudi-ops": "page",
}
"""Headers of every answer; scripts take an answer without the last one for that of a proxy, and do not show it."""

NO_STORE = "no-store"
"""Cache-Control of every answer that does not say another one."""

READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""

Answer = Callable[[Request, HTTPException], Awaitable[Response]]
"""Makes the answer to a request that is refused."""


class Guard:
    """ASGI middleware that checks rights first, then the site that asks.

    `request.state.reader` is the user.

    Args:
        app: what is guarded.
        rights: say who asks.
        answer: makes the answer to a refused request.
        origins: of this server as browsers know it, beside scheme and host of the request.
    """

    def __init__(self, app: ASGIApp, rights: Rights, answer: Answer, origins: Collection[str] = ()) -> None:
        self._app = app
        self._rights = rights
        self._answer = answer
        self._origins = frozenset(map(origin_of, origins))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                add_headers(MutableHeaders(scope=message))
            await send(message)

        request = Request(scope, receive)
        try:
            request.state.reader = await self._rights.reader(request)
            refuse_cross_site(request, self._origins)
        except HTTPException as error:
            response = await self._answer(request, error)
            await response(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


def add_headers(headers: MutableHeaders) -> None:
    """Add the headers of every answer."""
    for name, value in HEADERS.items():
        headers[name] = value
    headers.setdefault("cache-control", NO_STORE)


def refuse_cross_site(request: Request, origins: Collection[str] = ()) -> None:
    """Refuse a changing request that a page of another site may have made.

    Browsers say so in Sec-Fetch-Site where the connection is https or loopback; elsewhere Origin must be this server's. A bearer
    token is never sent by a browser on its own.

    Args:
        request: whose rights are known.
        origins: of this server, beside scheme and host of the request, which the server has from a proxy that it trusts.

    Raises:
        HTTPException: 403 for a request of another site.
    """
    if request.method in READING or request.headers.get("authorization", "").lower().startswith("bearer "):
        return
    sites = request.headers.getlist("sec-fetch-site")
    if sites:
        is_own = all(site == "same-origin" for site in sites)
    else:
        own = {origin_of(f"{request.url.scheme}://{request.headers.get('host', '')}"), *origins}
        given = request.headers.getlist("origin")
        is_own = len(given) == 1 and bool(origin_of(given[0])) and origin_of(given[0]) in own
    if not is_own:
        raise HTTPException(
            403,
            "This request came from another site. Open the page in Airflow and try again; behind a proxy, let it pass on the "
            "headers Host and X-Forwarded-Proto, or set base_url in Airflow's section [api].",
        )


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL; empty: it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return ""
    return f"{parts.scheme}://{parts.hostname}:{port or (443 if parts.scheme == 'https' else 80)}"
