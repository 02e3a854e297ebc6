"""Find the files of a plan on storage: those that it names, and those of its instant.

Source: docs/format §3.2, §9.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from hudi_ops.commit.session import Session
from hudi_ops.errors import Corrupt
from hudi_ops.files.names import data_path, parse_data_file
from hudi_ops.services.base.pending import cancel_advice
from hudi_ops.timeline.content.plans import PlannedGroup, PlannedSlice, ReplacePlan
from hudi_ops.timeline.state import TableState
from hudi_ops.view.columns.kept import forget_view
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.listing import StorageListing
from hudi_ops.view.slices import Slice, merge_order


@dataclass(frozen=True)
class GroupInput:
    """Slices that are rewritten together.

    `number` is the place of its first new file among those of the plan, a part of the file names.
    """

    partition_path: str
    slices: tuple[Slice, ...]
    number: int


G = TypeVar("G", bound=GroupInput)


@dataclass(frozen=True)
class PlanInputs(Generic[G]):
    """Groups of a plan, with the sizes of their files."""

    groups: tuple[G, ...]

    @property
    def bytes_in(self) -> int:
        """Return the bytes that are read."""
        return sum(slice_.bytes_in for group in self.groups for slice_ in group.slices)


def read_groups(
    session: Session, state: TableState, instant: str, plan: ReplacePlan
) -> list[tuple[PlannedGroup, tuple[Slice, ...]]]:
    """Return the groups of a plan, each with its slices and the sizes of their files.

    Raises:
        Corrupt: a file is gone.
    """
    slices = iter(read_slices(session, state, instant, plan.slices))
    return [(group, tuple(islice(slices, len(group.slices)))) for group in plan.groups]


def read_slices(session: Session, state: TableState, instant: str, planned: Sequence[PlannedSlice]) -> list[Slice]:
    """Return planned slices with the sizes of their files, in the plan's order.

    Raises:
        Corrupt: a file is gone.
    """
    paths = [path for one in planned for path in _paths(one)]
    found = dict(zip(paths, session.ctx.local_engine.map(session.ctx.storage.head, paths), strict=True))
    for path, info in found.items():
        if info is None:
            forget_view(session.ctx.storage)
            raise Corrupt(
                f"{path}, which a plan names, is gone",
                table=state.config.name,
                instant=instant,
                expected="every file that the plan names",
                found="no such file",
                next_step=f"restore it from a copy; else {cancel_advice(instant)}",
                path=path,
            )
    sizes = {path: info.size_bytes for path, info in found.items() if info is not None}
    return [_slice(one, sizes) for one in planned]


def files_of_instant(session: Session, partitions: Iterable[str], instant: str) -> list[DataFile]:
    """Return the base and log files of partitions that carry an instant."""
    listing = StorageListing(session.ctx.storage, is_partitioned=True, engine=session.ctx.local_engine)
    held = listing.files(sorted({*partitions}))
    return [file for files in held.values() for file in files if file.instant == instant]


def _paths(planned: PlannedSlice) -> list[str]:
    names: Sequence[str] = (planned.base_file, *planned.log_files) if planned.base_file else planned.log_files
    return [data_path(planned.partition_path, name) for name in names]


def _slice(planned: PlannedSlice, sizes: Mapping[str, int]) -> Slice:
    files = []
    key = planned.partition_path, planned.file_id
    for path in _paths(planned):
        named = parse_data_file(path.rpartition("/")[2])
        time = named.instant if named is not None else planned.base_instant
        is_log = named is not None and named.is_log
        files.append(DataFile(key[0], path, key[1], time, sizes[path], is_log))
    base = files[0] if planned.base_file else None
    # A plan of Apache Hudi may name log files in another order; records of one key are merged in this order.
    return Slice(*key, base, merge_order(files[1:] if base else files))
