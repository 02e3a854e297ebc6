"""Remove partitions by name, or all of them, by a replace commit without new files."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hudi_ops.commit.apply.metadata_delta import wanted_facts
from hudi_ops.commit.decide.complete import complete_write
from hudi_ops.commit.first_commit import ensure_first_commit
from hudi_ops.commit.recover.recover import finish_unfinished, recover
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.commit.write import Write
from hudi_ops.errors import Conflict
from hudi_ops.index.misleading_rings import newest_replacers
from hudi_ops.index.ring_files import RingReader, all_ring_versions
from hudi_ops.services.base.result import Result
from hudi_ops.services.write.attempt import write_attempt
from hudi_ops.services.write.operations import Replaces, WriteOperation
from hudi_ops.services.write.replace import HeldPartition, groups_of, measured, with_replaced
from hudi_ops.timeline.state import TableState
from hudi_ops.view.partitions import choose, plain_paths
from hudi_ops.view.schema import table_schema
from hudi_ops.view.slices import Slice

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RemovalResult(Result):
    """Result of a removal, or of its preview; `instant` is None if nothing was removed.

    `automatic` says what an automatic clean and archive did after the commit.
    """

    table: str
    operation: str
    instant: str | None
    completion_time: str | None
    partitions: tuple[HeldPartition, ...]
    dry_run: bool = False
    seconds: float = 0.0
    note: str = ""
    automatic: tuple[str, ...] = ()

    @property
    def file_groups(self) -> int:
        """Return the number of file groups of all partitions."""
        return sum(partition.file_groups for partition in self.partitions)

    @property
    def rows(self) -> int | None:
        """Return the rows of all partitions; None where log files hold some."""
        counted = [partition.rows for partition in self.partitions if partition.rows is not None]
        return sum(counted) if len(counted) == len(self.partitions) else None

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all partitions' newest files; they stay until a cleaner removes them."""
        return sum(partition.size_bytes for partition in self.partitions)

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain values, with the totals."""
        totals = {"file_groups": self.file_groups, "rows": self.rows, "size_bytes": self.size_bytes}
        return super().as_dict() | totals


def preview_removal(session: Session, operation: WriteOperation, wanted: Sequence[str]) -> RemovalResult:
    """Return the result that a removal would have now; change nothing.

    Raises:
        InvalidRequest: a name that no partition has.
        Unsupported: the table cannot be written.
    """
    state = session.loader.load()
    refuse_unwritable(state.config)
    held = _chosen(session, state, operation, wanted)
    partitions = measured(session, state, held)
    return RemovalResult(state.config.name, operation.name, None, None, partitions, dry_run=True)


def remove(
    session: Session, operation: WriteOperation, wanted: Sequence[str], started_s: float, *, is_empty: bool = False
) -> RemovalResult:
    """Hide every file group of partitions; earlier instants still show them.

    Args:
        wanted: partition paths or patterns; ignored by `truncate`.
        started_s: start of the call by the monotonic clock.
        is_empty: the partitions have no file groups; if they have some, it is a conflict.

    Raises:
        InvalidRequest: a name that no partition has. The table is as it was.
        Unsupported: the table cannot be written.
        Conflict: another write to these partitions completed first; nothing was removed.
        Busy: Apache Hudi has planned a service on these partitions, a foreign write is pending without a heartbeat, or the lock is
            held.
    """
    session.memory.is_clean = False  # until this write has ended well
    state = finish_unfinished(session)
    refuse_unwritable(state.config)
    session.silent.refuse(state)
    held = _chosen(session, state, operation, wanted)
    nothing = RemovalResult(state.config.name, operation.name, None, None, (), note="nothing to remove")
    recover(session, is_ingestion=True)
    if not held:
        return nothing
    ensure_first_commit(session)
    with write_attempt(session, state.config, operation, operation.intent((), held)) as running:
        attempt = running.attempt
        held = _chosen(session, attempt.begun, operation, wanted)
        if is_empty and any(held.values()):
            raise Conflict(
                f"partition {min(path for path, slices in held.items() if slices) or '.'} has file groups",
                table=state.config.name, instant=attempt.instant, expected="an empty partition", found="file groups",
                next_step="run `hudi-ops verify TABLE`, which says what to do about its hash ring",
            )  # fmt: skip
        running.monitor.check()
        partitions = measured(session, attempt.begun, held)
        running.monitor.check()
        schema = table_schema(state.config, state.timeline, session.commits)
        # It writes no file; the metadata table may need the keys of the hidden ones.
        facts = replace(wanted_facts(session, attempt.begun, schema), columns=(), bloom=False)
        write = with_replaced(session, attempt.begun, Write(operation.hudi_name, (), wanted=facts), held)
        entry = complete_write(session, attempt, write)
    return replace(
        nothing,
        instant=attempt.instant,
        completion_time=entry.completion_time,
        partitions=partitions,
        seconds=round(session.ctx.clock.monotonic_s() - started_s, 3),
        note=f"cancelled the plans {', '.join(session.memory.ended_plans)}" if session.memory.ended_plans else "",
    )


def _with_lost_ring(
    session: Session, state: TableState, held: Collection[str], wanted: Iterable[str] | None = None
) -> dict[str, tuple[Slice, ...]]:
    """Return the partitions without groups whose hash ring leads to replaced groups.

    A removal renews these rings. `wanted` are the partitions to look at; None: all that have a ring.
    """
    if not state.log.properties.facts.has_ring:
        return {}
    ctx = session.ctx
    empty = [path for path in (all_ring_versions(ctx.storage) if wanted is None else wanted) if path not in held]
    read = RingReader.of(ctx.storage, state, session.commits).read_all(empty, ctx.local_engine)
    rings = {path: ring for path, ring in read.items() if ring is not None}
    return dict.fromkeys(newest_replacers(session.commits, state, (), rings), ())


def _chosen(
    session: Session, state: TableState, operation: WriteOperation, wanted: Sequence[str]
) -> dict[str, tuple[Slice, ...]]:
    if operation.replaces is Replaces.PARTITIONS and (paths := plain_paths(wanted)):
        # Plain names: the rest of the table is listed only if one of them is wrong.
        held = groups_of(session, state, paths)
        held |= _with_lost_ring(session, state, held, paths)
        if held.keys() == set(paths):
            return held
    held = groups_of(session, state)
    held |= _with_lost_ring(session, state, held)
    if operation.replaces is Replaces.TABLE:
        return held
    return {path: held[path] for path in choose(held, wanted, state.config)}
