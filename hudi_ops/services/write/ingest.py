"""Ingest: tag source rows, merge them by bucket, and commit each source file exactly once.

Rows are read, cast, keyed and tagged before an instant is reserved, so wrong input is found before the table is touched.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from zlib import crc32

import pyarrow as pa

from hudi_ops.commit.apply.metadata_delta import wanted_facts
from hudi_ops.commit.decide.complete import complete_write
from hudi_ops.commit.first_commit import ensure_first_commit
from hudi_ops.commit.ledger import POINTER_PREFIX
from hudi_ops.commit.recover.recover import is_due, ready, recover
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_other_index, refuse_unwritable
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.conflicts import refuse_changed_properties
from hudi_ops.concurrency.markers import marker_path
from hudi_ops.engine.protocol import Engine
from hudi_ops.errors import Conflict, InvalidRequest, Unsupported
from hudi_ops.files.statistics.statistics import NO_FACTS, StatisticsRequest
from hudi_ops.index.simple_bucket import computed_keys
from hudi_ops.kernels.merging.merge import Operation, Ordering
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.services.base.result import Result
from hudi_ops.services.base.slices import merging_of
from hudi_ops.services.indexing.drop import drop_metadata
from hudi_ops.services.write.attempt import write_attempt
from hudi_ops.services.write.batch import Batch, is_read_once, tagged
from hudi_ops.services.write.dual.writer import DualWriter
from hudi_ops.services.write.evolve import ColumnChange, columns_after
from hudi_ops.services.write.operations import INSERT, INSERT_OVERWRITE_TABLE
from hudi_ops.services.write.replace import replaced_by, with_replaced
from hudi_ops.services.write.routing.known_rings import KnownRings
from hudi_ops.services.write.routing.rings import unchanged_rings
from hudi_ops.services.write.routing.router import router_of
from hudi_ops.services.write.routing.routes import Router, Routes, Target
from hudi_ops.services.write.tasks.append import write_bucket
from hudi_ops.services.write.tasks.duplicates import find_duplicates, refuse_duplicate
from hudi_ops.services.write.tasks.gather import write_groups
from hudi_ops.services.write.tasks.merge import BucketResult, BucketTask
from hudi_ops.timeline.content.footprint import LOOKED_KEY, TAKEN_KEY
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import table_schema

logger = logging.getLogger(__name__)

YOUNG_S = 1.0
"""Age up to which a write begins from a state that was read before; later completions are validated as conflicts."""


@dataclass(frozen=True)
class IngestResult(Result):
    """Result of an ingest. `instant` is None if there was nothing to do; times in seconds.

    `replaced` counts the file groups that an overwrite hid; their rows count as neither updated nor deleted. `logged` counts rows
    and deletes in log files of a merge-on-read table: readers and compactions find out which of them are updates.
    `bytes_written` is the size of the files written. `automatic` says what an automatic clean and archive did after the commit.
    `ended_plans` are instants of plans on the same file groups, which it cancelled.
    """

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
    logged: int = 0
    file_groups: int = 0
    replaced: int = 0
    bytes_written: int = 0
    seconds: float = 0.0
    note: str = ""
    schema_changes: tuple[str, ...] = ()
    automatic: tuple[str, ...] = ()
    ended_plans: tuple[str, ...] = ()


def ingest(session: Session, batch: Batch, engine: Engine, reason: str, started_s: float) -> IngestResult:
    """Write a batch into the table and commit it.

    Raises:
        InvalidRequest: the batch does not fit the table. The table is byte for byte as it was.
        Unsupported: the table needs a feature that is not supported.
        Conflict: an overlapping action completed first; the files of this attempt were rolled back.
        Busy: a foreign write is pending without a heartbeat, and the settings do not say to pass it.
    """
    read_s = session.ctx.clock.monotonic_s()
    state = session.loader.resume() if not is_due(session) and not is_read_once(batch) else session.loader.load()
    try:
        return _ingest_into(session, state, read_s, batch, engine, reason, started_s)
    except Conflict:
        # The next try reads the table, even if nothing was begun: a hash ring may have changed.
        session.memory.is_clean = False
        raise
    except (InvalidRequest, Unsupported):
        if not session.loader.has_left(state):
            raise
        # The batch was checked against the state that this session's last write left: others may have added the column or deleted
        # the key since. Nothing was begun, since each beginning of an attempt reads the state first or clears it.
        read_s = session.ctx.clock.monotonic_s()
        return _ingest_into(session, session.loader.load(), read_s, batch, engine, reason, started_s)


def _ingest_into(
    session: Session, state: TableState, read_s: float, batch: Batch, engine: Engine, reason: str, started_s: float
) -> IngestResult:
    refuse_unwritable(state.config)
    refuse_other_index(state)
    session.silent.refuse(state)  # before the source is read, and before a foreign table is adopted
    change = columns_after(session, state, batch, engine)
    schema, rings = change.schema, KnownRings.of(session, state, engine)
    with (
        tagged(engine, state, batch, schema, rings) as scattered,
        router_of(session, state, batch.operation, engine, schema, scattered, rings) as router,
    ):
        rows_in = sum(summary.rows for summary in scattered.summaries)
        _refuse_known_keys(session, state, batch, schema, router)
        _refuse_emptying(state, batch, rows_in)
        if not rows_in and batch.ledger is None and not change.phrases:
            return _nothing(state, batch, engine, reason, "nothing new: the batch has no rows")
        intent = router.intent(batch.ledger.source_id if batch.ledger is not None else None)
        start = _set_out(session, state, read_s, change)
        operation = batch.operation

        def refuse_moved(begun: Attempt) -> None:
            _refuse_moved(session, state, begun, batch)

        with write_attempt(session, state.config, operation, intent, start=start, check=refuse_moved) as running:
            attempt, check = running.attempt, running.monitor.check
            wanted = wanted_facts(session, attempt.begun, schema)
            with running.before_files():
                routes = router.routes(attempt.begun)
            tasks = _group_tasks(session, attempt, batch, schema, routes, wanted)
            replaced = replaced_by(session, attempt.begun, operation, (task.partition_path for task in tasks))
            twin = None
            if routes.rings and replaced is None:
                twin = DualWriter(session, attempt, schema, wanted, running.written)
                tasks = twin.with_children(tasks)
            check()
            if engine.name == "local":
                results = write_groups(
                    routes.gather, tasks, partial(running.watch.over, check=check), check, batch.progress
                )
            else:
                results = routes.gather(write_bucket, [(task.key, task) for task in tasks])
            running.written += [result.stat.path for result in results if result.stat is not None]
            check()
            write = replace(
                _write_of(session, attempt, batch, results, routes.looked), wanted=wanted, schema=change.new
            )
            if replaced is not None:
                write = with_replaced(session, attempt.begun, write, replaced, routes.rings)
            if twin is not None:
                twin.take(write, results)
            unchanged = unchanged_rings(session, attempt, routes.rings)
            entry = complete_write(session, attempt, write, check=unchanged, twin=twin)
            if engine.name == "local":
                running.markers = [*_markers(attempt, tasks, results), *(twin.markers if twin is not None else ())]
    return IngestResult(
        table=state.config.name,
        operation=batch.operation.name,
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
        logged=sum(result.logged for result in results),
        file_groups=sum(result.stat is not None for result in results),
        replaced=sum(map(len, (replaced or {}).values())),
        bytes_written=sum(result.stat.file_size_in_bytes for result in results if result.stat is not None),
        seconds=round(session.ctx.clock.monotonic_s() - started_s, 3),
        schema_changes=change.phrases,
        ended_plans=session.memory.ended_plans,
    )


def nothing_new(session: Session, batch: Batch, engine: Engine, reason: str, note: str) -> IngestResult:
    """Return the result of an ingest without new files, after a recovery of dead attempts."""
    state = session.loader.load()
    recover(session, is_ingestion=True)
    return _nothing(state, batch, engine, reason, note)


def _set_out(session: Session, state: TableState, read_s: float, change: ColumnChange) -> TableState | None:
    """Recover the table, and return the state to begin from; None where it must be read again."""
    is_young = session.ctx.clock.monotonic_s() - read_s < YOUNG_S
    start = ready(session, state if is_young else None)
    if change.is_widened and _drops_partition_stats(session, state):
        start = None
    if not state.timeline.completed_writes:
        ensure_first_commit(session)
        start = None
    return start


def _drops_partition_stats(session: Session, state: TableState) -> bool:
    """Drop partition statistics before a column gets another type; return whether any existed.

    The records hold the type of their column, and Apache Hudi fails on records that were widened by records of another type. Its
    next default writer builds them again, as `hudi-ops index TABLE run` does.
    """
    name = MetadataPartition.PARTITION_STATS
    if name not in state.config.all_metadata_partitions:
        return False
    return bool(drop_metadata(session, [name]).dropped)


def _group_tasks(
    session: Session,
    attempt: Attempt,
    batch: Batch,
    schema: pa.Schema,
    routes: Routes,
    wanted: StatisticsRequest,
) -> list[BucketTask]:
    """Return one task for each file group, with its slice in the attempt's first state."""
    state = attempt.begun
    template = replace(
        _bucket_template(session, state, schema, wanted),
        operation=batch.operation.kernel or Operation.UPSERT,
        instant=attempt.instant,
        epoch=attempt.epoch,
    )
    return [
        _group_task(template, target, target.file_id(state.log.table_id, attempt.instant)) for target in routes.targets
    ]


