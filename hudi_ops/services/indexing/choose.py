"""Choose the partitions of the metadata table that a plan builds, with a reason for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.concurrency.lock.in_process import InProcessLock
from hudi_ops.concurrency.lock.locks import lock_of_table
from hudi_ops.config.requests import IndexRequest
from hudi_ops.errors import Busy, Conflict
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.metadata.records.partitions import MetadataPartition, default_groups, is_secondary
from hudi_ops.services.base.choice import Choice, Reason, Strategy, Verdict
from hudi_ops.services.base.publish import Draft
from hudi_ops.services.indexing.rebuild import dropped_before
from hudi_ops.services.indexing.wanted import refuse_unbuildable, wanted_partitions
from hudi_ops.timeline.cancel.policy import CancelPolicy
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.content.plan_bytes import encode_index_plan
from hudi_ops.timeline.content.plans import IndexPlan, read_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import State
from hudi_ops.timeline.state import TableState

EXISTS = "exists"
"""Reason of a partition that readers use already."""
LATER = "later"
"""Reason of a partition that the next plan builds."""

_WHY_LATER = "writers of Apache Hudi fail while it is built and column_stats is not listed"

_WARNING = (
    "; beware: Apache Hudi writes this table, and the lock of this process does not exclude it. Stop its writers until the "
    "index is listed, or give all writers one ZooKeeper lock"
)

_STRATEGY = Strategy("partitions", lambda candidate, now_ms: 0.0, "partitions", 0)


@dataclass
class IndexChoice(Choice):
    """Partitions of a build.

    Attributes:
        partitions: what the plan builds.
        exist: asked for, and built already.
        later: asked for, and left to the next plan.
        warning: why the build should not run beside other writers; empty: it may.
        columns: columns of secondary indexes, as they were asked for.
    """

    partitions: tuple[str, ...] = ()
    exist: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    warning: str = ""
    columns: dict[str, str] = field(default_factory=dict)

    @property
    def is_due(self) -> bool:
        """Return whether something is to be built."""
        return bool(self.partitions)

    def counts(self) -> dict[str, int]:
        """Return the number of partitions by reason."""
        later = {LATER: len(self.later)} if self.later else {}
        return {Reason.PLANNED.value: len(self.partitions), EXISTS: len(self.exist), **later}

    def verdicts(self) -> tuple[Verdict, ...]:
        """Return a verdict for each partition; `measure` is its least number of file groups."""
        return tuple(self._partition_verdicts())

    def _partition_verdicts(self) -> Iterator[Verdict]:
        for partition in self.partitions:
            yield Verdict("", str(partition), Reason.PLANNED, 0, 0, 0, default_groups(partition), "not built yet")
        for name in self.exist:
            yield Verdict("", name, EXISTS, 0, 0, 0, None, "readers use it")
        for name in self.later:
            yield Verdict("", name, LATER, 0, 0, 0, None, _WHY_LATER)

    def sentence(self) -> str:
        """Return one sentence: what is built, and what exists."""
        if self.partitions:
            later = f"; {', '.join(self.later)} in the next plan: {_WHY_LATER}" if self.later else ""
            return f"builds {', '.join(self.partitions)}{later}{self.warning}"
        return f"nothing to build, {', '.join(self.exist)} exist; --rebuild rebuilds them"


def empty_choice() -> IndexChoice:
    """Return a choice without partitions."""
    return IndexChoice("build", "partitions to build", _STRATEGY, 0)


def choose(session: Session, state: TableState, request: IndexRequest) -> IndexChoice:
    """Choose the partitions of a request that are neither built nor planned.

    Raises:
        InvalidRequest: an unknown partition, or one that the table cannot have.
        Unsupported: the table cannot be written, or cannot have a record index.
        Busy: a plan for one of them is pending, or a program builds an index without a heartbeat.
    """
    refuse_unbuildable(session, state)
    restored = dropped_before(state)
    names = tuple(sorted({*(request.partitions or ()), *restored})) if restored else request.partitions
    choice = empty_choice()
    steps = in_steps(session, state, wanted_partitions(state, names))
    choice.partitions, choice.later = steps[0], tuple(map(str, (one for step in steps[1:] for one in step)))
    choice.exist = tuple(sorted(state.config.metadata_partitions))
    choice.cancel = CancelPolicy(cancellable=True)
    choice.columns = dict(name.partition("=")[::2] for name in names or () if "=" in name)
    # RFC-45 requires a lock that all writers share.
    if isinstance(lock_of_table(session.ctx), InProcessLock) and has_foreign_writers(
        session.ctx.storage, session.commits, state, pending=False
    ):
        choice.warning = _WARNING
    refuse_planned(session, state, choice.partitions)
    return choice


def in_steps(session: Session, state: TableState, wanted: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Divide partitions into groups, one for each plan.

    A writer of Apache Hudi with asynchronous indexing fails while `partition_stats` is announced and `column_stats` is not listed
    (docs/format §14.10), so a table with such writers gets them one after the other.
    """
    last = MetadataPartition.PARTITION_STATS
    both = {last, MetadataPartition.COLUMN_STATS} <= {*wanted}
    if not both or not has_foreign_writers(session.ctx.storage, session.commits, state, pending=False):
        return [wanted]
    return [tuple(one for one in wanted if one != last), (last,)]


