"""One look at a table, shared by all checks.

State, view, slices and metadata table are read once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import Lease, oldest_leases, read_lease
from hudi_ops.config.upkeep_settings import UpkeepSettings
from hudi_ops.health.one_look import OneLook
from hudi_ops.health.unadopted import WithoutAdoption
from hudi_ops.read.current_view import current_view
from hudi_ops.services.metadata_table.describe import MetadataFacts, describe_metadata
from hudi_ops.services.write.automatic import recorded_services
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.names import ms_of_instant
from hudi_ops.timeline.state import TableState
from hudi_ops.view.columns.slices import SliceColumns, newest_slices
from hudi_ops.view.columns.table_view import View

LEASES_READ = 4
"""Most leases that a look reads; a table in use has one for each live writer."""


@dataclass
class Look:
    """State of a table at one time, for its checks.

    Attributes:
        session: of the table; its storage reads each file once and changes nothing (`one_look.OneLook`).
        state: of the table.
        viewed: the table's own storage, whose last view is continued.
        now_ms: time of the look, in ms since 1970.
    """

    session: Session
    state: TableState
    viewed: Storage
    now_ms: int

    @classmethod
    def at(cls, session: Session, storage: OneLook | None = None, now_ms: int | None = None) -> Look:
        """Load the state of a session's table.

        Args:
            session: of the table.
            storage: what was read of it just now; None: nothing.
            now_ms: time of the look, in ms since 1970; None: now.

        Raises:
            Unsupported: the table's version cannot be read.
            Conflict: it was dropped and made again while it was read.
            Corrupt: its settings or its commit log cannot be read.
        """
        viewed = session.ctx.storage
        reading = Session(
            replace(session.ctx, storage=storage or OneLook(viewed)),
            WithoutAdoption(session.adopter),
            session.conflicts,
            session.log_format,
            session.file_sizes,
            session.metadata_compact_after,
            session.upkeep,
        )
        return cls(reading, reading.loader.load(), viewed, session.ctx.clock.now_ms() if now_ms is None else now_ms)

    @property
    def is_adopted(self) -> bool:
        """Whether the table has a commit log: it was made here, or adopted."""
        return self.state.log.head >= 0

    @cached_property
    def view(self) -> View:
        """The view of the whole table."""
        ctx, state = self.session.ctx, self.state
        return current_view(self.viewed, state.config, state.timeline, self.session.commits, ctx.local_engine)

    @cached_property
    def slices(self) -> SliceColumns:
        """The slices that readers see now."""
        return newest_slices(self.view)

    @cached_property
    def _leases(self) -> tuple[Mapping[str, Lease], Mapping[str, Lease]]:
        return oldest_leases(self.session.ctx.storage, LEASES_READ)

    @property
    def leases(self) -> Mapping[str, Lease]:
        """The leases with the oldest beats, by instant; at most `LEASES_READ` are read."""
        return self._leases[0]

    @property
    def unread_leases(self) -> Mapping[str, Lease]:
        """The other leases, by instant, as their files' change times tell; without owner and role."""
        return self._leases[1]

    def lease_of(self, instant: str) -> Lease | None:
        """Return the lease of an instant, or None.

        One of `unread_leases` is read; there is no call for an instant without a lease.
        """
        if instant in self.leases or instant not in self.unread_leases:
            return self.leases.get(instant)
        return read_lease(self.session.ctx.storage, instant)

    def completed_ms(self, *actions: str) -> int | None:
        """Return when an instant with one of these pending words completed last.

        It is in ms since 1970; None: none did.
        """
        done = [one.completion_time for one in self.state.timeline if one.is_completed and one.action in actions]
        return ms_of_instant(max(done), self.state.zone) if done else None

    @cached_property
    def metadata(self) -> MetadataFacts:
        """The metadata table."""
        return describe_metadata(self.session.ctx.storage)

    @cached_property
    def upkeep(self) -> UpkeepSettings:
        """Settings of cleans and archives, as recorded in the table or given by the session."""
        return self.session.upkeep.upon(self.recorded)

    @property
    def recorded(self) -> Mapping[str, Mapping[str, Any]]:
        """The services that writers of the table run after commits, with what each keeps."""
        return recorded_services(self.session, self.state.log)
