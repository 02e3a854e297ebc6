"""Add the page of Hudi tables to Airflow's UI.

Each process of Airflow loads this module by the entry point `airflow.plugins`, so it imports nothing heavy: the page is made at its
first request, which only the API server gets.
"""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from airflow.plugins_manager import AirflowPlugin

PREFIX = "/hudi-ops"
"""Where the page is mounted."""

_LOG = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class LazyPage:
    """ASGI application that makes the page at its first request.

    Each worker of the API server makes its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: App | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; without the page it is refused."""
        import asyncio

        page = self._made
        try:
            # In a thread: loading it takes a second, and the server answers heartbeats of tasks as well.
            page = page if page is not None else await asyncio.to_thread(self.page)
        except Exception:  # noqa: BLE001 - the edge of the application: without it Airflow would answer for it
            _LOG.exception("the page of Hudi tables cannot be made")
            await _refuse(scope, send)
            return
        await page(scope, receive, send)

    def page(self) -> App:
        """Return the page; the first call makes it."""
        with self._lock:
            if self._made is None:
                from hudi_ops.plugins.hudi_ops_security import guarded_page

                made: App = guarded_page()
                self._made = made
                # The server has loaded what it needs by now. Otherwise each twenty large pages make the garbage collector look at
                # all of its 650,000 objects, which takes 0.4 s, in which no heartbeat of a task is answered.
                gc.freeze()
            return self._made


async def _refuse(scope: Scope, send: Send) -> None:
    """Answer that the page cannot be shown, and nothing else: no rights are known."""
    if scope["type"] != "http":
        await send({"type": "websocket.close", "code": 1011})
        return
    said = "The page of Hudi tables cannot be loaded: the log of Airflow's API server says why. Is hudi-ops[page] installed?\n"
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"content-security-policy", b"default-src 'none'; frame-ancestors 'self'"),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": said.encode()})


class HudiOpsPagePlugin(AirflowPlugin):
    """Page of Hudi tables: an application below `/hudi-ops`, and its place in the navigation."""

    name = "hudi_ops_page"
    fastapi_apps = [{"app": LazyPage(), "url_prefix": PREFIX, "name": "Hudi tables"}]  # noqa: RUF012 - as Airflow's class has it
    external_views = [  # noqa: RUF012
        {
            # Relative addresses: browsers resolve them below the path at which a proxy shows Airflow.
            "name": "Hudi",
            "href": f"{PREFIX.removeprefix('/')}/",
            "destination": "nav",
            "url_route": "hudi-ops",
            "icon": f"{PREFIX.removeprefix('/')}/assets/icon.svg",
            "icon_dark_mode": f"{PREFIX.removeprefix('/')}/assets/icon-dark.svg",
        }
    ]
