"""Refuse to commit above pending foreign writes without a heartbeat, unless allowed.

Apache Hudi makes heartbeats only under the LAZY policy for failed writes. Under EAGER, its default, a live job and a failed one
look the same. Apache Hudi's next writer has to roll back the failed write first, and refuses to do so if any write with a later
instant completed ("Found commits after time …"). So hudi_ops rolls back such a write only on request, and commits nothing above it.

Source: docs/format §8.3, §9.5, docs/protocol §10.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from hudi_ops.concurrency.contenders import ContenderReader, pending_writes
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.concurrency.markers import FOLDER
from hudi_ops.config.conflict_settings import ForeignWithoutHeartbeat
from hudi_ops.context import TableContext
from hudi_ops.errors import Busy
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import cancel_slot, fate_of
from hudi_ops.timeline.names import ms_of_instant
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SilentWriters:
    """Check for silent foreign writes; no storage call without a pending write.

    `policy`: `busy` refuses to pass such a write, `pass` warns.
    """

    ctx: TableContext
    contenders: ContenderReader
    policy: ForeignWithoutHeartbeat

    def refuse(self, state: TableState, mine: str = "", inspected: Collection[str] = ()) -> None:
        """Refuse to begin, or to complete, a write above a silent one.

        `mine` is the write's instant, empty before it has one; later instants and the `inspected` ones are skipped.

        Raises:
            Busy: names the instant, its age, its newest marker, and the command that rolls it back.
        """
        for write in pending_writes(state.timeline, mine):
            if write.time in inspected or (mine and write.time > mine) or not self._lacks_heartbeat(state, write):
                continue
            if self.policy == "busy":
                if fate_of(self.ctx.storage, state, write.time) is not None:
                    continue  # a hudi_ops write without its completed file: recovery judges it
                raise self._busy(state, write)
            logger.warning(
                "committing past %s, which has no heartbeat: writers of Apache Hudi that clean failed writes eagerly fail until it "
                "is rolled back (hudi-ops rollback TABLE %s --abandoned)",
                write,
                write.time,
            )

    def _lacks_heartbeat(self, state: TableState, write: Instant) -> bool:
        """Return whether a pending write is foreign and tells by no heartbeat whether it is alive."""
        intent = self.contenders.intent(state.timeline, write)
        if intent is not None and intent.is_exact:
            return False  # a hudi_ops write
        if read_lease(self.ctx.storage, write.time) is not None:
            return False
        # A write that ended since the listing deleted its heartbeat.
        found = load_timeline(self.ctx.storage, state.config).find(write.time, write.action)
        is_pending = found is not None and not found.is_completed
        # The next recovery removes files that a paused hudi_ops writer puts after its rollback.
        return is_pending and cancel_slot(self.ctx.storage, state, write.time) is None

    def _busy(self, state: TableState, write: Instant) -> Busy:
        now_ms = self.ctx.clock.now_ms()
        age_s = max(0, now_ms - ms_of_instant(write.time, state.zone)) // 1000
        markers = self.ctx.storage.list(f"{FOLDER}/{write.time}")
        newest = max(markers, key=lambda info: (info.modified_ms, info.path), default=None)
        marker = (
            f"newest marker {newest.path}, {max(0, now_ms - newest.modified_ms) // 1000} s old"
            if newest is not None
            else "no marker"
        )
        return Busy(
            f"{write.action} {write.time} of a foreign writer is pending without a heartbeat: it may be running, or have failed",
            table=state.config.name,
            instant=write.time,
            expected="that it completes, or is rolled back: after a commit past it Apache Hudi's own writers could not go on",
            found=f"its {write.state.name.lower()} file, begun {age_s} s ago, and {marker}",
            next_step="wait for its writer. Once that has surely ended: "
            f"`hudi-ops rollback TABLE {write.time} --abandoned`. To commit past such writes all the same, set "
            "foreign_without_heartbeat: pass under `conflicts` of the table in tables.yaml (in Python, of ConflictSettings)",
            setting="conflicts.foreign_without_heartbeat",
        )
