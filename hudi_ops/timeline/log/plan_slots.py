"""Find the PLAN and the newest TAKEOVER of an instant in the commit log."""

from __future__ import annotations

from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.log.commit_log import payload_folder, read_slot
from hudi_ops.timeline.log.entries import Plan, Takeover
from hudi_ops.timeline.log.head import reaching_back
from hudi_ops.timeline.state import TableState

PAYLOADS_READ = 3
"""Most slots that `pending_plan_entry` reads."""


def plan_entry(storage: Storage, state: TableState, instant: str) -> Plan | None:
    """Return the PLAN of an instant; None: another program planned it."""
    known = reaching_back(storage, state.log, instant)
    return next((entry for _, entry in known.own if isinstance(entry, Plan) and entry.instant == instant), None)


def pending_plan_entry(storage: Storage, state: TableState, instant: str) -> Plan | None:
    """Return the PLAN of a pending instant by a bounded number of reads, however old it is.

    A pending plan has its payload, whose name begins with the number of its slot, so at most `PAYLOADS_READ + 1` reads find it.
    None: another program planned it.
    """
    known = (entry for _, entry in state.log.own if isinstance(entry, Plan) and entry.instant == instant)
    if (found := next(known, None)) is not None:
        return found
    # An executor puts payloads as well, above that of the plan.
    numbers = (info.name.partition("-")[0] for info in storage.list_folder(payload_folder(instant)).files)
    for slot in sorted({int(number) for number in numbers if number.isdecimal()})[:PAYLOADS_READ]:
        entry = read_slot(storage, slot)
        if isinstance(entry, Plan) and (entry.instant, entry.table_id) == (instant, state.log.table_id):
            return entry
    return None


def newest_takeover(storage: Storage, state: TableState, instant: str) -> Takeover | None:
    """Return the newest TAKEOVER of an instant, or None."""
    found = reaching_back(storage, state.log, instant).takeover(instant)
    return found[1] if found is not None else None
