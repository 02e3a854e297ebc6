"""Trying again after a conflict: each attempt starts from the table as it is then."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hudi_ops.errors import Conflict
from hudi_ops.services.session import Session

R = TypeVar("R")

RETRIES_ON_CONFLICT = 3


def retried(session: Session, attempt: Callable[[float], R]) -> R:
    """The first attempt that does not lose to an overlapping write; it is given the time at which the first one began.

    Raises:
        Conflict: all of them lost.
    """
    started_s = session.ctx.clock.monotonic_s()
    for _ in range(RETRIES_ON_CONFLICT):
        try:
            return attempt(started_s)
        except Conflict:
            continue
    return attempt(started_s)
