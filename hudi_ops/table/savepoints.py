"""Offer savepoints, restores and holds of a table: `table.savepoints`, `table.holds`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hudi_ops.commit.holds import Hold, list_holds, release_hold, renew_hold, take_hold
from hudi_ops.commit.session import Session
from hudi_ops.engine.progress import Progress
from hudi_ops.services.restore.restore import RestoreResult, restore_table
from hudi_ops.services.savepoint.savepoints import SavepointResult, create_savepoint, delete_savepoint, list_savepoints
from hudi_ops.table.argument_types import checks_types

HOLD_SECONDS = 3600.0
"""How long a hold lasts by default."""


@checks_types
class SavepointApi:
    """Makes, lists, deletes and restores savepoints."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(self, instant: str | None = None, *, comments: str = "", user: str = "") -> SavepointResult:
        """Protect a completed write, by default the newest, until its savepoint is deleted.

        Raises:
            InvalidRequest: no completed write has this instant, or a clean removed or will remove a file that it needs.
            Busy: a write requested earlier is pending, a restore is pending, or the lock was not free in time.
            Conflict: other writes below the instant completed again and again; nothing changed.
        """
        return create_savepoint(self._session, instant, comments=comments, user=user)

    def list(self) -> list[SavepointResult]:
        """Return the savepoints, oldest first, those of Apache Hudi included."""
        return list_savepoints(self._session)

    def delete(self, instant: str) -> SavepointResult:
        """Delete a savepoint; later cleans may remove its files.

        Raises:
            InvalidRequest: there is no savepoint of this instant.
            Busy: a restore is pending, or the lock was not free in time.
        """
        return delete_savepoint(self._session, instant)

    def restore(
        self,
        instant: str | None = None,
        *,
        dry_run: bool = False,
        progress: Callable[[Progress], None] = lambda progress: None,
    ) -> RestoreResult:
        """Undo every write above a savepoint, by default the only one.

        A restore that another process left is finished. Rows, columns and the record of taken source files return to those of the
        savepoint. `dry_run` returns what would be undone.

        Raises:
            InvalidRequest: there is no such savepoint, a newer one protects a write, or its write is archived.
            Busy: a write or service is under way, or the lock was not free in time.
            Corrupt: a file of the savepoint is lost.
        """
        return restore_table(self._session, instant, dry_run=dry_run, progress=progress)


@checks_types
class HoldApi:
    """Takes, renews, lists and releases holds. Apache Hudi's cleaner does not know them."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @contextmanager
    def __call__(self, instant: str, *, seconds: float = HOLD_SECONDS, purpose: str = "") -> Iterator[Hold]:
        """Keep an instant readable until the context ends, at most `seconds`.

        Raises:
            InvalidRequest: no completed write has this instant, or a clean may have removed its files.
        """
        hold = self.take(instant, seconds=seconds, purpose=purpose)
        try:
            yield hold
        finally:
            self.release(hold.id)

    def take(self, instant: str, *, seconds: float = HOLD_SECONDS, owner: str = "", purpose: str = "") -> Hold:
        """Keep an instant readable for some seconds, and return the hold.

        Raises:
            InvalidRequest: no completed write has this instant, or a clean may have removed its files.
        """
        return take_hold(self._session, instant, seconds, owner=owner, purpose=purpose)

    def renew(self, hold: Hold, *, seconds: float = HOLD_SECONDS) -> Hold:
        """Let a hold end `seconds` from now, and return it.

        Raises:
            InvalidRequest: it expired, and a clean may have removed its files since.
        """
        return renew_hold(self._session, hold, seconds)

    def list(self) -> list[Hold]:
        """Return all holds, expired ones included, oldest instant first.

        Raises:
            Corrupt: a file in the folder of holds is no hold.
        """
        return list_holds(self._session.ctx.storage)

    def release(self, hold_id: str) -> bool:
        """Delete a hold; return False if there was none."""
        return release_hold(self._session, hold_id)
