"""Routes that act on one table: take a fresh look, preview a command, cancel a plan.

A route checks rights and the form of the request; the work is done in a child process (`child.py`, `work/`). Runs of services are
not started here: the page asks Airflow's own API for them, which checks rights and records the user.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from hudi_ops.config.places import PROGRAM
from hudi_ops.page.child import Answered, Children, Work
from hudi_ops.page.formats import is_name
from hudi_ops.page.rights import Reader, Rights, reader_of
from hudi_ops.page.services import SERVICES, WORD_MAX, WORDS_MAX, Service, dag_ids, service_of
from hudi_ops.redaction import redacted

BODY_MAX = 64 << 10
"""Most bytes of a request's body."""

REASON_MAX = 1_000
"""Most characters of the reason of a cancel."""

_INSTANT = re.compile("[0-9]{17}")

B = TypeVar("B", bound=BaseModel)
Word = Annotated[str, Field(max_length=WORD_MAX)]


class Refused(HTTPException):
    """Refusal of a request, whose detail is the JSON object of the answer."""

    def __init__(self, status: int, error: str, message: str, next_step: str = "") -> None:
        super().__init__(status, {"error": error, "message": message, "next_step": next_step})


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class LookBody(_Body):
    """Body of a fresh look and of a look at a plan: it has no fields."""


class PreviewBody(_Body):
    """Words of the command that is previewed, without the program."""

    command: list[Word] = Field(min_length=2, max_length=WORDS_MAX)


class StateBody(_Body):
    """Digest that a preview returned."""

    digest: str = Field(pattern=r"^-?[0-9]{1,12}\.[0-9a-f]{64}$")


class CancelBody(_Body):
    """Which plan is cancelled, and why."""

    instant: str = Field(pattern=r"^[0-9]{17}$")
    reason: str = Field(min_length=1, max_length=REASON_MAX)
    force: bool = False

    @field_validator("reason")
    @classmethod
    def _is_one_line(cls, reason: str) -> str:
        said = reason.strip()
        if not said.isprintable() or not said:
            raise ValueError("say in one line of printable characters why the plan is cancelled")
        return said


def router(rights: Rights, children: Children) -> APIRouter:
    """Return the routes that act on a table.

    Args:
        rights: of users.
        children: do the work.
    """
    routes = APIRouter()

    async def answered(request: Request, work: Work) -> Response:
        found: Answered = await children.answer(work, _disconnected(request))
        return Response(found.body, found.status, dict(found.headers), "application/json")

    @routes.post("/tables/{name}/look")
    async def look(request: Request, name: str) -> Response:
        """Judge and picture a table now, and keep both in the registry."""
        table, reader = _table(name), reader_of(request)
        await _body(request, LookBody)
        await _refuse_without(lambda: _may_act(reader, table), "look at a table")
        await rights.log(request, reader, "hudi_ops.look", {"table": table})
        return await answered(request, Work("look", table, _shell("registry", "refresh", table)))

    @routes.post("/tables/{name}/preview")
    async def preview(request: Request, name: str) -> Response:
        """Return what a command would do, and the configuration of the DAG run that does it.

        Raises:
            Refused: no DAG does it.
        """
        table, reader = _table(name), reader_of(request)
        body = await _body(request, PreviewBody)
        service = service_of(body.command)
        if service is None:
            raise Refused(422, "InvalidRequest", "no DAG does this", "run the command in a shell")
        await _refuse_without(lambda: _may_run(reader, service, table), f"preview what the DAG {service.dag} runs")
        said = redacted(shlex.join(body.command))[:WORD_MAX]
        await rights.log(request, reader, "hudi_ops.preview", {"table": table, "command": said})
        options = ("--dry-run",) if service.previews else ()
        work = Work("preview", table, _shell(*body.command, *options), body.model_dump())
        return await answered(request, work)

    @routes.post("/tables/{name}/state")
    async def state(request: Request, name: str) -> Response:
        """Return whether a table has changed since a preview."""
        table, reader = _table(name), reader_of(request)
        body = await _body(request, StateBody)
        await _refuse_without(lambda: _may_act(reader, table), "look at a table")
        work = Work("state", table, _shell("timeline", table), body.model_dump())
        return await answered(request, work)

    @routes.post("/tables/{name}/cancel")
    async def cancel(request: Request, name: str) -> Response:
        """Cancel a plan; the audit log and the CANCEL entry name the user."""
        table, reader = _table(name), reader_of(request)
        await _refuse_without(lambda: reader.may_cancel, "cancel plans")
        body = await _body(request, CancelBody)
        await rights.log(request, reader, "hudi_ops.cancel", {"table": table, **body.model_dump()})
        forced = ("--force",) if body.force else ()
        command = _shell("cancel", table, body.instant, "--reason", body.reason, *forced)
        values = {**body.model_dump(), "requester": reader.name}
        return await answered(request, Work("cancel", table, command, values, decides=True))

    @routes.post("/tables/{name}/plans/{instant}")
    async def plan(request: Request, name: str, instant: str) -> Response:
        """Return the state of one plan now.

        Raises:
            Refused: a malformed instant.
        """
        table, reader = _table(name), reader_of(request)
        if not _INSTANT.fullmatch(instant):
            raise Refused(422, "InvalidRequest", "this is no instant", "give its 17 digits")
        await _body(request, LookBody)
        await _refuse_without(lambda: reader.may_cancel or _may_act(reader, table), "look at a plan")
        return await answered(request, Work("plan", table, _shell("plans", table, instant), {"instant": instant}))

    return routes


def _shell(*words: str) -> str:
    return shlex.join([PROGRAM, *words])


def _table(name: str) -> str:
    """Return the name of a table.

    Raises:
        Refused: 404, no table can have it.
    """
    if not is_name(name):
        raise Refused(404, "NotFound", f"there is no table {name[:100]!r}", "open the list of tables")
    return name


def _may_run(reader: Reader, service: Service, table: str) -> bool:
    return any(map(reader.may_run, dag_ids(service, table)))


def _may_act(reader: Reader, table: str) -> bool:
    """Return whether a user may start `health` or any service.

    Other users may not make the server start a process.
    """
    return reader.may_run("health") or any(_may_run(reader, one, table) for one in SERVICES.values())


async def _refuse_without(is_allowed: Callable[[], bool], to_do: str) -> None:
    """Refuse a user without a right.

    A thread asks for it, since Airflow asks its database.

    Raises:
        Refused: 403.
    """
    if not await run_in_threadpool(is_allowed):
        what = "the DAG cancel" if to_do == "cancel plans" else "one of its DAGs"
        raise Refused(403, "Forbidden", f"you may not {to_do}: that needs the right to start runs of {what}")


async def _body(request: Request, model: type[B]) -> B:
    """Return the body of a request.

    Raises:
        Refused: 415 for another type than JSON, 413 for too many bytes, 422 for wrong values.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, "InvalidRequest", "the body must be JSON", "send Content-Type: application/json")
    given = bytearray()
    async for some in request.stream():
        given += some
        if len(given) > BODY_MAX:
            raise Refused(413, "InvalidRequest", f"the body has more than {BODY_MAX:,} bytes")
    try:
        return model.model_validate_json(bytes(given) or b"{}")
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, problem["loc"])) or "body"
        message = f"{where[:100]}: {problem['msg'].removeprefix('Value error, ')}"
        raise Refused(422, "InvalidRequest", message, "correct it, and send it again") from None


async def _disconnected(request: Request) -> None:
    """Return once the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
