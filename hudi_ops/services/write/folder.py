"""Ingest from a folder of files: what it offers, and the ingest of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hudi_ops.commit.ledger import Ledger, Offer, offer_of, read_ledger
from hudi_ops.commit.recover.recover import finish_unfinished
from hudi_ops.commit.retry import retried
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.config.requests import EngineName
from hudi_ops.errors import InvalidRequest
from hudi_ops.services.base.engine import choose_engine
from hudi_ops.services.write.batch import Batch, KeptChunks
from hudi_ops.services.write.ingest import IngestResult, ingest, nothing_new
from hudi_ops.services.write.operations import UPSERT, Replaces, WriteOperation
from hudi_ops.storage.protocol import Storage


@dataclass(frozen=True)
class SourceFolder:
    """A source folder, and how much of it one commit takes.

    Attributes:
        storage: where the files lie.
        min_age_s: files that changed more recently wait.
        max_files: so many files at most, by path; None: all.
        max_bytes: as many files as lie within so many bytes, one at least; None: all.
        retake: paths of files that are taken again where they have changed since they were taken.
    """

    storage: Storage
    min_age_s: float = 0.0
    max_files: int | None = None
    max_bytes: int | None = None
    retake: tuple[str, ...] = ()

    def offer(self, session: Session) -> tuple[Ledger, Offer]:
        """The source's ledger, and what would be taken now.

        Raises:
            InvalidRequest: a file that was taken has changed since, or `retake` names one that was not.
            Unsupported: the table cannot be written.
        """
        state = session.loader.load()
        refuse_unwritable(state.config)
        ledger = read_ledger(session.ctx.storage, session.newest_extra(state), self.storage.uri)
        offer = offer_of(self.storage, ledger, session.ctx.clock.now_ms(), self.min_age_s, self.retake)
        return ledger, offer.within(self.max_files, self.max_bytes)


def ingest_folder(
    session: Session, folder: SourceFolder, operation: WriteOperation, engine: EngineName, *, evolve: bool
) -> IngestResult:
    """Write what a folder offers: each file once, and those to take again once more.

    Raises:
        InvalidRequest: a file does not fit the table, or changed after it was taken; nothing was changed.
        Conflict: lost to overlapping writes again and again.
    """
    refuse_bounds(operation, folder.max_files, folder.max_bytes)
    refuse_retake(operation, folder.retake)

    def attempt(started_s: float) -> IngestResult:
        # Read again at each try: a conflict may mean that another writer took these very files; so may a decided commit
        # whose writer died before it was visible.
        finish_unfinished(session)
        ledger, offer = folder.offer(session)
        total_bytes = sum(info.size_bytes for info in offer.files)
        chosen, reason = choose_engine(engine, total_bytes, session.ctx.engine)
        batch = Batch(operation, folder.storage, offer.files, ledger, evolve=evolve, kept=kept)
        if not offer.files:
            nothing = f"nothing new: {len(ledger.taken)} files were taken before"
            return nothing_new(session, batch, chosen, reason, "; ".join(filter(None, (nothing, offer.note))))
        result = ingest(session, batch, chosen, reason, started_s)
        return replace(result, note=offer.note) if offer.note else result

    with KeptChunks() as kept:
        return retried(session, attempt)


def refuse_bounds(operation: WriteOperation, max_files: int | None, max_bytes: int | None) -> None:
    """Refuse to take a folder part by part where each part would replace the one before.

    Raises:
        InvalidRequest: a bound, and an operation that replaces the table.
    """
    bounds = [name for name, bound in (("max_files", max_files), ("max_bytes", max_bytes)) if bound is not None]
    if bounds and operation.replaces is Replaces.TABLE:
        # The next commit would replace what this one wrote, whose files would count as taken all the same.
        raise InvalidRequest(
            f"{operation.name} cannot be bounded by {bounds[0]}: each commit would replace the rows of the one before",
            expected="all new files in one commit",
            found=" and ".join(bounds),
            next_step="leave the bounds out; or use upsert, insert or bulk_insert",
            field=bounds[0],
        )


def refuse_retake(operation: WriteOperation, retake: Sequence[str]) -> None:
    """Refuse to take a file again with an operation that would double its rows, or that means something else the second time.

    Raises:
        InvalidRequest: files to take again, and an operation other than upsert.
    """
    if retake and operation is not UPSERT:
        raise InvalidRequest(
            f"{operation.name} cannot take a file again",
            expected="upsert, which replaces the rows that the file brought before",
            found=operation.name,
            next_step="use upsert, or leave retake out and put the corrected rows into a new file",
            field="retake",
        )
