"""Ingest from a folder of files: what it offers, and the ingest of that."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hudi_ops.services.batch import Batch
from hudi_ops.services.engine_choice import EngineName, choose_engine
from hudi_ops.services.ingest import IngestResult, ingest, nothing_new
from hudi_ops.services.ledger import Ledger, Offer, offer_of, read_ledger
from hudi_ops.services.operations import WriteOperation
from hudi_ops.services.recover import finish_unfinished
from hudi_ops.services.retry import retried
from hudi_ops.services.session import Session
from hudi_ops.services.writable import refuse_unwritable
from hudi_ops.storage.protocol import Storage


@dataclass(frozen=True)
class SourceFolder:
    """A source folder, and how much of it one commit takes.

    Attributes:
        storage: where the files lie.
        min_age_s: files that changed more recently wait.
        max_files: so many files at most, by path; None: all.
        max_bytes: as many files as lie within so many bytes, one at least; None: all.
    """

    storage: Storage
    min_age_s: float = 0.0
    max_files: int | None = None
    max_bytes: int | None = None

    def offer(self, session: Session) -> tuple[Ledger, Offer]:
        """The source's ledger, and what would be taken now.

        Raises:
            InvalidRequest: a file that was taken has changed since.
            Unsupported: the table cannot be written.
        """
        state = session.loader.load()
        refuse_unwritable(state.config)
        ledger = read_ledger(session.ctx.storage, session.newest_extra(state), self.storage.uri)
        offer = offer_of(self.storage, ledger, session.ctx.clock.now_ms(), self.min_age_s)
        return ledger, offer.within(self.max_files, self.max_bytes)


def ingest_folder(
    session: Session, folder: SourceFolder, operation: WriteOperation, engine: EngineName, *, evolve: bool
) -> IngestResult:
    """Write what a folder offers; each file exactly once.

    Raises:
        InvalidRequest: a file does not fit the table, or changed after it was taken; nothing was changed.
        Conflict: lost to overlapping writes again and again.
    """

    def attempt(started_s: float) -> IngestResult:
        # Read again at each try: a conflict may mean that another writer took these very files; so may a decided commit
        # whose writer died before it was visible.
        finish_unfinished(session)
        ledger, offer = folder.offer(session)
        total_bytes = sum(info.size_bytes for info in offer.files)
        chosen, reason = choose_engine(engine, total_bytes, session.ctx.engine)
        batch = Batch(operation, source=folder.storage, files=offer.files, ledger=ledger, evolve=evolve)
        if not offer.files:
            nothing = f"nothing new: {len(ledger.taken)} files were taken before"
            return nothing_new(session, batch, chosen, reason, "; ".join(filter(None, (nothing, offer.note))))
        result = ingest(session, batch, chosen, reason, started_s)
        return replace(result, note=offer.note) if offer.note else result

    return retried(session, attempt)