def draft_of(session: Session, state: TableState, choice: IndexChoice) -> Draft:
    """Return the draft. Its footprint is empty, so it overlaps no plan and no write."""
    upto = indexed_upto(state)
    body = encode_index_plan({str(partition): upto for partition in choice.partitions})

    def revise(now: TableState) -> Draft:
        refuse_planned(session, now, choice.partitions)
        _refuse_undefined(session, now, choice)
        return draft_of(session, now, choice)

    return Draft(body, Footprint(frozenset()), state, revise=revise, choice=choice, cancel=choice.cancel)


def _refuse_undefined(session: Session, state: TableState, choice: IndexChoice) -> None:
    """Refuse a plan of secondary indexes whose definitions were removed or changed.

    Raises:
        Conflict: a drop removed a definition, or another planner changed it.
    """
    indexes = [name for name in map(str, choice.partitions) if is_secondary(name)]
    definitions = load_index_definitions(session.ctx.storage) if indexes else {}
    for name in indexes:
        held = definitions.get(name)
        column = held.source_fields[0] if held is not None and held.source_fields else ""
        if not column or choice.columns.get(name, column) != column:
            raise Conflict(
                f"the definition of {name} was {'changed' if column else 'removed'} while its build was planned",
                table=state.config.name,
                expected=f"a definition of {name} with column {choice.columns.get(name, 'as before')}",
                found=f"column {column}" if column else "none: another process dropped the index",
                next_step="run the same call again",
            )


def indexed_upto(state: TableState) -> str:
    """Return the last completed write before the first pending instant, or an empty text."""
    upto = ""
    for one in state.timeline:
        if not one.is_completed:
            break
        if one.is_write:
            upto = one.time
    return upto


def pending_builds(session: Session, state: TableState) -> Iterator[tuple[Instant, tuple[str, ...]]]:
    """Yield the pending plans of index builds with the names of their partitions.

    Raises:
        Corrupt: the plan of one cannot be read.
    """
    for one in state.timeline.pending:
        if one.kind == "indexing" and not session.was_cancelled(state, one.time):
            plan = read_plan(session.ctx.storage, state.timeline, one)
            yield one, tuple(name for name, _ in plan.partitions) if isinstance(plan, IndexPlan) else ()


def refuse_planned(session: Session, state: TableState, wanted: Sequence[str]) -> None:
    """Refuse a second plan for a partition.

    Raises:
        Busy: names the pending plan.
    """
    for plan, names in pending_builds(session, state):
        shared = sorted({*map(str, wanted)} & {*names})
        if shared or (not names and State.INFLIGHT in plan.states):
            lease = read_lease(session.ctx.storage, plan.time)
            is_live = lease is not None and not lease.is_dead(session.ctx.clock)
            who = (
                f"{lease.owner or 'a foreign program'} builds" if lease is not None and is_live else "a plan exists for"
            )
            raise Busy(
                f"{who} {', '.join(shared) or 'unknown partitions'} of the metadata table",
                table=state.config.name,
                instant=plan.time,
                expected="no pending plan for these partitions",
                found=str(plan),
                next_step=f"`hudi-ops index TABLE execute --instant {plan.time}` builds it, "
                f"`hudi-ops cancel TABLE {plan.time}` ends it",
                other=plan.time,
            )
