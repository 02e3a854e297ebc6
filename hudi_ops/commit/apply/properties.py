"""`hoodie.properties` as the log says: what PROPERTIES entries set and remove is folded onto the file just read.

The file itself says how far it has come: `FOLDED_KEY` holds the newest slot that is folded in, put with the values in one atomic
put. So an applier that slept and puts an old file back puts the old number back too, and whoever loads the table next folds in what
was lost. And what was folded once is not folded again: Apache Hudi changes keys of this file as well, and what it built after an
entry was applied, a metadata table for one, must stay. Version 1.0 of it drops keys that it does not know when it rewrites the
file; then the number is missing, as on tables that were adopted, and nobody but the entry's own decider applies it.

Partitions of the metadata table that were built are named only as long as they have all that completed: who writes without the log
adds to those alone that the file names. So they are not named once anything of others completed after the build was decided.

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
"""How often the file may change under us before we believe that something else is wrong."""


def apply_properties(ctx: TableContext, log: Log, slot: int, *, first: bool = False) -> None:
    """Fold an entry, and those that are missing, onto the file until file and log agree.

    Args:
        ctx: components of the table.
        log: as it was read last; it is read again before each look at the file.
        slot: the entry that is applied: its decider's, or one that the file's number says is missing.
        first: the table is being made.

    Raises:
        Internal: the file keeps changing under us.
    """
    named: list[tuple[Properties, bool]] = []
    for _ in range(WRITES_MAX):
        # The log before the file, each time: another decider's entry may have been folded in by now, and by us overwritten.
        log = refresh_log(ctx.storage, log)
        try:
            current = read_properties(ctx.storage)
        except InvalidRequest:
            if not first:
                continue  # Apache Hudi replaces the file in steps: what is put here now would be all that is left of it
            current = {}  # neither the file nor its backup: the table is being made
        missing = dict(_missing(ctx.storage, log, current, slot))
        # Writers of ours fold before they decide, as long as the file has a number.
        counts_ours = folded_slot(current) is None
        builds = {at: entry for at, entry in missing.items() if entry.adds}
        late = {at for at, entry in builds.items() if _is_late(ctx.storage, current, entry, counts_ours)}
        wanted = _folded(current, missing, late)
        # Whoever sleeps before its put may lose the lock: what was named in this call is judged once more after it.
        for entry, counted_ours in named:
            if _is_late(ctx.storage, current, entry, counted_ours):
                _change_lists(wanted, (), entry.adds)
        if wanted == current:
            return
        named += [(entry, counts_ours) for at, entry in builds.items() if at not in late]
        write_properties(ctx.storage, wanted, ctx.clock.now_ms(), first=first and not current)
    raise Internal(f"{PROPERTIES_PATH} keeps changing while it is written", table=ctx.storage.uri)


def _missing(storage: Storage, log: Log, current: Mapping[str, str], slot: int) -> list[tuple[int, Properties]]:
    """Every entry above the number that the file holds, in order; without a number that a slot has, those from `slot` on."""
    said = folded_slot(current)
    return entries_above(storage, log, slot - 1 if said is None or said > log.properties_slot else said)


def _folded(current: Mapping[str, str], missing: Mapping[int, Properties], late: Collection[int]) -> dict[str, str]:
    """What the file should say, without what the builds in `late` would name."""
    values = dict(current)
    for slot, entry in missing.items():
        values = with_entry(values, entry)
        _change_lists(values, () if slot in late else entry.adds, entry.drops)
    return {**values, FOLDED_KEY: str(max(missing))} if missing else values


def _change_lists(values: dict[str, str], adds: Collection[str], drops: Collection[str]) -> None:
    """Name partitions of the metadata table, and others no longer, in the lists as they are now."""
    for key in _LISTS if adds or drops else ():
        if key not in values and not adds:
            continue
        held = {name for part in values.get(key, "").split(",") if (name := part.strip())}
        # What is named is not being built any more.
        held = held - {*drops} | {*adds} if key == METADATA_PARTITIONS else held - {*drops, *adds}
        values[key] = ",".join(sorted(held))


def _is_late(storage: Storage, current: Mapping[str, str], entry: Properties, counts_ours: bool) -> bool:
    """Whether partitions that were built lack something by now, or are gone.

    Args:
        storage: the table's.
        current: its properties.
        entry: names the build, and what it stands upon.
        counts_ours: whether writes of ours that completed since may lack them, too.
    """
    why, built = "", load_metadata_timeline(storage).find(entry.built_at)
    if built is None or not built.is_completed:
        why = f"their build at {entry.built_at} was cleared away"
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
    """Writes that stand in the log and completed after a time."""
    later = [(one, commits.metadata(timeline, one)) for one in timeline.completed_writes if one.completion_time > since]
    return frozenset(one for one, said in later if said is not None and POINTER_KEY in said.extra)
