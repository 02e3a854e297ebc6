"""Ingest the new files of a source folder, or one file of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hudi_ops.commit.ledger import Ledger, Offer, offer_of, one_file, read_ledger, with_overlapping
from hudi_ops.commit.recover.recover import finish_unfinished
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.config.requests import EngineName
from hudi_ops.engine.progress import TellProgress
from hudi_ops.errors import InvalidRequest
from hudi_ops.services.base.engine import choose_engine
from hudi_ops.services.write.automatic import written
from hudi_ops.services.write.batch import Batch, KeptChunks
from hudi_ops.services.write.ingest import IngestResult, ingest, nothing_new
from hudi_ops.services.write.operations import UPSERT, Replaces, WriteOperation
from hudi_ops.storage.open import open_source
from hudi_ops.storage.protocol import Storage


@dataclass(frozen=True)
class SourceFolder:
    """A source folder, and the limits of one commit.

    Attributes:
        storage: holds the files.
        min_age_s: files that changed more recently wait.
        max_files: limit of the number of files, taken in the order of their paths; None: no limit.
        max_bytes: limit of the bytes of all files, at least one is taken; None: no limit.
        retake: paths of taken files that are taken again if they have changed.
        only: the one file to take; None: all.
    """

    storage: Storage
    min_age_s: float = 0.0
    max_files: int | None = None
    max_bytes: int | None = None
    retake: tuple[str, ...] = ()
    only: str | None = None

    @classmethod
    def of(
        cls,
        source: str,
        *,
        min_age_s: float = 0.0,
        max_files: int | None = None,
        max_bytes: int | None = None,
        retake: tuple[str, ...] = (),
    ) -> SourceFolder:
        """Return the source that a path or URI of a folder or a file names.

        Raises:
            InvalidRequest: there is no such file or folder.
            Unsupported: a scheme without a backend.
        """
        storage, only = open_source(source)
        return cls(storage, min_age_s, max_files, max_bytes, retake, only)

    def offer(self, session: Session) -> tuple[Ledger, Offer]:
        """Return the source's ledger, and the files that would be taken now.

        Raises:
            InvalidRequest: a file that was taken has changed since, or `retake` names one that was not.
            Unsupported: the table cannot be written.
        """
        state = session.loader.load()
        refuse_unwritable(state.config)
        listed = self.storage.list() if self.only is None else [one_file(self.storage, self.only)]
        extra = session.newest_extra(state)
        ledger = read_ledger(session.ctx.storage, extra, self.storage.uri)
        ledger = with_overlapping(session.ctx.storage, extra, ledger, listed)
        now_ms, is_one = session.ctx.clock.now_ms(), self.only is not None
        offer = offer_of(self.storage, listed, ledger, now_ms, self.min_age_s, self.retake, takes_all=is_one)
        return ledger, offer.within(self.max_files, self.max_bytes)


def ingest_folder(
    session: Session,
    folder: SourceFolder,
    operation: WriteOperation,
    engine: EngineName,
    *,
    evolve: bool,
    progress: TellProgress | None = None,
) -> IngestResult:
    """Write the new files of a folder, and those to take again.

    `progress` is called by the local engine, after each file and file group.

    Raises:
        InvalidRequest: a file does not fit the table, or changed after it was taken; nothing was changed.
        Conflict: overlapping writes won at every try.
    """
    refuse_bounds(operation, folder.max_files, folder.max_bytes)
    refuse_retake(operation, folder.retake)

    def attempt(started_s: float) -> IngestResult:
        # Each try reads this again: another writer may have taken these files, also in a decided commit whose writer died before it
        # was visible.
        finish_unfinished(session)
        ledger, offer = folder.offer(session)
        total_bytes = sum(info.size_bytes for info in offer.files)
        chosen, reason = choose_engine(engine, total_bytes, session.ctx.engine)
        batch = Batch(operation, folder.storage, offer.files, ledger, evolve=evolve, kept=kept, progress=progress)
        if not offer.files:
            count = len(ledger.known)
            taken = (
                f"{count} {'file was' if count == 1 else 'files were'}" if folder.only is None else f"{folder.only} was"
            )
            nothing = (
                f"nothing new: {taken} taken before" if not offer.waiting or folder.only is None else "nothing new"
            )
            return nothing_new(session, batch, chosen, reason, "; ".join(filter(None, (nothing, offer.note))))
        result = ingest(session, batch, chosen, reason, started_s)
        return replace(result, note=offer.note) if offer.note else result

    with KeptChunks() as kept:
        return written(session, attempt)


def refuse_bounds(operation: WriteOperation, max_files: int | None, max_bytes: int | None) -> None:
    """Refuse a bound for an operation that replaces the table.

    Raises:
        InvalidRequest: each commit would replace the one before.
    """
    bounds = [name for name, bound in (("max_files", max_files), ("max_bytes", max_bytes)) if bound is not None]
    if bounds and operation.replaces is Replaces.TABLE:
        # The next commit would replace the rows of this one, and its files would still count as taken.
        raise InvalidRequest(
            f"{operation.name} cannot be bounded by {bounds[0]}: each commit would replace the rows of the one before",
            expected="all new files in one commit",
            found=" and ".join(bounds),
            next_step="leave the bounds out; or use upsert, insert or bulk_insert",
            field=bounds[0],
        )


def refuse_retake(operation: WriteOperation, retake: Sequence[str]) -> None:
    """Refuse to take a file again with an operation that could double its rows.

    Raises:
        InvalidRequest: files to take again, and another operation.
    """
    if retake and operation is not UPSERT:
        raise InvalidRequest(
            f"{operation.name} cannot take a file again",
            expected="upsert, which replaces the rows that the file brought before",
            found=operation.name,
            next_step="use upsert, or leave retake out and put the corrected rows into a new file",
            field="retake",
        )
