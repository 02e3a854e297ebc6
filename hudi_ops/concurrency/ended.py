"""Know which attempts of this process have failed: their leases name a live process, and nothing works under them any more.

Only memory tells: an attempt that failed because the disk is full cannot write that it did. Attempts of other processes are judged
by their leases alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hudi_ops.context import Owner, TableContext

_ended: set[tuple[str, str]] = set()


def has_ended(uri: str, instant: str, owner: Owner) -> bool:
    """Tell whether an attempt of this process at an instant of the table has failed."""
    return (uri, instant) in _ended and owner.is_this_process()


def begins(ctx: TableContext, instant: str) -> None:
    """Note that this process works at an instant of its own from now on."""
    _ended.discard((ctx.storage.uri, instant))


@contextmanager
def ends_if_it_fails(ctx: TableContext, instant: str) -> Iterator[None]:
    """Note that the attempt at an instant has ended if the work in this context fails, in whatever way."""
    try:
        yield
    except BaseException:
        if ctx.owner.is_this_process():
            _ended.add((ctx.storage.uri, instant))
        raise