def _bucket_template(
    session: Session, state: TableState, schema: pa.Schema, wanted: StatisticsRequest = NO_FACTS
) -> BucketTask:
    """Return a task with the fields that all buckets share."""
    merging = merging_of(state, schema) if state.config.table_type == "MERGE_ON_READ" else None
    return BucketTask(
        storage=session.ctx.storage,
        table_name=state.config.name,
        schema=schema,
        ordering=next(iter(state.config.ordering_fields), None),
        mode=Ordering(state.config.merge_mode),
        operation=Operation.INSERT,
        partition_path="",
        bucket=0,
        file_id="",
        base=None,
        log_format=session.log_format if merging is not None else None,
        merging=merging,
        keys=computed_keys(state.config, state.log.properties.facts),
        wanted=wanted,
    )


def _group_task(template: BucketTask, target: Target, file_id: str) -> BucketTask:
    """Return the task of one file group."""
    found = target.found
    return replace(
        template,
        partition_path=target.partition_path,
        # Without buckets, another number tells the groups apart: row numbers and tokens are derived from it.
        bucket=target.number if target.is_bucket else crc32(file_id.encode()),
        file_id=file_id,
        base=found.base if found is not None else None,
        logs=found.logs if found is not None else (),
        log_format=None if target.is_rewritten else template.log_format,
        chunks=target.chunks,
    )


