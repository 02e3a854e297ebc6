"""`hoodie.properties` as the log says: what PROPERTIES entries set and remove is folded onto the file just read.

The file itself says how far it has come: `FOLDED_KEY` holds the newest slot that is folded in, put with the values in one atomic
put. So an applier that slept and puts an old file back puts the old number back too, and whoever loads the table next folds in what
was lost. And what was folded once is not folded again: Apache Hudi changes keys of this file as well, and what it built after an
entry was applied, a metadata table for one, must stay. Version 1.0 of it drops keys that it does not know when it rewrites the
file; then the number is missing, as on tables that were adopted, and nobody but the entry's own decider applies it.

Source: docs/protocol.md §6.
"""

from __future__ import annotations

from collections.abc import Mapping

from hudi_ops.config.table import PROPERTIES_PATH
from hudi_ops.context import TableContext
from hudi_ops.errors import Internal, InvalidRequest
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.commit_log import Log, read_slot, refresh_log
from hudi_ops.timeline.entries import Properties
from hudi_ops.timeline.properties_file import FOLDED_KEY, folded_slot, read_properties, write_properties

WRITES_MAX = 10
"""How often the file may change under us before we believe that something else is wrong."""


def fold_properties(ctx: TableContext, log: Log, slot: int, *, first: bool = False) -> None:
    """Fold an entry, and those that are missing, onto the file until file and log agree.

    Args:
        ctx: components of the table.
        log: as it was read last; it is read again before each look at the file.
        slot: the entry that is applied: its decider's, or one that the file's number says is missing.
        first: the table is being made.

    Raises:
        Internal: the file keeps changing under us.
    """
    for _ in range(WRITES_MAX):
        # The log before the file, each time: another decider's entry may have been folded in by now, and by us overwritten.
        log = refresh_log(ctx.storage, log)
        try:
            current = read_properties(ctx.storage)
        except InvalidRequest:
            if not first:
                continue  # Apache Hudi replaces the file in steps: what is put here now would be all that is left of it
            current = {}  # neither the file nor its backup: the table is being made
        wanted = folded(ctx.storage, log, current, slot)
        if wanted == current:
            return
        write_properties(ctx.storage, wanted, ctx.clock.now_ms(), first=first and not current)
    raise Internal(f"{PROPERTIES_PATH} keeps changing while it is written", table=ctx.storage.uri)


def folded(storage: Storage, log: Log, current: Mapping[str, str], slot: int) -> dict[str, str]:
    """What the file should say: every entry above the number that it holds, in order; without a number, those from `slot` on."""
    said = folded_slot(current)
    missing = _entries_above(storage, log, slot - 1 if said is None else said)
    if not missing:
        return dict(current)
    values = dict(current)
    for _, entry in missing:
        values.update(entry.set)
        for key in entry.remove:
            values.pop(key, None)
    return {**values, FOLDED_KEY: str(missing[-1][0])}


def _entries_above(storage: Storage, log: Log, slot: int) -> list[tuple[int, Properties]]:
    """(slot, entry) of PROPERTIES above a slot, oldest first; each names the one before it."""
    found: list[tuple[int, Properties]] = []
    at, entry = log.properties_slot, log.properties
    while at > slot:
        found.append((at, entry))
        at = entry.properties_slot
        before = read_slot(storage, at) if at > slot else None
        if not isinstance(before, Properties):
            break
        entry = before
    return found[::-1]
