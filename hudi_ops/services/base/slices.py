"""List the visible file slices of one state, and return how they are merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.commit.session import Session
from hudi_ops.errors import Unsupported
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.index.simple_bucket import computed_keys, groups_by_bucket
from hudi_ops.read.current_view import current_view
from hudi_ops.timeline.state import TableState
from hudi_ops.view.columns.slices import SliceColumns, newest_slices
from hudi_ops.view.slices import Slice


def live_slices(session: Session, state: TableState, partitions: Sequence[str] | None = None) -> list[Slice]:
    """Return the visible slices of partitions, by partition path and file id.

    All partitions (None) are those of the view. The partitions of a write are few and
    are listed on storage: a group that a damaged metadata table lacks would otherwise be created twice.

    Raises:
        Corrupt: a file that a completed write names is lost.
        Conflict: a file was removed while the table was listed.
    """
    if partitions is not None:
        return session.slices.of(state.config, state.timeline, partitions, session.ctx.local_engine)
    return live_columns(session, state).objects()


def live_columns(session: Session, state: TableState) -> SliceColumns:
    """Return the visible slices of the whole table as columns; raise as `live_slices` does."""
    ctx = session.ctx
    view = current_view(ctx.storage, state.config, state.timeline, session.commits, ctx.local_engine, is_writing=True)
    return newest_slices(view)


def live_buckets(
    session: Session, state: TableState, groups: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], Slice]:
    """Return the slice of each (partition path, bucket) in the partitions of `groups`.

    Raises:
        Unsupported: a file group is of a bucket that the table does not have.
        Corrupt: two file groups of one bucket. Raised by `groups_by_bucket`.
    """
    slices = live_slices(session, state, sorted({partition for partition, _ in groups}))
    live = groups_by_bucket(slices, state.config.name)
    _refuse_other_count(state, live)
    return live


def _refuse_other_count(state: TableState, live: dict[tuple[str, int], Slice]) -> None:
    """Refuse a table whose file groups belong to another number of buckets.

    A foreign writer with another number would miss our rows, and we would miss its rows.

    Raises:
        Unsupported: a file group of a bucket that the table does not have.
    """
    buckets = state.log.properties.facts.buckets
    other = next((slice_ for (_, bucket), slice_ in live.items() if bucket >= buckets), None)
    if other is not None:
        raise Unsupported(
            f"file group {other.file_id} in partition {other.partition_path or '.'} is of a bucket that a table of {buckets} "
            "buckets does not have",
            table=state.config.name,
            expected=f"buckets 0 to {buckets - 1}, as the commit log says",
            found=other.file_id,
            next_step="run `hudi-ops verify`, and give all writers of the table one hoodie.bucket.index.num.buckets",
        )


def keys_of(slices: SliceColumns, places: npt.NDArray[np.int64]) -> list[tuple[str, str]]:
    """Return partition path and file id of the slices at some places."""
    rows = slices.firsts[places]
    ids = slices.files.rows["file_id"].take(pa.array(rows)).to_pylist()
    return [
        (slices.files.partitions[at], file_id)
        for at, file_id in zip(slices.files.partition_of[rows].tolist(), ids, strict=True)
    ]


def merging_of(state: TableState, schema: pa.Schema) -> tuple[MergeRules, BlockInstants]:
    """Return the merge rules of a table, and the instants whose blocks count.

    `schema` is without meta columns.

    Raises:
        Unsupported: the table's merge rule is not supported.
    """
    keys = computed_keys(state.config, state.log.properties.facts)
    return replace(MergeRules.of(state.config, schema), keys=keys), BlockInstants.of(state.config, state.timeline)
