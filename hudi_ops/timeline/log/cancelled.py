"""How an instant ended, however long ago: the loaded part of the log, then a mark beside it, then slots further back.

A cancelled instant gets a mark, `.hoodie/.commit_log/cancelled/<instant>`, before anything of it is deleted. It names the slot, so
that whoever finds a file of that instant learns its fate in two reads, and not by reading the log back to it. Marks are small, and
stay as slots do. The slot decides; a mark without its slot says nothing.
"""

from __future__ import annotations

from hudi_ops.errors import Internal, NotFound
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.log.commit_log import FOLDER, read_slot
from hudi_ops.timeline.log.entries import Cancel, Entry
from hudi_ops.timeline.log.head import reaching_back
from hudi_ops.timeline.state import TableState

MARKS = f"{FOLDER}/cancelled"


def mark_cancelled(storage: Storage, instant: str, slot: int) -> None:
    """Note beside the log which slot cancelled an instant; every caller notes the same."""
    storage.put(f"{MARKS}/{instant}", str(slot).encode())


def cancel_slot(storage: Storage, state: TableState, instant: str) -> int | None:
    """The slot that cancelled an instant, or None: it was not, or its canceller died before it deleted anything."""
    fate = state.log.fate(instant)
    if fate is not None:
        return fate[0] if isinstance(fate[1], Cancel) else None
    try:
        said = storage.get(f"{MARKS}/{instant}").decode("ascii", "replace")
    except NotFound:
        return None
    entry = read_slot(storage, int(said)) if said.isdecimal() else None
    is_it = isinstance(entry, Cancel) and (entry.table_id, entry.instant) == (state.log.table_id, instant)
    return int(said) if is_it else None


def fate_of(storage: Storage, state: TableState, instant: str) -> tuple[int, Entry] | None:
    """The slot that decides an instant, which may lie below the loaded part of the log.

    Reads back slot by slot to the time at which the instant was taken: for rare questions, such as what an instant was that is
    not on the timeline.
    """
    fate = state.log.fate(instant)
    if fate is not None:
        return fate
    slot = cancel_slot(storage, state, instant)
    if slot is not None and (entry := read_slot(storage, slot)) is not None:
        return slot, entry
    return reaching_back(storage, state.log, instant).fate(instant)


def refuse_uncancelled(storage: Storage, state: TableState, instant: str) -> int:
    """Nothing of an instant is deleted before a CANCEL that names it holds a slot (docs/protocol.md §7).

    Returns:
        That slot.

    Raises:
        Internal: none does.
    """
    fate = fate_of(storage, state, instant)
    if fate is None or not isinstance(fate[1], Cancel):
        raise Internal(
            "an instant that no slot cancels was to be rolled back",
            table=state.config.name,
            instant=instant,
            expected="a CANCEL",
            found=fate[1].kind if fate is not None else "no slot",
        )
    return fate[0]
