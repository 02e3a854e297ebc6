"""Offer the archiving of a table: `table.archive`."""

from __future__ import annotations

from typing import Any

from hudi_ops.commit.session import Session
from hudi_ops.config.requests import ArchiveRequest, merged
from hudi_ops.services.archive.result import ArchiveResult
from hudi_ops.services.archive.run import archive, explain
from hudi_ops.services.write.automatic import recorded_services


class ArchiveApi:
    """Moves old instants from the timeline into the history.

    Each method takes a request, or its fields as keywords, or both.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def run(self, request: ArchiveRequest | None = None, **keywords: Any) -> ArchiveResult:
        """Archive down to `keep_min` completed writes, once there are more than `keep_max`.

        After a failure the same call continues.

        Args:
            request: how many writes stay; a dry run changes nothing.
            keywords: fields of the request.

        Raises:
            InvalidRequest: a wrong number, or `keep_min` above `keep_max`.
            Unsupported: the table cannot be written, or its timeline has another layout.
            Busy: the lock was not free in time.
            Conflict: others changed the timeline again and again.
            Corrupt: the history is damaged; nothing was archived.
        """
        return archive(self._session, self._merged(request, keywords))

    def explain(self, request: ArchiveRequest | None = None, **keywords: Any) -> ArchiveResult:
        """Return for each instant why it stays on the timeline, or that it can be archived.

        It is the same as `run` with `dry_run`.
        """
        return explain(self._session, self._merged(request, keywords))

    def _merged(self, request: ArchiveRequest | None, keywords: dict[str, Any]) -> ArchiveRequest:
        settings = self._session.upkeep.upon(recorded_services(self._session))
        return settings.archive.completed(merged(ArchiveRequest, request, keywords))
