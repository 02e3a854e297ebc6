"""Find the slot that decided an instant, however old it is.

The search covers the loaded part of the log, then the marks beside the log, then older slots. An instant that a CANCEL or a RESTORE
names gets a mark, `.hoodie/.commit_log/cancelled/<instant>`, before any of its files is deleted. The mark names the slot, so a
process that finds a file of the instant learns its fate by two reads instead of reading the log back. Marks are small, and are
never deleted. The slot decides; a mark without its slot has no meaning.
"""

from __future__ import annotations

from hudi_ops.errors import Internal, NotFound
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.log.commit_log import FOLDER, read_slot
from hudi_ops.timeline.log.entries import Cancel, Entry, Restore, cancel_of
from hudi_ops.timeline.log.head import reaching_back
from hudi_ops.timeline.state import TableState

MARKS = f"{FOLDER}/cancelled"


def mark_cancelled(storage: Storage, instant: str, slot: int) -> None:
    """Put the mark of the slot that cancelled an instant; every caller writes the same bytes."""
    storage.put(f"{MARKS}/{instant}", str(slot).encode())


def cancel_slot(storage: Storage, state: TableState, instant: str) -> int | None:
    """Return the slot that cancelled an instant, or None.

    None: the instant was not cancelled, or its canceller died before it put the mark and deleted files.
    """
    fate = state.log.fate(instant)
    if fate is not None:
        return fate[0] if cancel_of(fate) is not None else None
    slot = _marked(storage, instant)
    return slot if _cancel_in(storage, state.log.table_id, slot, instant) is not None else None


def marked_cancel(storage: Storage, instant: str) -> tuple[int, Cancel] | None:
    """Return the CANCEL of an instant and its slot, if it has a mark; one read without a mark."""
    slot = _marked(storage, instant)
    cancel = _cancel_in(storage, None, slot, instant)
    return (slot, cancel) if cancel is not None else None


def fate_of(storage: Storage, state: TableState, instant: str) -> tuple[int, Entry] | None:
    """Return the slot that decides an instant, which may be below the loaded part of the log.

    It may read slot by slot back to the time at which the instant was taken. So it is for rare cases, such as an instant that is
    not on the timeline.
    """
    fate = state.log.fate(instant)
    if fate is not None:
        return fate
    slot = cancel_slot(storage, state, instant)
    if slot is not None and (cancel := _cancel_in(storage, state.log.table_id, slot, instant)) is not None:
        return slot, cancel
    return reaching_back(storage, state.log, instant).fate(instant)


def refuse_uncancelled(storage: Storage, state: TableState, instant: str) -> int:
    """Refuse to delete files of an instant unless a CANCEL names it; return that slot.

    Source: docs/protocol §7.

    Raises:
        Internal: no CANCEL names it.
    """
    fate = fate_of(storage, state, instant)
    if fate is None or cancel_of(fate) is None:
        raise Internal(
            "an instant that no slot cancels was to be rolled back",
            table=state.config.name,
            instant=instant,
            expected="a CANCEL",
            found=fate[1].kind if fate is not None else "no slot",
        )
    return fate[0]


def _marked(storage: Storage, instant: str) -> int:
    """Return the slot that the mark of an instant names; -1 without a mark."""
    try:
        said = storage.get(f"{MARKS}/{instant}").decode("ascii", "replace")
    except NotFound:
        return -1
    return int(said) if said.isdecimal() else -1


def _cancel_in(storage: Storage, table_id: str | None, slot: int, instant: str) -> Cancel | None:
    """Return the CANCEL of an instant in a slot, also as part of a RESTORE; else None.

    `table_id` None: entries of any table count.
    """
    entry = read_slot(storage, slot) if slot >= 0 else None
    if entry is None or table_id not in {None, entry.table_id}:
        return None
    cancels = [entry] if isinstance(entry, Cancel) else entry.cancels() if isinstance(entry, Restore) else ()
    return next((cancel for cancel in cancels if cancel.instant == instant), None)
