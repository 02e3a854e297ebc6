"""What is replaced by an overwrite or a removal: every file group of whole partitions, as an attempt found them when it began.

Taken before the decision, outside the lock; groups that come into being meanwhile are conflicts (docs/protocol.md §5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import chain

from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Write
from hudi_ops.config.table import TableConfig
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import InvalidRequest, NotFound
from hudi_ops.files.base.base_file import BaseFileReader
from hudi_ops.services.base.slices import live_slices
from hudi_ops.services.write.operations import Replaces, WriteOperation
from hudi_ops.services.write.replaced_keys import hidden_keys
from hudi_ops.timeline.state import TableState
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.slices import Slice, is_partitioned

NAMES_SHOWN_MAX = 20


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


def choose(held: Mapping[str, object], wanted: Sequence[str], config: TableConfig) -> list[str]:
    """The partitions that names and patterns mean.

    Args:
        held: partitions that exist, by path.
        wanted: paths as they lie below the table's root (`origin=JFK/month=1`), or patterns of them with `*` and `?`. `*` goes
            past slashes. A path that exists is never read as a pattern.
        config: the table's.

    Returns:
        Paths, sorted, each once.

    Raises:
        InvalidRequest: a name that no partition has, or a table without partitions.
    """
    if not is_partitioned(config):
        raise InvalidRequest(
            "the table has no partitions",
            table=config.name,
            expected="a partitioned table",
            found=", ".join(wanted) or "no partition named",
            next_step="`truncate` empties the whole table",
        )
    shown = sorted(held)[:NAMES_SHOWN_MAX]
    more = f" and {len(held) - len(shown)} more" if len(held) > len(shown) else ""
    there = (", ".join(shown) + more) or "none: the table is empty"
    if not wanted:
        raise InvalidRequest("no partition was named", table=config.name, expected=f"some of: {there}", found="nothing")
    chosen: set[str] = set()
    for name in wanted:
        path = name.strip("/")
        found = {path} if path in held else {one for one in held if fnmatchcase(one, path)}
        if not found or not path:
            raise InvalidRequest(
                f"the table has no partition {name!r}",
                table=config.name,
                expected=f"some of: {there}",
                found=name,
                next_step="name partitions by their path, such as origin=JFK; origin=J* means all that begin so",
                partition=name,
            )
        chosen |= found
    return sorted(chosen)


def plain_paths(wanted: Sequence[str]) -> list[str]:
    """The names as paths, sorted, when none of them may be a pattern or lead out of the table; else nothing."""
    paths = sorted({name.strip("/") for name in wanted})
    for path in paths:
        is_odd = any(not segment or segment.startswith(".") for segment in path.split("/"))
        if is_odd or any(sign in path for sign in "*?["):
            return []
    return paths


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

    # Footers cost waiting, not work: executors would not help.
    engine = session.ctx.engine if isinstance(session.ctx.engine, LocalEngine) else LocalEngine()
    rows |= dict(zip(unknown, engine.map(count, unknown), strict=True))
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
