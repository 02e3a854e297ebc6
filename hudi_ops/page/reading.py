"""Routes that read the registry: the list, the page of one table, scripts and styles."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query, Request
from jinja2 import Environment, FileSystemLoader, select_autoescape
from starlette.responses import HTMLResponse, Response

from hudi_ops.clock import SystemClock
from hudi_ops.errors import HudiOpsError
from hudi_ops.page import asset_files, formats
from hudi_ops.page.facts import STALE_MS, check_names, listed, shown
from hudi_ops.page.lanes import MARKS, shape, word_of
from hudi_ops.page.rights import reader_of
from hudi_ops.page.services import SERVICES
from hudi_ops.page.threads import in_thread
from hudi_ops.registry.database import opened
from hudi_ops.registry.rows import NAME_MAX
from hudi_ops.registry.store import list_tables, runs_of, table_named

SIZE = 50
"""Tables of a page of the list."""

RUNS_MAX = 50
"""Runs of a table that are shown."""

FRESH_S = 300
"""Seconds after which an unchanged page is sent again, since it says how long ago things were."""

KNOWN = "x-known"
"""Header of a request of htmx: token of the page that the browser shows. In the address it would be kept with it."""

Sort = Literal["worst", "name", "run", "seen"]

HTMX = {
    "allowEval": False,
    "allowScriptTags": False,
    "attributesToSettle": ["class"],
    "disableInheritance": True,
    "historyCacheSize": 0,
    "includeIndicatorStyles": False,
    "refreshOnHistoryMiss": True,
    "responseHandling": [{"code": "204", "swap": False}, {"code": "...", "swap": True}],
    "selfRequestsOnly": True,
    "timeout": 20_000,
}
"""Settings of htmx: nothing inline, nothing of a table in the browser's storage, and errors are shown where the answer would be."""


def router() -> APIRouter:
    """Return the routes."""
    made = APIRouter(default_response_class=HTMLResponse)
    made.add_api_route("/", tables, methods=["GET"])
    made.add_api_route("/tables/{name}", table, methods=["GET"])
    made.add_api_route("/assets/{file}", asset, methods=["GET"])
    return made


async def tables(
    request: Request,
    search: str = "",
    sort: Sort = "worst",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> Response:
    """Show the list of tables."""
    return await in_thread(partial(_tables, request, search, sort, page))


async def table(request: Request, name: str) -> Response:
    """Show one table.

    Raises:
        HTTPException: 404 for a name that the registry does not have.
    """
    return await in_thread(partial(_table, request, name))


def _tables(request: Request, search: str, sort: Sort, page: int) -> Response:
    now_ms, search = SystemClock().now_ms(), formats.plain_search(search)
    found = list_tables(opened(), search=search, sort=sort, page=page, size=SIZE, now_ms=now_ms)
    rows = [listed(row, now_ms) for row in found.rows]
    facts = {
        "found": found,
        "rows": rows,
        "checks": check_names(rows),
        "search": search,
        "sort": sort,
        "pages": max(1, -(-found.total // found.size)),
    }
    return _page(request, "list.html", facts, now_ms)


def _table(request: Request, name: str) -> Response:
    """Return the page of one table.

    Raises:
        HTTPException: 404 for a name that the registry does not have.
    """
    engine, now_ms = opened(), SystemClock().now_ms()
    details = table_named(engine, name, now_ms=now_ms) if formats.is_name(name) else None
    if details is None:
        short = name if len(name) <= NAME_MAX else f"{name[:NAME_MAX]}…"
        raise HTTPException(
            404,
            f"The registry has no table {short!r}. The DAG health registers each table of tables.yaml, and so does "
            "`hudi-ops registry refresh --all`.",
        )
    runs = runs_of(engine, details.row.id, RUNS_MAX, now_ms=now_ms)
    facts = {"t": shown(details, runs, reader_of(request), now_ms)}
    return _page(request, "table.html", facts, now_ms)


def asset(file: str, v: str = "") -> Response:
    """Send a script or a style."""
    return asset_files.answer(file, v)


def error_page(
    request: Request,
    status: int,
    title: str,
    message: str,
    next_step: str = "",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a page that says what went wrong; all texts are escaped.

    The part that htmx shows in place of another one renews itself as that did.
    """
    asked = request.headers.get("hx-target", "") if request.headers.get("hx-request") == "true" else ""
    facts = {"status": status, "title": title, "message": message, "next_step": next_step, "asked": asked}
    return HTMLResponse(
        _rendered(request, "error.html", facts, SystemClock().now_ms()), status, headers=dict(headers or {})
    )


def registry_page(request: Request, error: HudiOpsError) -> Response:
    """Return a page that says that the registry cannot be used, and with which command it can."""
    found = f" (expected {error.expected}, found {error.found})" if error.expected and error.found else ""
    next_step = error.next_step or "run `hudi-ops registry list` where the API server runs: it says what is wrong"
    return error_page(request, 503, "The registry cannot be used", f"{error.what}{found}", next_step)


def _page(request: Request, template: str, facts: Mapping[str, Any], now_ms: int) -> Response:
    """Return a page; nothing if the browser has it, apart from how long ago things were."""
    told = repr((facts, reader_of(request).name, now_ms // 1000 // FRESH_S))
    token = hashlib.sha256(told.encode()).hexdigest()[:16]
    if request.headers.get(KNOWN) == token:
        return Response(status_code=204)
    return HTMLResponse(_rendered(request, template, {**facts, "token": token}, now_ms))


def _rendered(request: Request, template: str, facts: Mapping[str, Any], now_ms: int) -> str:
    up = "../" * _depth(request)

    def when(ms: float | None) -> str:
        return formats.when(ms, now_ms)

    def age(ms: float | None) -> str:
        return formats.duration(None if ms is None else max(0.0, now_ms - ms) / 1000)

    return (
        _environment()
        .get_template(template)
        .render(
            facts,
            age=age,
            up=up,
            root=up or "./",
            airflow=f"{up}../",
            htmx=json.dumps(HTMX),
            when=when,
            now_ms=now_ms,
            services=json.dumps([*SERVICES]),
        )
    )


def _depth(request: Request) -> int:
    """Return how many folders below the page's root the address lies, as the browser sees it."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    path = raw.decode("latin1").partition("?")[0]
    return max(0, path.removeprefix(str(request.scope.get("root_path", ""))).count("/") - 1)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(asset=asset_files.address, marks=MARKS, shape=shape, stale_ms=STALE_MS, word_of=word_of)
    made.filters.update(
        code_marked=formats.code_marked,
        count=formats.count,
        duration=formats.duration,
        mark=formats.mark,
        measured=formats.measured,
        run_address=formats.run_address,
        size=formats.size,
        spaced=lambda text: str(text).replace("_", " "),
    )
    return made
