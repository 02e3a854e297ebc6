"""Name the command that ends a pending instant of any kind."""

from __future__ import annotations

from hudi_ops.clock import Clock
from hudi_ops.concurrency.foreign.foreign_instants import has_foreign_executor, may_be_foreign
from hudi_ops.concurrency.lease.lease import Lease
from hudi_ops.errors import Corrupt
from hudi_ops.index.resizes import is_resize
from hudi_ops.services.cancel.plans import executing_words
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.plans import read_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import SERVICE_ACTIONS
from hudi_ops.timeline.state import TableState

Words = tuple[str, ...]


def ending_words(storage: Storage, state: TableState, instant: Instant, lease: Lease | None, clock: Clock) -> Words:
    """Return the words of the command that ends a pending instant, with `TABLE` for the table.

    They are empty while a live process works on the instant, and if only the program that began it ends it. The plan of a
    service is read.

    Args:
        storage: of the table.
        state: of the table.
        instant: pending.
        lease: of the instant; None: it has none.
        clock: tells whether the lease is dead.
    """
    if lease is not None and not lease.is_dead(clock):
        return ()
    action, time = instant.action, instant.time
    if action == "restore":
        # It takes the savepoint of the pending one; a restore of Apache Hudi leaves no lease.
        return ("restore", "TABLE", "--yes") if lease is not None else ()
    if action == "rollback":
        return ("recover", "TABLE", *(("--abandoned",) if may_be_foreign(lease) else ()))
    if action == "savepoint":
        return "recover", "TABLE"
    if action not in SERVICE_ACTIONS:
        return ("recover", "TABLE") if lease is not None else ("rollback", "TABLE", time, "--abandoned")
    # A build of another program has no lease, so a build without one counts as foreign once it has begun.
    is_foreign_run = has_foreign_executor(instant, lease)
    words = words_of_plan(storage, state, instant, is_ours=action != "indexing" or not is_foreign_run)
    if words[:1] == ("rollback",):
        return words
    if not words:
        return "cancel", "TABLE", time, "--force"
    return (*words, "--abandoned") if is_foreign_run else words


def words_of_plan(storage: Storage, state: TableState, plan: Instant, *, is_ours: bool) -> Words:
    """Return the words of the command that executes a plan.

    A clean whose plan is empty or damaged is removed.

    They are empty if only the program that planned it executes it, or if nothing can: then it is cancelled.

    Args:
        storage: of the table.
        state: of the table.
        plan: pending.
        is_ours: this library made the plan.
    """
    try:
        content = read_plan(storage, state.timeline, plan)
    except Corrupt:
        content = None
    if content is None:
        return ("rollback", "TABLE", plan.time) if plan.action == "clean" else ()
    return executing_words(plan, is_a_resize=is_resize(content), is_ours=is_ours)
