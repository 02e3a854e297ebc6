"""Read the slices of a compaction plan as they are on storage when the plan is executed.

Source: docs/protocol.md §17; docs/format.md §3.2, §9.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hudi_ops.commit.session import Session
from hudi_ops.errors import Conflict, Corrupt
from hudi_ops.files.names import data_path, parse_data_file
from hudi_ops.services.base.pending import cancel_advice
from hudi_ops.timeline.content.plans import CompactionPlan, PlannedSlice
from hudi_ops.timeline.since import Since
from hudi_ops.timeline.state import TableState
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.slices import Slice, merge_order


@dataclass(frozen=True)
class SliceInput(Slice):
    """One slice to merge. `number` is its place in the plan, which goes into the name of its new base file."""

    number: int = 0


@dataclass(frozen=True)
class PlanInputs:
    """The slices of a plan to merge. `replaced` counts slices whose group was replaced since the plan was made."""

    slices: tuple[SliceInput, ...]
    replaced: int

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Return (bytes of the base file, bytes of the log files) of each slice."""
        return [(each.base_bytes, each.log_bytes) for each in self.slices]

    @property
    def bytes_in(self) -> int:
        """Return the bytes that are read."""
        return sum(map(sum, self.sizes))


def inputs_of_plan(session: Session, state: TableState, instant: str, plan: CompactionPlan) -> PlanInputs:
    """Return the slices of a plan with the sizes of their files.

    Raises:
        Corrupt: a file is gone whose group was not replaced.
    """
    hidden = _replaced_groups(session, state)
    live = [
        (number, one)
        for number, one in enumerate(plan.slices)
        if (one.partition_path, one.file_id) not in hidden and one.log_files
    ]
    paths = [path for _, one in live for path in _paths(one)]
    found = dict(zip(paths, session.ctx.local_engine.map(session.ctx.storage.head, paths), strict=True))
    for path, info in found.items():
        if info is None:
            raise Corrupt(
                f"{path}, which the compaction is to merge, is gone",
                table=state.config.name,
                instant=instant,
                expected="every file that the plan names",
                found="no such file",
                next_step=f"restore it from a copy; else {cancel_advice(instant)}",
                path=path,
            )
    sizes = {path: info.size_bytes for path, info in found.items() if info is not None}
    slices = tuple(_input(number, one, sizes) for number, one in live)
    return PlanInputs(slices, sum((one.partition_path, one.file_id) in hidden for one in plan.slices))


def refuse_missing_log_files(
    session: Session, state: TableState, instant: str, plan: CompactionPlan, seen: TableState | None = None
) -> None:
    """Refuse a plan that lacks a log file below its instant: the new base file would hide it.

    A foreign writer whose clock lags may complete one there after the plan was published.

    Args:
        session: the table.
        state: its completed writes are compared with the plan.
        instant: the plan's.
        plan: what it names.
        seen: an earlier state that was compared with the plan; None: there is none.

    Raises:
        Conflict: names the first such file.
    """
    planned = {(one.partition_path, one.file_id): one for one in plan.slices}
    for other in Since(seen, state).completed if seen is not None else state.timeline.completed_writes:
        if other.completion_time >= instant:
            continue
        metadata = session.commits.metadata(state.timeline, other)
        for stat in metadata.stats if metadata is not None else ():
            one = planned.get((stat.partition_path, stat.file_id))
            if one is None or other.completion_time < one.base_instant or stat.file_name in one.log_files:
                continue
            named = parse_data_file(stat.file_name)
            # Log files of a dual writer carry the instant of the resize plan, under which they become visible.
            if named is not None and named.is_log and named.instant == other.time:
                raise Conflict(
                    f"{stat.path} of {other.action} {other.time} is not in the plan, and would be hidden by its base file",
                    table=state.config.name,
                    instant=instant,
                    expected=f"writers whose completion times lie above {instant}, once it was planned",
                    found=f"{other.time}, completed {other.completion_time}",
                    next_step=f"{cancel_advice(instant)}. Check that clocks agree and that all writers take one lock",
                    other=other.time,
                )


def _replaced_groups(session: Session, state: TableState) -> set[tuple[str, str]]:
    """Return the groups that completed replace commits hide: they need no merge."""
    hidden = set()
    for one in state.timeline.completed_writes:
        if one.kind == "replacecommit":
            metadata = session.commits.metadata(state.timeline, one)
            for partition, ids in (metadata.replaced or {}).items() if metadata is not None else ():
                hidden |= {(partition, file_id) for file_id in ids}
    return hidden


def _paths(one: PlannedSlice) -> list[str]:
    names: Sequence[str] = (one.base_file, *one.log_files) if one.base_file else one.log_files
    return [data_path(one.partition_path, name) for name in names]


def _input(number: int, one: PlannedSlice, sizes: dict[str, int]) -> SliceInput:
    files = []
    for path in _paths(one):
        named = parse_data_file(path.rpartition("/")[2])
        time = named.instant if named is not None else one.base_instant
        is_log = named is not None and named.is_log
        files.append(DataFile(one.partition_path, path, one.file_id, time, sizes[path], is_log))
    base = files[0] if one.base_file else None
    # A plan of Apache Hudi may name log files in another order; records of one key are merged in this order.
    return SliceInput(one.partition_path, one.file_id, base, merge_order(files[1:] if base else files), number)
