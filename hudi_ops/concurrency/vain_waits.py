"""Remember for which writes this process has waited in vain: each costs one wait.

Every commit beside a stopped writer would wait again, until the writer's lease ends. Heartbeats do not tell: another process makes
them. A write that has put markers since is waited for again.
"""

from __future__ import annotations

from hudi_ops.concurrency.markers import FOLDER
from hudi_ops.context import TableContext
from hudi_ops.storage.protocol import Storage

PROCESS_WAITS: dict[tuple[str, str], int] = {}
"""What all contexts of this process remember; a simulated process has a dictionary of its own."""
KEPT_MAX = 1_000
"""Number of remembered writes above which all are forgotten: each costs one more wait."""


def note_vain_wait(ctx: TableContext, instant: str) -> None:
    """Remember that a write did not end while this process waited for it."""
    if len(ctx.vain_waits) >= KEPT_MAX:
        ctx.vain_waits.clear()
    ctx.vain_waits[ctx.storage.uri, instant] = _progress(ctx.storage, instant)


def waited_in_vain(ctx: TableContext, instant: str) -> bool:
    """Return whether this process has waited for a write that has done nothing since."""
    known = ctx.vain_waits.get((ctx.storage.uri, instant))
    return known is not None and known == _progress(ctx.storage, instant)


def _progress(storage: Storage, instant: str) -> int:
    """Return the number of bytes and files by which a write has announced data files."""
    return sum(1 + info.size_bytes for info in storage.list(f"{FOLDER}/{instant}"))
