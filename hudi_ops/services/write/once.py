"""Ingest given rows once for each batch id, so that a repeated batch writes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hudi_ops.commit.ledger import read_ledger
from hudi_ops.commit.recover.recover import finish_unfinished
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.engine.protocol import Engine
from hudi_ops.errors import InvalidRequest
from hudi_ops.services.write.automatic import written
from hudi_ops.services.write.batch import Batch
from hudi_ops.services.write.ingest import IngestResult, ingest, nothing_new
from hudi_ops.storage.protocol import FileInfo


@dataclass(frozen=True)
class BatchId:
    """Name of a batch of rows: its source, and an id that the source gives to no other batch."""

    source: str
    id: str

    def __post_init__(self) -> None:
        for name, value in (("batch_source", self.source), ("batch_id", self.id)):
            if not value.strip():
                raise InvalidRequest(
                    f"{name} is empty", expected="a text such as 17", found=repr(value), setting=name, field=name
                )

        if self.source.endswith("/"):
            # Sources of files are told apart without their last slash.
            raise InvalidRequest(
                f"batch_source {self.source!r} ends in a slash",
                expected="a text such as trips-stream",
                found=repr(self.source),
                next_step="leave out the slash",
                setting="batch_source",
                field="batch_source",
            )

    @property
    def uri(self) -> str:
        """Return the name of the source's ledger; no folder has it."""
        return f"batches:{self.source}"


def is_taken(session: Session, batch_id: BatchId) -> bool:
    """Return whether a batch is in the table.

    Raises:
        Unsupported: the table cannot be written.
        Corrupt: the ledger of the source cannot be read.
    """
    state = finish_unfinished(session)
    refuse_unwritable(state.config)
    ledger = read_ledger(session.ctx.storage, session.newest_extra(state), batch_id.uri)
    return batch_id.id in ledger.taken


def ingest_once(session: Session, batch: Batch, batch_id: BatchId, engine: Engine, reason: str) -> IngestResult:
    """Write given rows, unless a commit of the table has the batch already.

    The id takes effect together with the rows, in the ledger of its source.

    Raises:
        InvalidRequest: the rows do not fit the table; nothing was changed.
        Conflict: overlapping writes won at every try.
    """

    def attempt(started_s: float) -> IngestResult:
        # Each try reads this again: a writer that died may have committed the batch.
        state = finish_unfinished(session)
        refuse_unwritable(state.config)
        ledger = read_ledger(session.ctx.storage, session.newest_extra(state), batch_id.uri)
        if batch_id.id in ledger.taken:
            note = f"nothing new: batch {batch_id.id} of {batch_id.source} was written before"
            return nothing_new(session, batch, engine, reason, note)
        marked = replace(batch, ledger=ledger, files=(FileInfo(batch_id.id, 0, 0),))
        return replace(ingest(session, marked, engine, reason, started_s), files=0)

    return written(session, attempt)
