"""Pending writes of Apache Hudi without a heartbeat: nothing is committed past one unless its owner is asked, or a setting says so.

Apache Hudi makes heartbeats under the LAZY policy for failed writes alone. Under EAGER, its default, a live job and a failed one
look the same. Its next writer has to roll the failed one back first, and refuses to once anything completed above that instant
("Found commits after time …"). So such a write is never rolled back unasked, and not passed either.

Source: docs/format.md §8.3, §9.5, docs/protocol.md §10.
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
    """Looks for them. Asks nothing of the storage where no write is pending, and nothing new of writes of ours.

    Attributes:
        ctx: the table's components.
        contenders: reads what pending writes announce, each once.
        policy: `busy` refuses to pass such a write, `pass` warns.
    """

    ctx: TableContext
    contenders: ContenderReader
    policy: ForeignWithoutHeartbeat

    def refuse(self, state: TableState, mine: str = "", looked_at: Collection[str] = ()) -> None:
        """Refuse to begin, or to complete, a write above the oldest of them.

        Args:
            state: decides what is pending.
            mine: the write's instant: nothing above it is passed. Empty before it has one.
            looked_at: instants that this write looked at before.

        Raises:
            Busy: names the instant, its age, its newest marker, and the command that rolls it back.
        """
        for one in pending_writes(state.timeline, mine):
            if one.time in looked_at or (mine and one.time > mine) or not self._is_silent(state, one):
                continue
            if self.policy == "busy":
                if fate_of(self.ctx.storage, state, one.time) is not None:
                    continue  # ours, and its completed file was deleted: recovery judges it
                raise self._busy(state, one)
            logger.warning(
                "committing past %s, which has no heartbeat: writers of Apache Hudi that clean failed writes eagerly fail until it "
                "is rolled back (hudi-ops rollback TABLE %s --abandoned)",
                one,
                one.time,
            )

    def _is_silent(self, state: TableState, one: Instant) -> bool:
        intent = self.contenders.intent(state.timeline, one)
        if intent is not None and intent.is_exact:
            return False  # ours
        if read_lease(self.ctx.storage, one.time) is not None:
            return False
        # One that ended while it was looked at took its heartbeat with it.
        found = load_timeline(self.ctx.storage, state.config).find(one.time, one.action)
        is_pending = found is not None and not found.is_completed
        # What a sleeper of ours puts after its rollback is cleared away by the next recovery.
        return is_pending and cancel_slot(self.ctx.storage, state, one.time) is None

    def _busy(self, state: TableState, one: Instant) -> Busy:
        now_ms = self.ctx.clock.now_ms()
        age_s = max(0, now_ms - ms_of_instant(one.time, state.zone)) // 1000
        newest = max(
            self.ctx.storage.list(f"{FOLDER}/{one.time}"), key=lambda info: (info.modified_ms, info.path), default=None
        )
        marker = (
            f"newest marker {newest.path}, {max(0, now_ms - newest.modified_ms) // 1000} s old"
            if newest is not None
            else "no marker"
        )
        return Busy(
            f"{one.action} {one.time} of another program is pending without a heartbeat: it may be at work, or have failed",
            table=state.config.name,
            instant=one.time,
            expected="that it completes, or is rolled back: after a commit past it Apache Hudi's own writers could not go on",
            found=f"its {one.state.name.lower()} file, begun {age_s} s ago, and {marker}",
            next_step="wait for its program. Once that has surely ended: "
            f"`hudi-ops rollback TABLE {one.time} --abandoned`. To commit past such writes all the same, set "
            "foreign_without_heartbeat: pass under `conflicts` of the table in tables.yaml (in Python, of ConflictSettings)",
            setting="conflicts.foreign_without_heartbeat",
        )
