"""Ingest: source rows are tagged, merged bucket by bucket and committed; each source file is taken exactly once.

All that can be wrong with the input is found before the table is touched: rows are read, cast, keyed and tagged first, and only
then is an instant reserved.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from hudi_ops.concurrency.attempt import Attempt, begin
from hudi_ops.concurrency.conflicts import refuse_changed_properties
from hudi_ops.engine.protocol import Engine, Scattered
from hudi_ops.errors import Busy, Cancelled, Conflict, HudiOpsError, InvalidRequest, Unsupported
from hudi_ops.files.names import bucket_file_id
from hudi_ops.index.simple_bucket import groups_by_bucket
from hudi_ops.kernels.merge import Operation, Ordering
from hudi_ops.services.batch import Batch, tagged
from hudi_ops.services.commit import Write, complete_write
from hudi_ops.services.create import ensure_first_commit
from hudi_ops.services.ledger import POINTER_PREFIX, TAKEN_KEY, ledger_path
from hudi_ops.services.merge_tasks import BucketResult, BucketTask, find_duplicates, merge_and_write
from hudi_ops.services.recover import recover
from hudi_ops.services.rollback import cancel_write, clear_risen, roll_back
from hudi_ops.services.session import Session
from hudi_ops.services.tag_tasks import SourceSummary
from hudi_ops.services.writable import refuse_unwritable
from hudi_ops.timeline.state import TableState
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.listing import StorageListing
from hudi_ops.view.schema import table_schema
from hudi_ops.view.snapshot import TableView

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class IngestResult:
    """What an ingest did. `instant` is None when there was nothing to do; bytes are of the files written; times in seconds."""

    table: str
    operation: str
    instant: str | None
    completion_time: str | None
    engine: str
    engine_reason: str
    files: int
    rows_in: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    ignored: int = 0
    file_groups: int = 0
    bytes_written: int = 0
    seconds: float = 0.0
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def parse_operation(name: str) -> Operation:
    """The operation of that name.

    Raises:
        InvalidRequest: none has it.
    """
    try:
        return Operation(name.lower())
    except ValueError:
        raise InvalidRequest(
            f"unknown operation {name!r}",
            expected=" or ".join(operation.value for operation in Operation),
            found=name,
            next_step="pass --operation upsert, insert or delete",
        ) from None


def ingest(session: Session, batch: Batch, engine: Engine, reason: str, started_s: float) -> IngestResult:
    """Write a batch into the table and commit it.

    Raises:
        InvalidRequest: the batch does not fit the table. The table is byte for byte as it was.
        Unsupported: the table needs something that is not written yet.
        Conflict: another action that overlaps completed first; what this attempt wrote was rolled back.
    """
    state = session.loader.load()
    refuse_unwritable(state.config)
    schema = table_schema(state.config, state.timeline, session.commits)
    with tagged(engine, state, batch, schema) as scattered:
        summaries: Sequence[SourceSummary] = scattered.summaries
        groups = sorted({(path, bucket) for summary in summaries for path, bucket, _ in summary.groups})
        rows_in = sum(summary.rows for summary in summaries)
        if batch.operation is Operation.INSERT:
            _refuse_duplicates(session, state, schema, scattered, groups)
        if not rows_in and batch.ledger is None:
            return _nothing(state, batch, engine, reason, "nothing new: the batch has no rows")
        recover(session)
        ensure_first_commit(session)
        attempt = begin(session.ctx, session.loader, state.config.completed_write_action)
        try:
            _refuse_moved(session, state, attempt, batch)
            with session.keep(attempt.instant):
                tasks = _bucket_tasks(session, attempt, batch, schema, groups)
                results: list[BucketResult] = scattered.gather(merge_and_write, [(task.key, task) for task in tasks])
                entry = complete_write(session, attempt, _write_of(session, attempt, batch, results))
            session.settle(attempt.instant)
        except (InvalidRequest, Unsupported, Conflict, Busy, Cancelled) as error:
            # These promise that nothing landed; after any other error the attempt may be visible, and is left to `recover`.
            _undo(session, attempt, error)
            raise error.at(table=state.config.name, instant=attempt.instant) from error
    return IngestResult(
        table=state.config.name,
        operation=batch.operation.value,
        instant=attempt.instant,
        completion_time=entry.completion_time,
        engine=engine.name,
        engine_reason=reason,
        files=len(batch.files),
        rows_in=rows_in,
        inserted=sum(result.inserted for result in results),
        updated=sum(result.updated for result in results),
        deleted=sum(result.deleted for result in results),
        ignored=sum(result.ignored for result in results),
        file_groups=sum(result.stat is not None for result in results),
        bytes_written=sum(result.stat.file_size_in_bytes for result in results if result.stat is not None),
        seconds=round(session.ctx.clock.monotonic_s() - started_s, 3),
    )


def nothing_new(session: Session, batch: Batch, engine: Engine, reason: str, note: str) -> IngestResult:
    """The result of an ingest without new files; what dead attempts left is cleared all the same."""
    state = session.loader.load()
    recover(session)
    return _nothing(state, batch, engine, reason, note)


def _bucket_tasks(
    session: Session, attempt: Attempt, batch: Batch, schema: pa.Schema, groups: Sequence[tuple[str, int]]
) -> list[BucketTask]:
    """One task a bucket, upon the base files that are visible in the state the attempt began from."""
    state = attempt.begun
    live = _live_buckets(session, state, groups)
    tasks = []
    for partition, bucket in groups:
        base = live.get((partition, bucket))
        fresh_id = bucket_file_id(state.log.table_id, partition, bucket, attempt.instant)
        tasks.append(
            BucketTask(
                storage=session.ctx.storage,
                table_name=state.config.name,
                schema=schema,
                ordering=next(iter(state.config.ordering_fields), None),
                mode=Ordering(state.config.merge_mode),
                operation=batch.operation,
                partition_path=partition,
                bucket=bucket,
                file_id=base.file_id if base is not None else fresh_id,
                base=base,
                instant=attempt.instant,
                epoch=attempt.epoch,
            )
        )
    return tasks


def _refuse_moved(session: Session, read: TableState, attempt: Attempt, batch: Batch) -> None:
    """The batch was tagged and its ledger read before the attempt began: what changed in between is a conflict.

    Raises:
        Conflict: the table's settings, its schema or the source's ledger changed.
    """
    begun = attempt.begun
    refuse_changed_properties(read.config.raw, begun.config.raw, attempt.instant)
    schemas = [table_schema(state.config, state.timeline, session.commits) for state in (read, begun)]
    ledger = batch.ledger
    pointer = session.newest_extra(begun).get(POINTER_PREFIX + ledger.source_id, "") if ledger is not None else ""
    what = (
        "the table's index"
        if read.log.properties_slot != begun.log.properties_slot
        else "the table's schema"
        if schemas[0] != schemas[1]
        else f"the ledger of source {ledger.uri}"
        if ledger is not None and pointer != ledger.read_from
        else ""
    )
    if what:
        raise Conflict(
            f"{what} changed while the source was read",
            instant=attempt.instant,
            next_step="run the same call again: it starts from the table as it is now",
        )


def _live_buckets(
    session: Session, state: TableState, groups: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], DataFile]:
    listing = StorageListing(session.ctx.storage, is_partitioned=bool(state.config.partition_fields))
    view = TableView(state.config, state.timeline, session.commits, listing)
    return groups_by_bucket(view.base_files(sorted({partition for partition, _ in groups})), state.config.name)


def _refuse_duplicates(
    session: Session, state: TableState, schema: pa.Schema, scattered: Scattered, groups: Sequence[tuple[str, int]]
) -> None:
    live = _live_buckets(session, state, groups)
    tasks = [
        BucketTask(
            storage=session.ctx.storage,
            table_name=state.config.name,
            schema=schema,
            ordering=None,
            mode=Ordering.COMMIT_TIME,
            operation=Operation.INSERT,
            partition_path=partition,
            bucket=bucket,
            file_id="",
            base=live.get((partition, bucket)),
        )
        for partition, bucket in groups
    ]
    for task, key in zip(tasks, scattered.gather(find_duplicates, [(t.key, t) for t in tasks]), strict=True):
        if key is not None:
            raise InvalidRequest(
                f"an insert would write key {key} twice",
                table=state.config.name,
                expected="keys that the table does not have, each once",
                found=f"{key} in partition {task.partition_path or '.'}",
                next_step="use --operation upsert to replace rows that are there",
                record_key=key,
            )


def _write_of(session: Session, attempt: Attempt, batch: Batch, results: Sequence[BucketResult]) -> Write:
    stats = [result.stat for result in results if result.stat is not None]
    if batch.ledger is None:
        return Write(batch.operation.value.upper(), stats)
    ledger = batch.ledger.with_files(batch.files)
    path = ledger_path(attempt.instant, ledger.source_id)
    session.ctx.storage.put(path, ledger.encode())
    extra = {POINTER_PREFIX + ledger.source_id: path, TAKEN_KEY: ledger.source_id}
    return Write(batch.operation.value.upper(), stats, extra, frozenset({ledger.source_id}))


def _undo(session: Session, attempt: Attempt, error: HudiOpsError) -> None:
    try:
        if not cancel_write(session, attempt.instant, f"{type(error).__name__}: {error.what}"):
            return
        state = session.loader.load()
        found = state.timeline.find(attempt.instant)
        if found is None:
            clear_risen(session, state, attempt.instant)  # somebody else rolled it back while it still wrote
        else:
            roll_back(session, found)
    except HudiOpsError as failure:
        # The first error is what the caller must hear; the next ingest finds the attempt and clears it.
        logger.warning("attempt %s was not undone: %s", attempt.instant, failure)


def _nothing(state: TableState, batch: Batch, engine: Engine, reason: str, note: str) -> IngestResult:
    return IngestResult(
        state.config.name, batch.operation.value, None, None, engine.name, reason, len(batch.files), 0, note=note
    )
