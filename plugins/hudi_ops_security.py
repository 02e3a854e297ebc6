"""Say who asks for a page, and what Airflow lets them do.

This is the only file that imports Airflow's security modules.
Airflow documents these for plugins, and may move them. Then no request passes. It is loaded when the page is made.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

    from hudi_ops.page.rights import Reader

READ_DAG = "health"
"""Who may see the runs of this DAG may read the page: both show the same verdicts."""

_LOG = logging.getLogger(__name__)


def guarded_page() -> FastAPI:
    """Return the page with Airflow's rights; if they cannot be loaded, every request is refused."""
    from hudi_ops.page.app import make_app

    try:
        rights: AirflowRights | NoRights = AirflowRights()
        origins = _origins()
    except (ImportError, AttributeError) as error:
        _LOG.exception("the rights of Airflow cannot be loaded: the page of Hudi tables is closed")
        rights, origins = (
            NoRights(f"Airflow's security modules cannot be loaded ({type(error).__name__}: {error})."),
            [],
        )
    return make_app(rights, origins)


def _origins() -> list[str]:
    """Return the URL under which browsers know the API server, if it is set."""
    from airflow.configuration import conf

    url = conf.get("api", "base_url", fallback="")
    return [url] if url else []


class AirflowRights:
    """Rights of Airflow's auth manager; needs its modules.

    Raises:
        ImportError: Airflow has moved a module or a name.
    """

    def __init__(self) -> None:
        from airflow.api_fastapi.app import get_auth_manager
        from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
        from airflow.api_fastapi.core_api.security import get_user
        from airflow.models import Log
        from airflow.models.dag import DagModel
        from airflow.utils.session import create_session
        from fastapi.security import HTTPBearer

        self._auth_manager, self._user_of = get_auth_manager, get_user
        self._details, self._runs, self._team_of = DagDetails, DagAccessEntity.RUN, DagModel.get_team_name
        self._log_row, self._session = Log, create_session
        self._bearer = HTTPBearer(auto_error=False)

    async def reader(self, request: Request) -> Reader:
        """Return the user of a request.

        Raises:
            HTTPException: 401 without a user, 403 without the right to read.
        """
        from fastapi import HTTPException
        from fastapi.concurrency import run_in_threadpool

        from hudi_ops.page.rights import Reader

        # As Airflow's own routes find the user: a bearer token comes before the cookie of the session.
        user = await self._user_of(request, None, await self._bearer(request))
        if not await run_in_threadpool(self._may, user, "GET", READ_DAG):
            raise HTTPException(
                403, f"You may not read the DAG {READ_DAG}, which this page needs. Ask who manages Airflow's users."
            )
        return Reader(user.get_name(), cache(partial(self._may, user, "POST")))

    async def log(self, request: Request, reader: Reader, event: str, facts: Mapping[str, Any]) -> None:
        """Write a row of Airflow's audit log at once, as `action_logging` does for its own routes."""
        from fastapi.concurrency import run_in_threadpool

        from hudi_ops.redaction import redacted_values

        extra = json.dumps({**redacted_values(dict(facts)), "method": request.method}, default=str)
        await run_in_threadpool(self._write, event, reader.name, extra)

    def _write(self, event: str, user: str, extra: str) -> None:
        with self._session(scoped=False) as session:
            session.add(self._log_row(event=event, owner=user, owner_display_name=user, extra=extra))

    def _may(self, user: Any, method: str, dag_id: str) -> bool:
        """Return whether a user may read a DAG (GET) or start runs of it (POST).

        It asks as `requires_access_dag` does, with the team of the DAG.
        """
        allowed: bool = self._auth_manager().is_authorized_dag(
            method=method,  # type: ignore[arg-type] # one of the names of methods
            access_entity=None if method == "GET" else self._runs,
            details=self._details(id=dag_id, team_name=self._team_of(dag_id)),
            user=user,
        )
        return allowed


class NoRights:
    """Refuses every request.

    Args:
        reason: that users read.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def reader(self, request: Request) -> Reader:
        """Refuse the request.

        Raises:
            HTTPException: 403, always.
        """
        from fastapi import HTTPException

        raise HTTPException(403, f"{self._reason} The page is closed until hudi-ops fits this release of Airflow.")

    async def log(self, request: Request, reader: Reader, event: str, facts: Mapping[str, Any]) -> None:
        """Do nothing: no request gets this far."""
