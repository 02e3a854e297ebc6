"""Take instants out of a history if no ARCHIVE decided them (docs/protocol §23).

An archiver that dies between its manifest and its slot leaves instants on the timeline and in the history. A restore that undoes
them takes them out, after its slot: an archiver that wakes up then loses its slot, and is refused because of the savepoint.
"""

from __future__ import annotations

import logging
from collections.abc import Set as AbstractSet

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.errors import Conflict
from hudi_ops.services.archive.manifests import TRIES, Manifest, Parts, current, publish, without
from hudi_ops.timeline.content.archived import ArchivedInstant, HistoryPart, read_part
from hudi_ops.timeline.content.history_parts import LEVEL_MAX, encode_part, part_name, range_of

logger = logging.getLogger(__name__)


def take_out(session: Session, folder: str, times: AbstractSet[str]) -> list[str]:
    """Publish a history without these instants; return the request times of those that it had.

    Before that, the other instants of the same history files are written again, without the lock.

    Raises:
        Busy: the lock was not free in time.
        Conflict: archivers changed the history each time.
        Corrupt: the history cannot be read.
    """
    storage = session.ctx.storage
    for _ in range(TRIES):
        before = current(storage, folder)
        read = _read(session, folder, before, times)
        if not read:
            return []
        kept = [one for part in read.values() for one in part if one.time not in times]
        instead = [_put(session, folder, before, kept)] if kept else []
        gone = frozenset(read)

        def change(parts: Parts, gone: frozenset[str] = gone, instead: list[HistoryPart] = instead) -> Parts:
            return without(parts, gone, instead) if gone <= {part.name for part in parts} else parts

        with hold_lock(session.ctx, "take undone instants out of the history"):
            now = publish(storage, folder, change)
        if not gone & now.names:
            found = sorted(one.time for part in read.values() for one in part if one.time in times)
            logger.warning("took %s undone instants out of %s: an archiver died before its slot", len(found), folder)
            return found
    raise Conflict(
        "archivers changed the history each time that undone instants were taken out of it",
        table=storage.uri,
        expected=f"{folder} as it was read",
        next_step="run the same call again",
    )


def _read(
    session: Session, folder: str, manifest: Manifest, times: AbstractSet[str]
) -> dict[str, list[ArchivedInstant]]:
    """Return the history files that hold some of the instants, with all that they hold."""
    found = {}
    for part in manifest.parts:
        held = range_of(part.name)
        if held is None or any(held[0] <= time <= held[1] for time in times):
            read = read_part(session.ctx.storage, f"{folder}/{part.name}", with_content=True)
            if any(one.time in times for one in read):
                found[part.name] = read
    return found


def _put(session: Session, folder: str, manifest: Manifest, kept: list[ArchivedInstant]) -> HistoryPart:
    """Put a history file of instants under a name that no file of the manifest has."""
    times = [one.time for one in kept]
    name = next(name for level in range(LEVEL_MAX + 1) if (name := part_name(times, level)) not in manifest.names)
    body = encode_part(kept)
    session.ctx.storage.put(f"{folder}/{name}", body)
    return HistoryPart(name, len(body))
