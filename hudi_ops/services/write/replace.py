"""What is replaced by an overwrite or a removal: every file group of whole partitions, as an attempt found them when it began.

Taken before the decision, outside the lock; groups that come into being meanwhile are conflicts (docs/protocol.md §5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Write
from hudi_ops.errors import NotFound
from hudi_ops.files.base.base_file import BaseFileReader
from hudi_ops.services.base.slices import live_slices
from hudi_ops.services.write.operations import Replaces, WriteOperation
from hudi_ops.services.write.replaced_keys import hidden_keys
from hudi_ops.timeline.state import TableState
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.slices import Slice


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """What readers see of a partition. `rows` is None where rows lie in log files; `size_bytes` is of all its files."""

    path: str
    file_groups: int
    rows: int | None
    size_bytes: int


def groups_of(
    session: Session, state: TableState, partitions: Sequence[str] | None = None
) -> dict[str, tuple[Slice, ...]]:
    """The visible file groups of partitions, by partition path; partitions without any are left out.

    Args:
        session: the table.
        state: decides what is visible.
        partitions: paths to look into; None for all.
    """
    held: dict[str, tuple[Slice, ...]] = {}
    for one in live_slices(session, state, partitions):
        held[one.partition_path] = (*held.get(one.partition_path, ()), one)
    return held


def replaced_by(
    session: Session, state: TableState, operation: WriteOperation, touched: Iterable[str]
) -> dict[str, tuple[Slice, ...]] | None:
    """Slices whose file groups an ingest replaces, by partition path; None when it replaces nothing.

    A touched partition without file groups is named too: conflicts are told from what the commit names.

    Args:
        session: the table.
        state: the one that the attempt began from.
        operation: what it does.
        touched: partition paths of its rows.
    """
    if operation.replaces is Replaces.NOTHING:
        return None
    paths = sorted(set(touched))
    held = groups_of(session, state, None if operation.replaces is Replaces.TABLE else paths)
    return {path: held.get(path, ()) for path in sorted({*paths, *held})}


def hiding(session: Session, state: TableState, write: Write, held: Mapping[str, Sequence[Slice]]) -> Write:
    """The write, naming the file groups that it hides; and their keys, where the metadata table asks for keys.

    Raises:
        NotFound: a file is gone: cleaned since it was listed.
    """
    keys = hidden_keys(session, state, chain(*held.values())) if write.wanted.keys else None
    return replace(write, replaced=file_ids(held), hidden_keys=keys)


def file_ids(held: Mapping[str, Sequence[Slice]]) -> dict[str, tuple[str, ...]]:
    """Ids of file groups by partition path, as a replace commit names them."""
    return {path: tuple(one.file_id for one in slices) for path, slices in held.items()}


def measured(session: Session, state: TableState, held: Mapping[str, Sequence[Slice]]) -> tuple[HeldPartition, ...]:
    """How much lies in partitions: rows by write statistics, by the files' footers where their writer is archived.

    Raises:
        Corrupt: a base file cannot be read.
    """
    bases = [one.base for slices in held.values() for one in slices if one.base is not None]
    rows = _rows_by_statistics(session, state, bases)
    unknown = [file.path for file in bases if file.path not in rows]
    storage = session.ctx.storage

    def count(path: str) -> int:
        try:
            return BaseFileReader(storage, path).rows
        except NotFound:
            return 0  # cleaned while we looked: it was no newest slice any more

    rows |= dict(zip(unknown, session.ctx.local_engine.map(count, unknown), strict=True))
    found = []
    for path, slices in sorted(held.items()):
        files = [file for one in slices for file in (*((one.base,) if one.base else ()), *one.logs)]
        has_logs = any(one.logs for one in slices)
        counted = sum(rows[one.base.path] for one in slices if one.base is not None)
        total_bytes = sum(file.size_bytes for file in files)
        found.append(HeldPartition(path, len(slices), None if has_logs else counted, total_bytes))
    return tuple(found)


def _rows_by_statistics(session: Session, state: TableState, files: Iterable[DataFile]) -> dict[str, int]:
    wanted = {file.path: file.instant for file in files}
    rows: dict[str, int] = {}
    for time in set(wanted.values()):
        instant = state.timeline.find(time)
        metadata = session.commits.metadata(state.timeline, instant) if instant is not None else None
        for stat in metadata.stats if metadata is not None else ():
            if stat.path.lstrip("/") in wanted:
                rows[stat.path.lstrip("/")] = stat.num_writes
    return rows
