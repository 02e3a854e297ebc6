"""Adopt a table of Apache Hudi: begin its commit log, and change nothing else."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable, without_metadata_table
from hudi_ops.config.table import TableConfig, TableFacts
from hudi_ops.errors import HudiOpsError
from hudi_ops.formats.arrow_types import in_microseconds
from hudi_ops.metadata.records.partitions import KEEPS_INDEXES
from hudi_ops.services.base.result import Result
from hudi_ops.services.create.adoption import Adoption
from hudi_ops.services.indexing.drop import drop_metadata
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.settings.settings_check import logged_config, parsed_config
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.schema import table_schema

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AdoptionResult(Result):
    """Result of an adoption, or of its dry run.

    `adopted` is False if the table had a commit log. The number of buckets was checked against `checked_files` and `checked_keys`;
    `dropped` names dropped partitions of the metadata table. `doubled_keys` counts record keys in more than one file group; None:
    they were not counted. `advice` says what writers of Apache Hudi that share the table must set.
    """

    table: str
    path: str
    adopted: bool
    table_id: str
    index: str
    buckets: int
    hash_fields: tuple[str, ...]
    timezone: str
    checked_files: int
    checked_keys: int
    dropped: tuple[str, ...]
    dry_run: bool
    doubled_keys: int | None = None
    advice: tuple[str, ...] = ()


def adopt_table(
    session: Session, adoption: Adoption, *, drop: bool = False, dry_run: bool = False, count_keys: bool = True
) -> AdoptionResult:
    """Begin the commit log of a table if it has none; running it again changes nothing.

    Args:
        adoption: the proposer of the session, with the options of the caller.
        drop: drop the table's metadata table.
        count_keys: in a table without buckets, read the keys of all files, and count those in several file groups.

    Raises:
        InvalidRequest: buckets, hash fields or time zone are missing or wrong, or differ from the commit log.
        Unsupported: the table cannot be written.
        Busy: the lock is held, or the table's first write is pending.
        Conflict: the metadata table is being built again.
        Corrupt: the table's properties contradict its commit log.
    """
    ctx = session.ctx
    config = parsed_config(ctx.storage)
    log = session.loader.find(config)
    if log is not None:
        config = logged_config(ctx.storage, config, log)
    wanted = without_metadata_table(config) if drop else config
    refuse_unwritable(wanted)
    entry = log.properties if log is not None else None
    dropped = config.metadata_partitions + config.metadata_partitions_inflight if drop else ()
    if entry is None:
        adoption.counts_keys = count_keys
        entry = session.loader.propose(wanted, load_timeline(ctx.storage, config))
        if not dry_run:
            session.loader.seed(entry)
            found = session.loader.find(config)
            entry = found.properties if found is not None else entry
            logger.info("adopted %s at %s: %s", config.name, ctx.storage.uri, entry.facts)
    if drop and not dry_run:
        dropped = drop_metadata(session).dropped
    files, keys = adoption.checked
    return AdoptionResult(
        table=config.name,
        path=ctx.storage.uri,
        adopted=log is None,
        table_id=entry.table_id,
        index=entry.facts.index,
        buckets=entry.facts.buckets,
        hash_fields=entry.facts.hash_fields,
        timezone=entry.facts.timezone if config.is_in_local_time else "UTC",
        checked_files=files,
        checked_keys=keys,
        dropped=dropped,
        dry_run=dry_run,
        doubled_keys=entry.doubled_keys if log is None else None,
        advice=_writer_advice(wanted, entry.facts, load_timeline(ctx.storage, config), session.commits),
    )


def _writer_advice(
    config: TableConfig, facts: TableFacts, timeline: Timeline, commits: CommitReader
) -> tuple[str, ...]:
    """Return advice on the settings of the table's writers of Apache Hudi; a sentence for each."""
    try:
        schema = table_schema(config, timeline, commits)
    except HudiOpsError:
        schema = pa.schema([])  # a table without a commit and without a schema is adopted all the same
    return tuple(_advice(config, facts, schema))


def _advice(config: TableConfig, facts: TableFacts, schema: pa.Schema) -> Iterator[str]:
    if config.all_metadata_partitions:
        yield f"its writers of Apache Hudi must set {KEEPS_INDEXES}: else they drop indexes, or leave them behind"
    if facts.has_ring:
        yield (
            "with several writers of Apache Hudi, set hoodie.write.lock.conflict.resolution.strategy=org.apache.hudi.client."
            "transaction.SimpleConcurrentFileWritesConflictResolutionStrategy: their default fails on hash rings"
        )
    millis = [field.name for field in schema if in_microseconds(field).type != field.type]
    if config.version == 8 and millis:
        yield (
            f"columns {', '.join(millis)} hold times in milliseconds, which Apache Hudi 1.0 takes for microseconds when it "
            "rewrites a file: let no writer of 1.0 update, compact or cluster the table"
        )
    if millis:
        yield (
            f"columns {', '.join(millis)} hold times in milliseconds: Spark writers of Apache Hudi 1.2 must set "
            "hoodie.datasource.write.reconcile.schema=true, or their writes are refused"
        )
