"""Show the state of each index of a table, and explain which ones a build could make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.errors import HudiOpsError, InvalidRequest
from hudi_ops.metadata.records.partitions import MetadataPartition, default_groups, is_secondary
from hudi_ops.metadata.writer.building import group_count
from hudi_ops.services.base.result import Result
from hudi_ops.services.indexing.choose import pending_builds
from hudi_ops.services.indexing.dropped import dropped_indexes
from hudi_ops.services.indexing.filling.diff import snapshot
from hudi_ops.services.indexing.secondary import columns_asked
from hudi_ops.services.indexing.wanted import partition_named, wanted_partitions
from hudi_ops.services.metadata_table.describe import describe_metadata
from hudi_ops.timeline.builds.checkpoint import BuildCheckpoint, checkpoints_of
from hudi_ops.timeline.state import TableState

READ_BYTES_PER_S = 200e6
"""Bytes of files that one process indexes in a second, for estimates."""


@dataclass(frozen=True)
class IndexState(Result):
    """State of one index.

    Attributes:
        name: its partition of the metadata table.
        state: `listed`, `announced`, `being built`, `left` (begun, and no process executes it), `planned`, `partly dropped`,
            `absent` or `not possible`.
        file_groups: number of its file groups on storage.
        bytes: size of its files.
        lag: completed writes that it lacks; None: not listed.
        plan: instant of the pending plan that builds it; empty without one.
        executor: process that executes the plan, by its live lease; empty: no process does.
        note: what it waits for and how far it is, who dropped it, or why the table cannot have it.
        rounds: rounds of the pending build that added completions.
        verdicts: number of instants by what they mean for the index, of a pending build; see `BuildCheckpoint`.
        catch_up_per_s: completions that its catch-up adds in a second; None: it has added none.
        ingest_per_s: completions of other writers in a second since the announcement; None: not announced.
        seconds_left: estimated time to the end; None: unknown, or other writers complete as fast as catch-up adds.
    """

    name: str
    state: str
    file_groups: int = 0
    bytes: int = 0
    lag: int | None = None
    plan: str = ""
    executor: str = ""
    note: str = ""
    rounds: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    catch_up_per_s: float | None = None
    ingest_per_s: float | None = None
    seconds_left: float | None = None


@dataclass(frozen=True)
class IndexCost(Result):
    """Whether a table can have an index, and what its build costs.

    `why` says why it is not supported, or that it exists. Bytes and seconds are those of reading the table's files.
    """

    name: str
    is_supported: bool
    exists: bool
    why: str
    bytes_in: int
    seconds: float
    file_groups: int


def show_indexes(session: Session) -> tuple[IndexState, ...]:
    """Return the state of each index of a table.

    Raises:
        InvalidRequest: the path is not a table.
        Corrupt: a plan or a checkpoint cannot be read.
    """
    state = session.loader.load()
    facts = describe_metadata(session.ctx.storage)
    found = {one.name: one for one in facts.partitions}
    plans: dict[str, str] = {}
    begun: dict[str, BuildCheckpoint | None] = {}
    for plan, names in pending_builds(session, state):
        plans |= dict.fromkeys(names, plan.time)
        begun[plan.time] = next(reversed(checkpoints_of(session.ctx.storage, plan.time)), None)
    shown = []
    every = sorted({*map(str, MetadataPartition), *found, *plans})
    dropped = dropped_indexes(session, state, {*every} - {*state.config.all_metadata_partitions, *plans})
    for name in every:
        plan_time, one = plans.get(name, ""), found.get(name)
        checkpoint = begun.get(plan_time)
        why = _why_not(state, name) if name in set(MetadataPartition) else ""
        if name in state.config.metadata_partitions:
            word = "listed"
        elif name in state.config.metadata_partitions_inflight:
            word = "announced"
        elif plan_time:
            is_run = checkpoint is not None and bool(_executor(session, plan_time))
            word = "being built" if is_run else "left" if checkpoint is not None else "planned"
        else:
            is_rest = one is not None and one.bytes and name not in dropped
            word = "partly dropped" if is_rest else "not possible" if why else "absent"
        shown.append(
            IndexState(
                name,
                word,
                one.file_groups if one is not None else 0,
                one.bytes if one is not None else 0,
                len(facts.behind) if word == "listed" else None,
                plan_time,
                _executor(session, plan_time),
                _note(session, word, plan_time, checkpoint) or dropped.get(name, "" if word == "listed" else why),
                **_pace(session, checkpoint),
            )
        )
    return tuple(shown)


def explain_indexes(session: Session, names: Sequence[str] | None = None) -> tuple[IndexCost, ...]:
    """Return for each index whether the table can have it, and what its build costs.

    Raises:
        InvalidRequest: an unknown name, or the path is not a table.
        Corrupt: a file that a completed write names is lost.
    """
    state = session.loader.load()
    asked = {partition_named(name, state.config.name): name for name in names or MetadataPartition}
    size, slices = 0, 0
    if state.timeline.completed_writes:
        seen = snapshot(session, state)
        size, slices = seen.size_bytes, sum(file.size_bytes for file in seen.described.values())
    found = []
    for partition, name in asked.items():
        why = _why_not(state, str(partition)) or _why_not_its_column(session, state, str(partition), name)
        exists = partition in state.config.metadata_partitions
        groups = default_groups(partition)
        if partition == MetadataPartition.RECORD_INDEX:
            groups = group_count(partition, slices // _KEY_BYTES)
        reads = 0 if why or partition == MetadataPartition.FILES else size
        said = "readers use it" if exists else (why or "not built yet")
        found.append(
            IndexCost(str(partition), not why, exists, said, reads, round(reads / READ_BYTES_PER_S, 3), groups)
        )
    return tuple(found)


_KEY_BYTES = 40
"""Bytes of a row's files, at least, for an upper bound of the number of keys."""


