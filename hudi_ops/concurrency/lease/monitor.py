"""Monitor of a running attempt: its fate, and the gaps between its heartbeats."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hudi_ops.concurrency.attempt_status import LEAVE_IT, how_taken, next_call
from hudi_ops.concurrency.lease.lease import BEAT_INTERVAL_S, EXPIRY_MS, Renewal
from hudi_ops.context import TableContext
from hudi_ops.engine.stopping import StopSignal
from hudi_ops.errors import Cancelled, Unavailable
from hudi_ops.timeline.log.commit_log import Log, extended, refresh_log
from hudi_ops.timeline.log.entries import Entry, cancel_of

logger = logging.getLogger(__name__)

WATCH_INTERVAL_S = 1.0
"""Interval in seconds at which an executor of a plan looks for a CANCEL: users wait for it to stop."""
GAP_S_MAX = 0.75 * EXPIRY_MS / 1000
"""Longest accepted gap between heartbeats beside foreign writers: 90 s, while leases expire after 120 s."""


class LeaseMonitor:
    """Monitor of an attempt's lease and fate; made by `Session.keep`.

    A TAKEOVER with an epoch above `epoch` ends the attempt; None: above the newest epoch in `log`. `log` is the commit log as the
    attempt read it; without it nothing is checked. `interval_s` is the time between two readings of the log, in seconds, while no
    watcher reads it.
    """

    def __init__(
        self,
        ctx: TableContext,
        renewal: Renewal,
        epoch: int | None,
        log: Log | None,
        interval_s: float = BEAT_INTERVAL_S,
    ) -> None:
        self.renewal = renewal
        self.stop: StopSignal | None = None
        """Signal that a watcher gives when the attempt is cancelled or taken over; None: no watcher."""
        self._interval_s = interval_s
        self._ctx = ctx
        self._epoch = _newest_epoch(log, renewal.instant) if epoch is None else epoch
        self._log = log
        self._probed_s = ctx.clock.monotonic_s()
        self._is_watched: Callable[[], bool] = lambda: False

    @property
    def longest_gap_s(self) -> float:
        """Longest time between two landed heartbeats, or since the last one; monotonic clock."""
        return self.renewal.longest_gap_s

    @property
    def head(self) -> int | None:
        """Newest slot that the attempt has read; None: it has no log."""
        return self._log.head if self._log is not None else None

    def watched(self, is_watched: Callable[[], bool]) -> None:
        """Let a watcher read the log while `is_watched`; it passes new entries to `learn`."""
        self.stop = StopSignal(self._refuse)
        self._is_watched = is_watched

    def learn(self, slot: int, entry: Entry) -> None:
        """Add the entry above `head`, and give the stop signal if the entry ends the attempt."""
        if self._log is None or self.stop is None or slot != self._log.head + 1:
            return
        self._log = extended(self._log, [entry])
        try:
            self._refuse()
        except Cancelled:
            self.stop.give()

    def check(self) -> None:
        """Check the attempt's fate between steps of long work, once per interval.

        Raises:
            Cancelled: the instant was cancelled or taken over; further work would be lost.
        """
        if self._log is None:
            return
        if not self._is_watched():
            self._look(self._log)
        self._refuse()

    def _look(self, log: Log) -> None:
        now_s = self._ctx.clock.monotonic_s()
        if now_s - self._probed_s >= self._interval_s or self.renewal.is_lost:
            try:
                self._log = refresh_log(self._ctx.storage, log)
                self._probed_s = now_s
            except Unavailable as error:
                # The work continues: a slot decides at its end, after a full check.
                logger.warning("the commit log could not be read to check %s: %s", self.renewal.instant, error)

    def _refuse(self) -> None:
        if self._log is not None:
            refuse_superseded(self._log, self.renewal.instant, self._epoch)


def _newest_epoch(log: Log | None, instant: str) -> int:
    taken = log.takeover(instant) if log is not None else None
    return taken[1].epoch if taken is not None else 0


def refuse_superseded(log: Log, instant: str, epoch: int) -> None:
    """Refuse to continue on an instant that was cancelled or taken over.

    Raises:
        Cancelled: names the owner of the CANCEL or TAKEOVER.
    """
    fate, taken = log.fate(instant), log.takeover(instant)
    is_taken = taken is not None and taken[1].epoch > epoch
    ended = taken if is_taken else fate if cancel_of(fate) is not None else None
    if ended is not None:
        raise Cancelled(
            f"the instant that this attempt worked on {how_taken(*ended)}",
            instant=instant,
            next_step=LEAVE_IT if is_taken else next_call(epoch),
            taken_over=is_taken,
            taken_by=ended[1].owner,
            cause=getattr(ended[1], "cause", ""),
        )


def refuse_starved(gap_s: float, is_shared: Callable[[], bool], instant: str) -> None:
    """Refuse to complete an attempt that a foreign writer may have judged dead.

    Foreign writers judge a heartbeat before they take the lock, so no state under the lock shows their judgement (docs/protocol
    §10). `gap_s` is the longest time without a landed heartbeat. `is_shared` returns whether there are foreign writers; it is
    called only if the gap is too long.

    Raises:
        Cancelled: the gap is `GAP_S_MAX` or longer beside foreign writers.
    """
    if gap_s < GAP_S_MAX or not is_shared():
        return
    raise Cancelled(
        f"no heartbeat of this attempt landed for {gap_s:.0f} s: a writer of Apache Hudi may have judged it dead",
        instant=instant,
        expected=f"a heartbeat every {BEAT_INTERVAL_S:.0f} s, and no gap above {GAP_S_MAX:.0f} s beside Apache Hudi's writers",
        found=f"{gap_s:.0f} s without one",
        next_step="run the same call again; if it repeats, find out why the storage or this machine pauses for so long",
    )