def _markers(attempt: Attempt, tasks: Sequence[BucketTask], results: Sequence[BucketResult]) -> list[str]:
    """Return the markers of tasks that ran once each, in this process."""
    return [
        marker_path(attempt.instant, result.stat.path, replaces=task.base is not None and not task.is_appended)
        for task, result in zip(tasks, results, strict=True)
        if result.stat is not None
    ]


def _refuse_moved(session: Session, read: TableState, attempt: Attempt, batch: Batch) -> None:
    """Refuse a batch that was tagged for another state than the attempt began from.

    Raises:
        Conflict: the table's settings, its schema or the source's ledger changed.
    """
    begun = attempt.begun
    refuse_changed_properties(read.config.raw, begun.config.raw, attempt.instant)
    schemas = [table_schema(state.config, state.timeline, session.commits) for state in (read, begun)]
    ledger = batch.ledger
    what = (
        "the table's index"
        # It changed, too, if another adoption took slot 0 with other facts than those by which the rows were routed.
        if read.log.properties.facts != begun.log.properties.facts
        else "the table's schema"
        if schemas[0] != schemas[1]
        else f"the ledger of source {ledger.uri}"
        if ledger is not None and ledger.moved(session.newest_extra(begun))
        else ""
    )
    if what:
        raise Conflict(
            f"{what} changed while the source was read",
            instant=attempt.instant,
            next_step="run the same call again: it starts from the table as it is now",
        )


def _refuse_known_keys(session: Session, state: TableState, batch: Batch, schema: pa.Schema, router: Router) -> None:
    """Refuse an insert of a key twice, before an instant is taken.

    Raises:
        InvalidRequest: names the key.
    """
    if batch.operation is not INSERT:
        return
    routes = router.routes(state)
    template = _bucket_template(session, state, schema)
    tasks = [_group_task(template, target, "") for target in routes.targets]
    found = routes.gather(find_duplicates, [(task.key, task) for task in tasks])
    for task, key in zip(tasks, found, strict=True):
        if key is not None:
            refuse_duplicate(state.config.name, key, f"partition {task.partition_path or '.'}")


def _refuse_emptying(state: TableState, batch: Batch, rows_in: int) -> None:
    if batch.operation is INSERT_OVERWRITE_TABLE and not rows_in:
        # An empty source is far more often a fault upstream than intended.
        raise InvalidRequest(
            "an insert_overwrite_table without rows would empty the table",
            table=state.config.name,
            expected="at least one row",
            found="none",
            next_step="to empty the table, truncate it: `hudi-ops truncate`, or Table.truncate()",
        )


def _write_of(
    session: Session,
    attempt: Attempt,
    batch: Batch,
    results: Sequence[BucketResult],
    looked: str,
) -> Write:
    stats = [result.stat for result in results if result.stat is not None]
    write = Write(
        batch.operation.hudi_name,
        stats,
        {LOOKED_KEY: looked} if looked else {},
        facts=[result.facts for result in results if result.facts is not None],
    )
    if batch.ledger is None:
        return write
    path = batch.ledger.put_with(session.ctx.storage, batch.files, attempt.instant)
    extra = {POINTER_PREFIX + batch.ledger.source_id: path, TAKEN_KEY: batch.ledger.source_id}
    return replace(write, extra={**write.extra, **extra}, sources=batch.ledger.sources)


def _nothing(state: TableState, batch: Batch, engine: Engine, reason: str, note: str) -> IngestResult:
    return IngestResult(
        state.config.name, batch.operation.name, None, None, engine.name, reason, len(batch.files), 0, note=note
    )
