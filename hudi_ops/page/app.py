"""Make the page: an ASGI application for a program that authenticates its users."""

from __future__ import annotations

import logging
from collections.abc import Collection

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.responses import JSONResponse, Response

from hudi_ops.errors import HudiOpsError
from hudi_ops.page import acting, reading
from hudi_ops.page.child import Children
from hudi_ops.page.guard import READING, Guard, add_headers
from hudi_ops.page.rights import Rights

_LOG = logging.getLogger(__name__)


def make_app(rights: Rights, origins: Collection[str] = (), children: Children | None = None) -> FastAPI:
    """Return the page.

    Args:
        rights: of users; every route asks them first.
        origins: URLs under which browsers know the server, if a proxy hides its name.
        children: do what reads or changes a table; None: those of this process.
    """
    app = FastAPI(title="Hudi tables", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(reading.router())
    app.include_router(acting.router(rights, children or Children()))
    app.add_middleware(Guard, rights=rights, answer=_refused, origins=origins)
    app.add_exception_handler(AnyHTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HudiOpsError, _failed)
    app.add_exception_handler(Exception, _unexpected)
    return app


async def _refused(request: Request, error: Exception) -> Response:
    """Answer a request that is refused: text for people, JSON for programs."""
    status = error.status_code if isinstance(error, AnyHTTPException) else 500
    detail = error.detail if isinstance(error, AnyHTTPException) else ""
    headers = dict(error.headers or {}) if isinstance(error, AnyHTTPException) else {}
    if request.method not in READING:
        said = detail if isinstance(detail, dict) else {"error": _phrase(status), "message": str(detail)}
        return JSONResponse(said, status, headers=headers)
    return reading.error_page(request, status, _phrase(status), str(detail), headers=headers)


async def _invalid(request: Request, error: Exception) -> Response:
    """Answer a request with values that are not allowed."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    said = "; ".join(f"{'.'.join(map(str, one['loc'][1:])) or 'request'}: {one['msg']}" for one in found)
    return await _refused(request, HTTPException(422, said))


async def _failed(request: Request, error: Exception) -> Response:
    """Answer with an error of the library: the registry cannot be used."""
    assert isinstance(error, HudiOpsError)  # noqa: S101 - the handler is called for these alone
    return reading.registry_page(request, error)


async def _unexpected(request: Request, error: Exception) -> Response:
    """Answer after a fault of the page; the log has it."""
    _LOG.error("the page failed", exc_info=error)
    text = "This is a fault of the page. The log of Airflow's API server has its cause."
    response = await _refused(request, HTTPException(500, text))
    add_headers(response.headers)
    return response


def _phrase(status: int) -> str:
    """Return what a status means."""
    return str(AnyHTTPException(status).detail)
