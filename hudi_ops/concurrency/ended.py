"""Record failed attempts of this process, whose leases still name a live process.

The record is kept in memory only: an attempt that failed on a full disk cannot store it. Attempts of other processes are judged by
their leases.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hudi_ops.context import Owner, TableContext

_ended: set[tuple[str, str]] = set()


def has_ended(uri: str, instant: str, owner: Owner) -> bool:
    """Return whether an attempt of this process at an instant of the table has failed."""
    return (uri, instant) in _ended and owner.is_this_process()


def begins(ctx: TableContext, instant: str) -> None:
    """Record that an attempt of this process at an instant begins."""
    _ended.discard((ctx.storage.uri, instant))


@contextmanager
def ends_if_it_fails(ctx: TableContext, instant: str) -> Iterator[None]:
    """Record that the attempt at an instant has ended if this context raises."""
    try:
        yield
    except BaseException:
        if ctx.owner.is_this_process():
            _ended.add((ctx.storage.uri, instant))
        raise
