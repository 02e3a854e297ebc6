"""Every route of every application that plugins add to Airflow, and how it answers whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.routing import Mount
from starlette.testclient import TestClient

VALUES = {"name": "trips", "instant": "20260601000000000", "file": "page.css"}
"""Values of path parameters; a route with another one fails here."""

READING = {"GET", "HEAD", "OPTIONS"}


@dataclass(frozen=True)
class Address:
    """A route of a plugin as a request sees it."""

    method: str
    path: str

    @property
    def changes(self) -> bool:
        """Whether a request may change something."""
        return self.method not in READING


def addresses_of(app: Any, prefix: str) -> Iterator[Address]:
    """Yield the routes of an application, those of mounted ones and an unknown path included."""
    app = app.page() if hasattr(app, "page") else app
    for route in app.routes:
        if isinstance(route, Mount):
            yield from addresses_of(route.app, prefix + route.path)
        else:
            path = prefix + route.path.format(**VALUES)
            yield from (Address(method, path) for method in sorted(route.methods))
    yield Address("GET", f"{prefix}/no/such/route")
    yield Address("POST", f"{prefix}/no/such/route")


def plugin_addresses() -> list[Address]:
    """Return the routes of all plugins that Airflow has loaded."""
    from airflow import plugins_manager

    apps, _ = plugins_manager.get_fastapi_plugins()
    return [address for one in apps for address in addresses_of(one["app"], one["url_prefix"])]


def answers(
    client: TestClient, addresses: list[Address], headers: Mapping[str, str], cookies: Mapping[str, str] | None = None
) -> dict[Address, int]:
    """Return the status of each route for a caller."""
    client.cookies.clear()
    for name, value in (cookies or {}).items():
        client.cookies.set(name, value)
    found = {}
    for one in addresses:
        body = {"content": b"{}", "headers": {"content-type": "application/json", **headers}}
        found[one] = client.request(one.method, one.path, **(body if one.changes else {"headers": headers})).status_code
    client.cookies.clear()
    return found
