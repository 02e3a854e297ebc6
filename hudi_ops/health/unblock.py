"""Name the command that ends a pending instant which stands in the way of a service."""

from __future__ import annotations

from hudi_ops.health.check import TABLE
from hudi_ops.health.look import Look
from hudi_ops.index.resizes import is_resize
from hudi_ops.timeline.content.plans import read_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import REWRITING_ACTIONS, State

Words = tuple[str, ...]


def end_of(look: Look, instant: Instant, *, cancels: bool = False) -> Words:
    """Return the words of the command that ends a pending instant.

    They are empty if only its owner ends it. Reads the lease of a write or a plan, and the plan of a clustering.

    Args:
        look: at the table.
        instant: pending.
        cancels: a plan is cancelled, and not executed.

    Raises:
        Corrupt: a plan cannot be read.
    """
    action, time = instant.action, instant.time
    if action == "restore":
        return "restore", TABLE, "--yes"
    if action == "clean":
        return "clean", TABLE, "execute", "--instant", time
    if action in {"rollback", "savepoint"}:
        return "recover", TABLE
    lease = look.leases.get(time)
    if lease is not None and not lease.is_dead(look.session.ctx.clock):
        return ()
    if action not in REWRITING_ACTIONS | {"indexing"}:
        return ("recover", TABLE) if lease is not None else ("rollback", TABLE, time, "--abandoned")
    # Another program leaves no lease when it executes a plan: only a cancel by force ends it.
    is_foreign = State.INFLIGHT in instant.states and lease is None
    service = "" if cancels or is_foreign else _service(look, instant)
    return (service, TABLE, "execute", "--instant", time) if service else ("cancel", TABLE, time, "--force")


def _service(look: Look, plan: Instant) -> str:
    """Return the command of the service that executes a plan; empty: there is none."""
    if plan.action == "compaction":
        return "compact"
    if plan.action != "clustering":
        return ""
    return "resize" if is_resize(read_plan(look.session.ctx.storage, look.state.timeline, plan)) else "cluster"
