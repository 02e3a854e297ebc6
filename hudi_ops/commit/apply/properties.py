"""Apply PROPERTIES entries of the commit log to `hoodie.properties`.

The file records the newest applied slot under `FOLDED_KEY`, put together with the values in one atomic put. A late applier that
puts an old file back also puts the old number back, so the next process that loads the table applies the lost entries. Applied
entries are not applied again: later changes by Apache Hudi, such as a new metadata table, must stay.
Version 1.0 drops unknown keys when it rewrites the file; then the number is missing, as on adopted tables, and only an entry's own
decider applies it.

Announced partitions of the metadata table are put into the list of unfinished partitions, which all writers update and no reader
uses. A later entry moves them to the list of finished partitions, but only if the file still has them: a foreign writer may have
dropped them. Builds of earlier releases have no announcement; their partitions are added only while they cover every completion.

Source: docs/protocol.md §6, §18.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from hudi_ops.config.table import METADATA_PARTITIONS, METADATA_PARTITIONS_INFLIGHT, PROPERTIES_PATH, TableConfig
from hudi_ops.context import TableContext
from hudi_ops.errors import Internal, InvalidRequest
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.completed import changing, digest_of
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Log, refresh_log
from hudi_ops.timeline.log.entries import Properties
from hudi_ops.timeline.settings.properties_file import FOLDED_KEY, folded_slot, read_properties, write_properties
from hudi_ops.timeline.settings.settings_check import entries_above, with_entry
from hudi_ops.timeline.state import CommitReader

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
    named: list[tuple[Properties, bool]] = []
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
        # hudi_ops writers apply before they decide, as long as the file has a number.
        counts_ours = folded_slot(current) is None
        builds = {at: entry for at, entry in missing.items() if entry.adds and entry.upon}
        late = {at for at, entry in builds.items() if _is_late(ctx.storage, current, entry, counts_ours)}
        wanted = _folded(current, missing, late)
        # The process may lose the lock in a pause before the put: builds named in this call are checked again after it.
        for entry, counted_ours in named:
            if _is_late(ctx.storage, current, entry, counted_ours):
                _change_lists(wanted, (), entry.adds)
        if wanted == current:
            return
        named += [(entry, counts_ours) for at, entry in builds.items() if at not in late]
        write_properties(ctx.storage, wanted, ctx.clock.now_ms(), first=first and not current)
    raise Internal(f"{PROPERTIES_PATH} keeps changing while it is written", table=ctx.storage.uri)


def _missing(storage: Storage, log: Log, current: Mapping[str, str], slot: int) -> list[tuple[int, Properties]]:
    """Return the entries above the file's number; without a valid number those from `slot` on."""
    applied = folded_slot(current)
    return entries_above(storage, log, slot - 1 if applied is None or applied > log.properties_slot else applied)


def _folded(current: Mapping[str, str], missing: Mapping[int, Properties], late: Collection[int]) -> dict[str, str]:
    """Return the updated properties, without the partitions of builds in `late`."""
    values = dict(current)
    for slot, entry in missing.items():
        values = with_entry(values, entry)
        _change_lists(values, () if slot in late else _still_announced(values, entry), entry.drops)
        _announce(values, entry.announces)
    return {**values, FOLDED_KEY: str(max(missing))} if missing else values


def _still_announced(values: Mapping[str, str], entry: Properties) -> Collection[str]:
    """Return the partitions that an entry lists, without those dropped since their announcement."""
    if not entry.adds or entry.upon:
        return entry.adds
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


def _is_late(storage: Storage, current: Mapping[str, str], entry: Properties, counts_ours: bool) -> bool:
    """Return whether the partitions of a build lack a later completion, or are gone.

    `counts_ours`: later hudi_ops writes may lack them, too.
    """
    why, built = "", load_metadata_timeline(storage).find(entry.built_at)
    if built is None or not built.is_completed:
        why = f"their build at {entry.built_at} was removed"
    else:
        timeline = load_timeline(storage, TableConfig.from_properties(current))
        found = changing(timeline)
        if not counts_ours and digest_of(found) != entry.upon:
            found -= _of_ours(CommitReader(storage), timeline, built.completion_time)
        if digest_of(found) != entry.upon:
            why = "something completed without them since they were built"
    if why:
        logger.warning("%s of the metadata table is not named: %s", ", ".join(entry.adds), why)
    return bool(why)


def _of_ours(commits: CommitReader, timeline: Timeline, since: str) -> frozenset[Instant]:
    """Return the hudi_ops writes that completed after a time."""
    later = [
        (write, commits.metadata(timeline, write))
        for write in timeline.completed_writes
        if write.completion_time > since
    ]
    return frozenset(write for write, said in later if said is not None and POINTER_KEY in said.extra)
