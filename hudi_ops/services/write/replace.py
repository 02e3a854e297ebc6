"""File groups that an overwrite or a removal replaces: all groups of whole partitions.

They are listed before the decision, outside the lock; groups that others create after that are conflicts (docs/protocol §5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Write
from hudi_ops.errors import NotFound
from hudi_ops.files.base.base_file import BaseFileReader
from hudi_ops.files.slice.slice_keys import keys_of_slice
from hudi_ops.formats.large_arrays import joined
from hudi_ops.index.doubled_keys import key_tasks
from hudi_ops.index.ring_files import RINGS_KEY, RingReader, put_initial, renewal_text
from hudi_ops.index.simple_bucket import computed_keys
from hudi_ops.services.base.slices import live_slices
from hudi_ops.services.write.operations import Replaces, WriteOperation
from hudi_ops.timeline.state import TableState
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.schema import table_schema
from hudi_ops.view.slices import Slice


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """Visible content of a partition. `rows` is None where log files hold rows."""

    path: str
    file_groups: int
    rows: int | None
    size_bytes: int


def groups_of(
    session: Session, state: TableState, partitions: Sequence[str] | None = None
) -> dict[str, tuple[Slice, ...]]:
    """Return the visible slices of partitions (None: all) by path, without empty partitions."""
    held: dict[str, tuple[Slice, ...]] = {}
    for slice_ in live_slices(session, state, partitions):
        held[slice_.partition_path] = (*held.get(slice_.partition_path, ()), slice_)
    return held


def replaced_by(
    session: Session, state: TableState, operation: WriteOperation, touched: Iterable[str]
) -> dict[str, tuple[Slice, ...]] | None:
    """Return the slices that an ingest replaces, by partition path; None if it replaces nothing.

    `touched` are the partition paths of its rows. Those without file groups are included, too: conflicts follow from the partitions
    that a commit names.
    """
    if operation.replaces is Replaces.NOTHING:
        return None
    paths = sorted(set(touched))
    held = groups_of(session, state, None if operation.replaces is Replaces.TABLE else paths)
    return {path: held.get(path, ()) for path in sorted({*paths, *held})}


def with_replaced(
    session: Session,
    state: TableState,
    write: Write,
    held: Mapping[str, Sequence[Slice]],
    rings: Mapping[str, str] = MappingProxyType({}),
) -> Write:
    """Add to a write the file groups that it replaces, their keys, and renewed rings.

    `rings` are the instants of the hash rings that are known already, by partition path.

    Raises:
        NotFound: a file is gone: cleaned since it was listed.
        Conflict: a ring changed since the state was read.
    """
    keys = replaced_keys(session, state, [*chain(*held.values())]) if write.wanted.keys else None
    replaced = {path: tuple(slice_.file_id for slice_ in slices) for path, slices in held.items()}
    extra = write.extra
    if state.log.properties.facts.has_ring:
        extra = {**extra, RINGS_KEY: renewal_text({**_rings_of(session, state, held.keys() - rings), **rings})}
    return replace(write, replaced=replaced, hidden_keys=keys, extra=extra)


def _rings_of(session: Session, state: TableState, partitions: Iterable[str]) -> dict[str, str]:
    """Return the instants of the rings of partitions; create the first ring where there is none."""
    ctx, buckets = session.ctx, state.log.properties.facts.buckets
    found = RingReader.of(ctx.storage, state, session.commits).read_all(partitions, ctx.local_engine)
    return {path: (ring or put_initial(ctx.storage, path, buckets)).instant for path, ring in found.items()}


def replaced_keys(session: Session, state: TableState, slices: Sequence[Slice]) -> pa.Array:
    """Return the record keys of slices, each once, in no order; call it outside the lock.

    A record index must not go on naming replaced groups.

    Raises:
        NotFound: a file is gone: cleaned since it was listed.
        Unsupported: a log block holds records that cannot be merged here.
    """
    schema = table_schema(state.config, state.timeline, session.commits)
    spec = computed_keys(state.config, state.log.properties.facts)
    tasks = key_tasks(session.ctx.storage, state.config, state.timeline, schema, spec, slices)
    return pc.unique(joined(session.ctx.engine.map(keys_of_slice, tasks), pa.string()))


def measured(session: Session, state: TableState, held: Mapping[str, Sequence[Slice]]) -> tuple[HeldPartition, ...]:
    """Count groups, rows and bytes of partitions.

    Rows are counted by write statistics, or by the files' footers if their writer is archived.

    Raises:
        Corrupt: a base file cannot be read.
    """
    bases = [slice_.base for slices in held.values() for slice_ in slices if slice_.base is not None]
    rows = _rows_by_statistics(session, state, bases)
    unknown = [file.path for file in bases if file.path not in rows]
    storage = session.ctx.storage

    def count(path: str) -> int:
        try:
            return BaseFileReader(storage, path).rows
        except NotFound:
            return 0  # cleaned since it was listed: it was no newest slice any more

    rows |= dict(zip(unknown, session.ctx.local_engine.map(count, unknown), strict=True))
    found = []
    for path, slices in sorted(held.items()):
        has_logs = any(slice_.logs for slice_ in slices)
        counted = sum(rows[slice_.base.path] for slice_ in slices if slice_.base is not None)
        total_bytes = sum(slice_.bytes_in for slice_ in slices)
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
