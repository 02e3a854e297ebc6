"""Remove ledgers, payloads and metadata bundles of archived instants.

No retry or reader asks for them, except for what is kept here (docs/protocol §22). Slots and marks of CANCELs are never removed:
a sleeping process could win a removed name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from hudi_ops.commit.ledger import pointers
from hudi_ops.commit.owned.kinds import Reason
from hudi_ops.commit.owned.remove import remove_paths
from hudi_ops.commit.session import Session
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.ledger_chain import FOLDER as LEDGERS, built_upon, writer_of_ledger
from hudi_ops.timeline.content.undone import restored_over
from hudi_ops.timeline.log.commit_log import FOLDER as LOG, SAVEPOINT_SUFFIX
from hudi_ops.timeline.log.entries import Complete
from hudi_ops.timeline.names import is_instant
from hudi_ops.timeline.state import TableState

PAYLOADS = f"{LOG}/payload"

Held: TypeAlias = tuple[str, str]
"""Folder of an instant, and path of a file in it."""


@dataclass(frozen=True)
class Pruned:
    """Numbers of removed ledgers, and of removed payloads with metadata bundles."""

    ledgers: int = 0
    payloads: int = 0


def prune(session: Session, state: TableState) -> Pruned:
    """Remove what no reader or retry can ask for; `state` is read after the ARCHIVE."""
    storage, boundary = session.ctx.storage, state.log.boundary
    held = _paths(storage, PAYLOADS)
    of_savepoints = savepoint_payloads(held, state.log.head)
    if not boundary:
        remove_paths(storage, Reason.ARCHIVED, of_savepoints)
        return Pruned(payloads=len(of_savepoints))
    ledgers = _below(_paths(storage, LEDGERS), boundary)
    kept = ledgers_kept(session, state) if ledgers else frozenset()
    gone = [path for path in ledgers if path not in kept]
    payloads = _below(held, boundary)
    kept = payloads_kept(session, state) if payloads else frozenset()
    dropped = [path for path in payloads if path not in kept] + of_savepoints
    remove_paths(storage, Reason.ARCHIVED, [*gone, *dropped])
    return Pruned(len(gone), len(dropped))


def ledgers_kept(session: Session, state: TableState) -> frozenset[str]:
    """Return the ledgers that a retry may ask for.

    These are the ledgers that commits on the timeline (a savepoint's commit included), `newest_extra` or the newest archived
    COMPLETE name, and the ledgers that these build upon. The archived COMPLETE is the only source once a foreign archiver removed
    our commits, or a restore undid all above the savepoint of a foreign write: without its ledgers, source files would be taken
    twice.

    Raises:
        Corrupt: one of them cannot be read.
        NotFound: one of them is missing.
    """
    storage = session.ctx.storage
    commits = (session.commits.metadata(state.timeline, write) for write in state.timeline.completed_writes)
    extras = [session.newest_extra(state), *(metadata.extra for metadata in commits if metadata is not None)]
    if (archived := _newest_archived(session, state)) is not None:
        extras.append(CommitMetadata.from_bytes(storage.get(archived.payload), archived.payload).extra)
    undone = restored_over(storage, state.timeline)
    named = sorted({
        path for extra in extras for path in pointers(extra).values() if writer_of_ledger(path) not in undone
    })
    below = session.ctx.local_engine.map(partial(built_upon, storage), named)
    return frozenset(named).union(*below)


def savepoint_payloads(held: Sequence[Held], head: int) -> list[str]:
    """Return payloads of savepoints whose makers died before they deleted them.

    A later slot is decided only after a savepoint was applied. So a payload for a slot below the head was applied, or lost its
    slot.
    """
    of_savepoints = [path for folder, path in held if folder.endswith(SAVEPOINT_SUFFIX)]
    slots = ((path, path.rpartition("/")[2].partition("-")[0]) for path in of_savepoints)
    return [path for path, slot in slots if slot.isdecimal() and int(slot) < head]


def payloads_kept(session: Session, state: TableState) -> frozenset[str]:
    """Return the payloads of the newest COMPLETE of a write, and of the newest archived one.

    `newest_extra` reads one of them: that of the archived COMPLETE once a restore undid every newer write. A savepoint may protect
    a foreign write, which names no slot.
    """
    found = (session.newest_complete(state), _newest_archived(session, state))
    return frozenset[str]().union(*(entry.notes for entry in found if entry is not None))


def _newest_archived(session: Session, state: TableState) -> Complete | None:
    return session.newest_complete(state, upto=state.log.boundary)


def _paths(storage: Storage, folder: str) -> list[Held]:
    """List the files of a folder that has a folder for each instant."""
    paths = [info.path for info in storage.list(folder)]
    return [(path.removeprefix(f"{folder}/").partition("/")[0], path) for path in paths]


def _below(held: Sequence[Held], boundary: str) -> list[str]:
    """Return the files of instants at or below the boundary."""
    return [path for name, path in held if is_instant(name) and name <= boundary]
