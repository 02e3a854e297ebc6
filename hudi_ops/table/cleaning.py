"""Offer the clean of a table: `table.clean`."""

from __future__ import annotations

from typing import Any

from hudi_ops.config.requests import CleanRequest
from hudi_ops.services.base.result import PlanResult
from hudi_ops.services.clean.result import CleanOutcome
from hudi_ops.services.clean.service import CLEAN
from hudi_ops.services.write.automatic import recorded_services
from hudi_ops.table.services import ServiceApi


class CleanApi(ServiceApi[CleanRequest, CleanOutcome]):
    """Plans and executes cleans."""

    service = CLEAN
    request_type = CleanRequest

    def _merged(self, request: CleanRequest | None, keywords: dict[str, Any]) -> CleanRequest:
        settings = self._session.upkeep.upon(recorded_services(self._session))
        return settings.clean.completed(super()._merged(request, keywords))

    def explain(self, request: CleanRequest | None = None, **keywords: Any) -> PlanResult:
        """Return the reason for and against each file of the table, or of `files`; change nothing.

        Args:
            request: the policy; `files` names some files by path or pattern.
            keywords: fields of the request.

        Raises:
            InvalidRequest: a wrong request.
            Unsupported: the table cannot be cleaned.
        """
        return self.plan(request, **{**keywords, "dry_run": True, "full": True})
