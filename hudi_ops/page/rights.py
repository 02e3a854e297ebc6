"""Define the rights that the mounting program supplies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fastapi import Request


@dataclass(frozen=True)
class Reader:
    """User who may read the page.

    Attributes:
        name: as logs and cancels show it.
        may_run: tells of the id of a DAG whether the user may start a run of it. It may ask a database, so it is never called in
            the event loop.
    """

    name: str
    may_run: Callable[[str], bool] = field(default=lambda dag_id: False)

    @property
    def may_cancel(self) -> bool:
        """Whether the user may cancel plans: a user who may start the DAG `cancel` may."""
        return self.may_run("cancel")


def reader_of(request: Request) -> Reader:
    """Return the user of a request, whom the guard has put into it."""
    reader: Reader = request.state.reader
    return reader


class Rights(Protocol):
    """Rights of users, by the program that mounts the page."""

    async def reader(self, request: Request) -> Reader:
        """Return the user of a request.

        Raises:
            HTTPException: 401 without a user, 403 without the right to read.
        """
        ...

    async def log(self, request: Request, reader: Reader, event: str, facts: Mapping[str, Any]) -> None:
        """Write an action of a user to the log of the program, before it is done.

        Args:
            request: of the action.
            reader: who acts.
            event: what is done: `hudi_ops.look`, `hudi_ops.preview` or `hudi_ops.cancel`.
            facts: on what, without secrets.
        """
        ...
