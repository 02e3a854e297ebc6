"""Find the PLAN and the newest TAKEOVER of an instant in the commit log."""

from __future__ import annotations

from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.log.entries import Plan, Takeover
from hudi_ops.timeline.log.head import reaching_back
from hudi_ops.timeline.state import TableState


def plan_entry(storage: Storage, state: TableState, instant: str) -> Plan | None:
    """Return the PLAN of an instant; None: another program planned it."""
    known = reaching_back(storage, state.log, instant)
    return next((entry for _, entry in known.own if isinstance(entry, Plan) and entry.instant == instant), None)


def newest_takeover(storage: Storage, state: TableState, instant: str) -> Takeover | None:
    """Return the newest TAKEOVER of an instant, or None."""
    found = reaching_back(storage, state.log, instant).takeover(instant)
    return found[1] if found is not None else None
