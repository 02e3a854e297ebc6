"""What the owner of an instant knows of its own standing: was it cancelled or taken over, and how well was its lease kept."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hudi_ops.concurrency.attempt_status import how_taken
from hudi_ops.concurrency.lease.lease import BEAT_INTERVAL_S, EXPIRY_MS, Renewal
from hudi_ops.context import TableContext
from hudi_ops.errors import Cancelled, Unavailable
from hudi_ops.timeline.log.commit_log import Log, refresh_log
from hudi_ops.timeline.log.entries import Cancel

logger = logging.getLogger(__name__)

_AGAIN = (
    "run the same call again: it takes a new instant. A writer that stands still for two minutes, or whose storage does not "
    "answer for so long, is taken for dead"
)
GAP_S_MAX = 0.75 * EXPIRY_MS / 1000
"""How long no beat may have landed where Apache Hudi's writers judge it: 90 of 120 s."""


class LeaseMonitor:
    """Held by whoever works on an instant; made by `Session.keep`.

    Args:
        ctx: components of the table.
        renewal: keeps the lease.
        epoch: the attempt's; a TAKEOVER with a higher one ends it. None: the newest that `log` gives the instant.
        log: the commit log as the attempt knows it; None: nothing is probed.
    """

    def __init__(self, ctx: TableContext, renewal: Renewal, epoch: int | None, log: Log | None) -> None:
        self.renewal = renewal
        self._ctx = ctx
        self._epoch = _newest_epoch(log, renewal.instant) if epoch is None else epoch
        self._log = log
        self._probed_s = ctx.clock.monotonic_s()

    @property
    def longest_gap_s(self) -> float:
        """Longest time between two beats that landed, or since the last one; by the monotonic clock."""
        return self.renewal.longest_gap_s

    def check(self) -> None:
        """To be called between the steps of long work; asks the storage at most once a beat.

        Raises:
            Cancelled: somebody cancelled the instant, or took it over; what is written from now on would be in vain.
        """
        if self._log is None:
            return
        now_s = self._ctx.clock.monotonic_s()
        if now_s - self._probed_s >= BEAT_INTERVAL_S or self.renewal.is_lost:
            try:
                self._log = refresh_log(self._ctx.storage, self._log)
                self._probed_s = now_s
            except Unavailable as error:
                # Work goes on: what it comes to is decided by a slot, before which everything is looked at again.
                logger.warning("whether %s still stands could not be asked: %s", self.renewal.instant, error)
        refuse_superseded(self._log, self.renewal.instant, self._epoch)


def _newest_epoch(log: Log | None, instant: str) -> int:
    taken = log.takeover(instant) if log is not None else None
    return taken[1].epoch if taken is not None else 0


def refuse_superseded(log: Log, instant: str, epoch: int) -> None:
    """An instant that was cancelled, or given to somebody else, is not worked on any more.

    Raises:
        Cancelled: names who did it.
    """
    fate, taken = log.fate(instant), log.takeover(instant)
    is_taken = taken is not None and taken[1].epoch > epoch
    ended = taken if is_taken else fate if fate is not None and isinstance(fate[1], Cancel) else None
    if ended is not None:
        raise Cancelled(
            f"the instant that this attempt worked on {how_taken(*ended)}",
            instant=instant,
            next_step="leave the instant to its new owner: delete nothing of it" if is_taken else _AGAIN,
            taken_over=is_taken,
            taken_by=ended[1].owner,
        )


def refuse_starved(gap_s: float, is_shared: Callable[[], bool], instant: str) -> None:
    """Apache Hudi judges a heartbeat before it takes its lock, so nothing under the lock shows that it did (docs/protocol.md §10).

    Args:
        gap_s: longest time in which no beat of the attempt landed.
        is_shared: whether writers of Apache Hudi share the table; asked only when it matters.
        instant: the attempt's.

    Raises:
        Cancelled: the attempt may have been judged dead by one of them, which then rolls it back.
    """
    if gap_s < GAP_S_MAX or not is_shared():
        return
    raise Cancelled(
        f"no beat of this attempt landed for {gap_s:.0f} s: a writer of Apache Hudi may have judged it dead",
        instant=instant,
        expected=f"a beat every {BEAT_INTERVAL_S:.0f} s, and none later than {GAP_S_MAX:.0f} s, where Apache Hudi writes too",
        found=f"{gap_s:.0f} s without one",
        next_step="run the same call again; if it repeats, see why the storage or this machine stands still for so long",
    )
