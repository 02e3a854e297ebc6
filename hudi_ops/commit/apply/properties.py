"""Apply PROPERTIES entries of the commit log to `hoodie.properties`.

The file records the newest applied slot under `FOLDED_KEY`, put together with the values in one atomic put. A late applier that
puts an old file back also puts the old number back, so the next process that loads the table applies the lost entries. Applied
entries are not applied again: later changes by Apache Hudi, such as a new metadata table, must stay.
Version 1.0 drops unknown keys when it rewrites the file; then the number is missing, as on adopted tables, and only an entry's own
decider applies it.

Announced partitions of the metadata table are put into the list of unfinished partitions, which all writers update and no reader
uses. A later entry moves them to the list of finished partitions, but only if the file still has them: a foreign writer may have
dropped them.

Source: docs/protocol §6, §18.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from hudi_ops.config.table import METADATA_PARTITIONS, METADATA_PARTITIONS_INFLIGHT, PROPERTIES_PATH
from hudi_ops.context import TableContext
from hudi_ops.errors import Internal, InvalidRequest
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.log.commit_log import Log, refresh_log
from hudi_ops.timeline.log.entries import Properties
from hudi_ops.timeline.settings.properties_file import FOLDED_KEY, folded_slot, read_properties, write_properties
from hudi_ops.timeline.settings.settings_check import entries_above, with_entry

logger = logging.getLogger(__name__)

_LISTS = (METADATA_PARTITIONS, METADATA_PARTITIONS_INFLIGHT)

WRITES_MAX = 10
"""Number of changes of the file during one update from which they count as a bug."""


def apply_properties(ctx: TableContext, log: Log, slot: int, *, first: bool = False) -> None:
    """Apply an entry, and missing earlier ones, until file and log agree.

    `slot` is the decider's own entry, or one that the file's number shows missing. `first`: the table is being created.

    Raises:
        Internal: the file keeps changing.
    """
    for _ in range(WRITES_MAX):
        # Read the log before the file. If another decider applies an entry in between, the put below may overwrite it: then the
        # next round reads that entry in the log, and applies it.
        log = refresh_log(ctx.storage, log)
        try:
            current = read_properties(ctx.storage)
        except InvalidRequest:
            if not first:
                continue  # Apache Hudi replaces the file in steps: a put now would lose all other keys
            current = {}  # neither the file nor its backup: the table is being created
        missing = dict(_missing(ctx.storage, log, current, slot))
        wanted = _folded(current, missing)
        if wanted == current:
            return
        write_properties(ctx.storage, wanted, ctx.clock.now_ms(), first=first and not current)
    raise Internal(f"{PROPERTIES_PATH} keeps changing while it is written", table=ctx.storage.uri)


def _missing(storage: Storage, log: Log, current: Mapping[str, str], slot: int) -> list[tuple[int, Properties]]:
    """Return the entries above the file's number; without a valid number those from `slot` on."""
    applied = folded_slot(current)
    return entries_above(storage, log, slot - 1 if applied is None or applied > log.properties_slot else applied)


def _folded(current: Mapping[str, str], missing: Mapping[int, Properties]) -> dict[str, str]:
    """Return the properties with the changes of the missing entries."""
    values = dict(current)
    for entry in missing.values():
        values = with_entry(values, entry)
        _change_lists(values, _still_announced(values, entry), entry.drops)
        _announce(values, entry.announces)
    return {**values, FOLDED_KEY: str(max(missing))} if missing else values


def _still_announced(values: Mapping[str, str], entry: Properties) -> Collection[str]:
    """Return the partitions that an entry lists, without those dropped since their announcement."""
    if not entry.adds:
        return ()
    gone = {*entry.adds} - _names_in(values, METADATA_PARTITIONS_INFLIGHT) - _names_in(values, METADATA_PARTITIONS)
    if gone:
        logger.warning(
            "%s of the metadata table is not listed: another program dropped it since it was announced",
            ", ".join(sorted(gone)),
        )
    return {*entry.adds} - gone


def _announce(values: dict[str, str], names: Collection[str]) -> None:
    """Add partitions to the unfinished ones, except those that are listed."""
    new = {*names} - _names_in(values, METADATA_PARTITIONS)
    if new:
        held = _names_in(values, METADATA_PARTITIONS_INFLIGHT)
        values[METADATA_PARTITIONS_INFLIGHT] = ",".join(sorted(held | new))


def _names_in(values: Mapping[str, str], key: str) -> set[str]:
    return {name for part in values.get(key, "").split(",") if (name := part.strip())}


def _change_lists(values: dict[str, str], adds: Collection[str], drops: Collection[str]) -> None:
    """Add and remove partitions of the metadata table in its two lists."""
    for key in _LISTS if adds or drops else ():
        if key not in values and not adds:
            continue
        held = _names_in(values, key)
        # A named partition is not inflight any more.
        held = held - {*drops} | {*adds} if key == METADATA_PARTITIONS else held - {*drops, *adds}
        values[key] = ",".join(sorted(held))
