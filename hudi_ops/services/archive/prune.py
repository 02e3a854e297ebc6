"""Remove ledgers, payloads and metadata bundles of archived instants.

No retry or reader asks for them, except for what is kept here (docs/protocol.md §22). Slots and marks of CANCELs are never removed:
a sleeping process could win a removed name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain

from hudi_ops.commit.ledger import pointers
from hudi_ops.commit.session import Session
from hudi_ops.timeline.content.ledger_chain import FOLDER as LEDGERS
from hudi_ops.timeline.content.ledger_chain import built_upon
from hudi_ops.timeline.log.commit_log import FOLDER as LOG
from hudi_ops.timeline.log.entries import Complete, Restore, Void
from hudi_ops.timeline.log.head import older_entries
from hudi_ops.timeline.names import WRITE_ACTIONS, completes_as, is_instant
from hudi_ops.timeline.state import TableState

PAYLOADS = f"{LOG}/payload"


@dataclass(frozen=True)
class Pruned:
    """Numbers of removed ledgers, and of removed payloads with metadata bundles."""

    ledgers: int = 0
    payloads: int = 0


def prune(session: Session, state: TableState) -> Pruned:
    """Remove what no reader or retry can ask for; `state` is read after the ARCHIVE."""
    boundary = state.log.boundary
    if not boundary:
        return Pruned()
    ledgers = _below(session, LEDGERS, boundary)
    kept = ledgers_kept(session, state) if ledgers else frozenset()
    gone = [path for path in ledgers if path not in kept]
    payloads = _below(session, PAYLOADS, boundary)
    kept = payloads_kept(session, state) if payloads else frozenset()
    dropped = [path for path in payloads if path not in kept]
    session.ctx.storage.delete_all([*gone, *dropped])
    return Pruned(len(gone), len(dropped))


def ledgers_kept(session: Session, state: TableState) -> frozenset[str]:
    """Return the ledgers that a retry may ask for.

    They are named by commits on the timeline and by `newest_extra`, or named ones build upon them. A savepoint's commit is among
    the former. `newest_extra` is the only source after a foreign archiver removed all commits of ours: without its ledgers, source
    files would be taken twice.

    Raises:
        Corrupt: one of them cannot be read.
        NotFound: one of them is missing.
    """
    commits = (session.commits.metadata(state.timeline, write) for write in state.timeline.completed_writes)
    extras = [session.newest_extra(state), *(metadata.extra for metadata in commits if metadata is not None)]
    named = sorted({path for extra in extras for path in pointers(extra).values()})
    below = session.ctx.local_engine.map(partial(built_upon, session.ctx.storage), named)
    return frozenset(named).union(*below)


def payloads_kept(session: Session, state: TableState) -> frozenset[str]:
    """Return the payloads of the newest COMPLETE of a write, from which `newest_extra` reads."""
    voided, undone = set(state.log.voided), set[str]()
    entries = chain(reversed(list(state.log.since(-1))), older_entries(session.ctx.storage, state.log))
    for slot, entry in entries:
        if isinstance(entry, Void):
            voided.add(entry.slot)
        elif isinstance(entry, Restore):
            undone.update(entry.undone)
        elif not isinstance(entry, Complete) or slot in voided or entry.instant in undone:
            continue
        elif completes_as(entry.action) in WRITE_ACTIONS:
            return entry.notes
    return frozenset()


def _below(session: Session, folder: str, boundary: str) -> list[str]:
    """Return files of instants at or below the boundary, in a folder with one for each."""
    storage = session.ctx.storage
    names = [name for name in storage.list_folder(folder).folders if is_instant(name) and name <= boundary]
    listed = session.ctx.local_engine.map(lambda name: storage.list(f"{folder}/{name}"), names)
    return [info.path for files in listed for info in files]
