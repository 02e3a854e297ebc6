"""Choose the partitions of an index build, and refuse tables that cannot have them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hudi_ops.commit.checks import refuse_pending_restore
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.errors import Busy, InvalidRequest, Unsupported
from hudi_ops.index.resizes import RESIZE_STRATEGY, is_resize
from hudi_ops.metadata.reader.layout import refuse_partitioned_record_index
from hudi_ops.metadata.records.partitions import SECONDARY_PREFIX, MetadataPartition, in_build_order, is_secondary
from hudi_ops.timeline.content.plans import ReplacePlan, RollbackPlan, read_plan
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import is_partitioned

_SECONDARY_NAME = re.compile(rf"{SECONDARY_PREFIX}[A-Za-z0-9_-]{{1,100}}")

_DEFAULT = (MetadataPartition.FILES, MetadataPartition.COLUMN_STATS, MetadataPartition.PARTITION_STATS)


def wanted_partitions(state: TableState, names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the partitions to build: the named ones that readers do not use yet, and `files`.

    Raises:
        InvalidRequest: an unknown name, or one that the table cannot have.
        Unsupported: a record index beside hash rings.
    """
    config = state.config
    asked = _default(state) if names is None else [partition_named(name, config.name) for name in names]
    wanted: set[str] = {MetadataPartition.FILES, *asked}
    _refuse_names(state, wanted - {*config.all_metadata_partitions})
    if MetadataPartition.RECORD_INDEX in wanted and state.log.properties.facts.has_ring:
        raise Unsupported(
            "a table with hash rings cannot have a record index: a write beside a resize records its keys later than the resize "
            "does, so the index would go on naming the replaced file group",
            table=config.name,
            expected="partitions other than record_index",
            found=str(MetadataPartition.RECORD_INDEX),
            next_step="leave it out: the ring locates every key without an index",
        )
    if MetadataPartition.PARTITION_STATS in wanted:
        if not is_partitioned(config):
            raise InvalidRequest(
                "a table without partitions has no statistics of them",
                table=config.name,
                expected=", ".join(name for name in MetadataPartition if name is not MetadataPartition.PARTITION_STATS),
                found=str(MetadataPartition.PARTITION_STATS),
                next_step=f"leave it out: {MetadataPartition.COLUMN_STATS} holds all statistics of such a table",
            )
        # Apache Hudi derives one from the other, and keeps one definition of both.
        wanted.add(MetadataPartition.COLUMN_STATS)
    needing = sorted(filter(is_secondary, wanted))
    if needing and MetadataPartition.RECORD_INDEX not in {*wanted, *config.metadata_partitions}:
        raise InvalidRequest(
            "a secondary index gives record keys, and the table has no record index to find them with",
            table=config.name,
            expected="record_index built before, or named too",
            found=", ".join(needing),
            next_step=f"`hudi-ops index TABLE run record_index {' '.join(needing)}`",
        )
    return in_build_order(wanted - {*config.metadata_partitions})


def _refuse_names(state: TableState, names: Iterable[str]) -> None:
    """Refuse new secondary indexes whose names are not one word.

    The name becomes the name of a folder, and an entry of a list separated by commas.

    Raises:
        InvalidRequest: such a name.
    """
    for name in sorted(filter(is_secondary, names)):
        if _SECONDARY_NAME.fullmatch(name) is None:
            raise InvalidRequest(
                f"a secondary index cannot be named {name.removeprefix(SECONDARY_PREFIX)!r}",
                table=state.config.name,
                expected=f"{SECONDARY_PREFIX}NAME with letters, digits, underscores and hyphens, 100 at most",
                found=name,
                next_step="choose another name, and name the column behind it: secondary_index_NAME=COLUMN",
            )


def _default(state: TableState) -> list[str]:
    """Return the defaults of Apache Hudi, and the record index if it is the table's index."""
    is_index = state.log.properties.facts.index == "record_index"
    found = [name for name in _DEFAULT if is_partitioned(state.config) or name != MetadataPartition.PARTITION_STATS]
    return [*found, *([MetadataPartition.RECORD_INDEX] if is_index else [])]


def partition_named(name: str, table: str) -> str:
    """Return the partition of that name, which may say its column: `secondary_index_city=city`.

    Raises:
        InvalidRequest: no partition of this name can be built here.
    """
    plain = name.partition("=")[0]
    if is_secondary(plain):
        return plain
    try:
        return MetadataPartition(name)
    except ValueError:
        raise InvalidRequest(
            f"Unknown metadata partition {name!r}",
            table=table,
            expected=f"one of {', '.join(MetadataPartition)}",
            found=name,
            next_step="expression indexes are built with Apache Hudi"
            if name.startswith("expr_index_")
            else "correct the name; secondary indexes are named secondary_index_NAME=COLUMN",
        ) from None


def refuse_unbuildable(session: Session, state: TableState) -> None:
    """Refuse a table on which a metadata table cannot be built now.

    Raises:
        Unsupported: the table cannot be written, or its record index is partitioned. Raised by `refuse_unwritable` and
            `refuse_partitioned_record_index`.
        Busy: a restore is pending, or a resize is being undone.
        Corrupt: a pending plan cannot be read. Raised by `read_plan`.
    """
    refuse_unwritable(state.config)
    refuse_partitioned_record_index(session.ctx.storage, state.config)
    refuse_pending_restore(state)
    for instant in state.timeline.pending:
        plan = read_plan(session.ctx.storage, state.timeline, instant) if instant.kind == "replacecommit" else None
        if isinstance(plan, ReplacePlan) and plan.children:
            _refuse_unknown_resize(state, instant.time, plan)
            _refuse_undone_resize(session, state, instant.time)


def _refuse_unknown_resize(state: TableState, resize: str, plan: ReplacePlan) -> None:
    """Refuse to build beside a resize by a strategy whose log files are not known.

    Raises:
        Busy: the plan names another strategy than that of Apache Hudi's resizes.
    """
    if not is_resize(plan):
        raise Busy(
            "a resize by an unknown strategy is pending: which log files of writes belong to its new buckets is not known",
            table=state.config.name,
            instant=resize,
            expected=RESIZE_STRATEGY,
            found=plan.strategy or "no strategy",
            next_step="let Apache Hudi execute it, or roll it back; then run the same call again",
        )


def _refuse_undone_resize(session: Session, state: TableState, resize: str) -> None:
    """Refuse to build beside a resize whose log files are being deleted.

    Completed writes name these log files. The process that deletes them updates only metadata partitions that were named when it
    began.

    Raises:
        Busy: the resize is cancelled, or a rollback of it is pending.
    """
    rollbacks = [
        instant.time
        for instant in state.timeline.pending
        if instant.kind == "rollback"
        and isinstance(plan := read_plan(session.ctx.storage, state.timeline, instant), RollbackPlan)
        and plan.target == resize
    ]
    is_cancelled = session.was_cancelled(state, resize)
    if is_cancelled or rollbacks:
        raise Busy(
            "a resize is being undone: the log files that writes put into its new buckets are being deleted",
            table=state.config.name,
            instant=resize,
            expected="a resize that is pending, completed or gone",
            found="a cancelled one" if is_cancelled else f"its pending rollback {rollbacks[0]}",
            next_step=f"`hudi-ops cancel TABLE {resize}` removes it; then run the same call again"
            if is_cancelled
            else "let the program that rolls it back finish, or run `hudi-ops recover TABLE`; then run the same call again",
        )