def _why_not(state: TableState, name: str) -> str:
    """Return why a table cannot have an index; empty if it can."""
    try:
        wanted_partitions(state, [name])
    except HudiOpsError as error:
        return error.what
    if not state.timeline.completed_writes:
        return "the table has no completed write"
    return ""


def _why_not_its_column(session: Session, state: TableState, partition: str, name: str) -> str:
    """Return why the column of a secondary index cannot be indexed; `name` may say it."""
    if not is_secondary(partition):
        return ""
    try:
        columns_asked(session, state, [name], {partition} - {*state.config.metadata_partitions})
    except InvalidRequest as error:
        return error.what
    return ""


def _executor(session: Session, plan: str) -> str:
    lease = read_lease(session.ctx.storage, plan) if plan else None
    return str(lease.owner or "a foreign program") if lease and not lease.is_dead(session.ctx.clock) else ""


def _pace(session: Session, checkpoint: BuildCheckpoint | None) -> dict[str, Any]:
    """Return rounds, verdicts and rates of a pending build.

    There is an estimate only while a process executes it.
    """
    if checkpoint is None:
        return {}
    left_s = checkpoint.seconds_left if _executor(session, checkpoint.plan) else None
    return {
        "rounds": checkpoint.rounds,
        "verdicts": checkpoint.verdicts,
        "catch_up_per_s": checkpoint.catch_up_per_s,
        "ingest_per_s": checkpoint.ingest_per_s,
        "seconds_left": left_s,
    }


def _note(session: Session, word: str, plan: str, checkpoint: BuildCheckpoint | None) -> str:
    """Return what a build waits for, in words."""
    if word == "partly dropped":
        return "files of a drop that was cut short, which no reader uses: `hudi-ops recover TABLE` or another drop deletes them"
    if word == "announced" and not plan:
        return "another program builds it, or its build has ended: `hudi-ops recover TABLE` lists it then"
    if not plan:
        return ""
    if not _executor(session, plan):
        last = f"; its last executor {checkpoint.note}" if checkpoint is not None and checkpoint.note else ""
        return f"no process executes the plan: `hudi-ops index TABLE execute --instant {plan}`{last}"
    if checkpoint is None:
        return ""
    return "; ".join(one for one in (checkpoint.note, checkpoint.progress) if one)
