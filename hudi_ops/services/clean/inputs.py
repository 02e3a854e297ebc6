"""Check a plan before its files are deleted: what it names, and what a hold needs.

Source: docs/protocol §20, step 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hudi_ops.commit.holds import is_begun
from hudi_ops.commit.session import Session
from hudi_ops.errors import Corrupt
from hudi_ops.files.names import data_path, parse_data_file
from hudi_ops.index.ring_files import OldRings
from hudi_ops.services.base.pending import cancel_advice
from hudi_ops.services.clean.earlier import HELD_BACK_KEY
from hudi_ops.services.clean.history import PastSlice, past_slices
from hudi_ops.services.clean.keepers import keepers
from hudi_ops.timeline.content.clean_bytes import strange_paths
from hudi_ops.timeline.content.plans import CleanPlan, FilesByPartition
from hudi_ops.timeline.state import TableState
from hudi_ops.view.columns.table_view import view_of
from hudi_ops.view.listing import StorageListing


@dataclass(frozen=True)
class CleanInputs:
    """Files of a plan, as they are on storage now.

    Attributes:
        present: files to delete.
        gone: files that do not exist any more.
        held_back: files that stay, because a hold, a savepoint or a pending plan needs them.
        sizes: bytes of the files to delete, by path.
        at_ms: when they were listed, in ms since 1970.
        rings: old ring files that the clean deletes, too.
    """

    present: FilesByPartition
    gone: FilesByPartition
    held_back: FilesByPartition
    sizes: Mapping[str, int] = field(default_factory=dict)
    at_ms: int = 0
    rings: tuple[OldRings, ...] = ()

    @property
    def bytes_in(self) -> int:
        """Return no bytes: no file is read."""
        return 0


def inputs_of_plan(session: Session, state: TableState, instant: str, plan: CleanPlan) -> CleanInputs:
    """Return the files of a plan.

    The holds are read here, after the TAKEOVER. A reader puts its hold before it looks for a TAKEOVER, so one of the two sees the
    other. Only folders of the plan are listed, on storage: its files may be in no metadata table any more.

    Raises:
        Corrupt: the plan names a file outside the table, a file of a write that did not complete, or one of a newest slice.
    """
    at_ms = session.ctx.clock.now_ms()
    refuse_strange(session, state, instant, plan)
    keeping = keepers(session.ctx, state.config, state.timeline)
    listing = StorageListing(session.ctx.storage, is_partitioned=True, engine=session.ctx.local_engine)
    listed = listing.files(sorted(plan.files))
    there = {file.path: file.size_bytes for files in listed.values() for file in files}
    past = past_slices(view_of(state.config, state.timeline, session.commits, listed))
    slices = {file.path: slice_ for slice_ in past.all() for file in slice_.files}
    present, gone, held = _Names(), _Names(), _Names()
    sizes = {}
    for partition, names in plan.files.items():
        for name in names:
            path = data_path(partition, name)
            if path not in there:
                gone.setdefault(partition, []).append(name)
                continue
            slice_ = slices.get(path)
            _refuse_needed(state, instant, path, slice_)
            if slice_ is not None and keeping.keeper_of(slice_, path) is not None:
                held.setdefault(partition, []).append(name)
                continue
            present.setdefault(partition, []).append(name)
            sizes[path] = there[path]
    return CleanInputs(present.sorted(), gone.sorted(), held.sorted(), sizes, at_ms)


class _Names(dict[str, list[str]]):
    """Names by partition path."""

    def sorted(self) -> dict[str, tuple[str, ...]]:
        return {path: tuple(sorted(names)) for path, names in sorted(self.items())}


def refuse_strange(session: Session, state: TableState, instant: str, plan: CleanPlan) -> None:
    """Refuse a plan that names a file outside the table.

    A clean of this library that was begun cannot be cancelled. If the table was moved or copied since, its plan names the old
    folder. Such a plan is accepted: only names and partitions are used, so files of the present folder are deleted.

    Raises:
        Corrupt: names the first such path.
    """
    strange = strange_paths(session.ctx.storage, plan)
    found = state.timeline.find(instant, "clean") if strange and HELD_BACK_KEY in plan.extra else None
    if found is not None and is_begun(session, state, found):
        strange = strange_paths(session.ctx.storage, plan, is_moved=True)
    strange += [
        data_path(path, name) for path, names in plan.files.items() for name in names if parse_data_file(name) is None
    ]
    if strange:
        raise Corrupt(
            f"the plan of the clean names {strange[0]}, which is no data file of its partition in this table",
            table=state.config.name,
            instant=instant,
            expected=f"paths below {session.ctx.storage.uri}",
            found=", ".join(strange[:3]),
            next_step=cancel_advice(instant, "clean"),
        )


def _refuse_needed(state: TableState, instant: str, path: str, slice_: PastSlice | None) -> None:
    """Refuse to delete a file of a newest slice, or of a write that may still complete.

    Raises:
        Corrupt: names the file.
    """
    if slice_ is not None and slice_.superseded:
        return
    why = "belongs to the newest slice of its file group"
    if slice_ is None:
        named = parse_data_file(path.rpartition("/")[2])
        writer = state.timeline.find(named.instant) if named is not None else None
        if writer is None or writer.is_completed:
            return  # an orphan of a write that completed without it, or was rolled back: no reader sees it
        why = "is of a write that did not complete"
    raise Corrupt(
        f"the plan of the clean names {path}, which {why}",
        table=state.config.name,
        instant=instant,
        expected="files of slices that a later write superseded",
        found=path,
        next_step=cancel_advice(instant, "clean"),
        path=path,
    )
