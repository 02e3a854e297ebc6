"""Log files of other writers: a file group that has some cannot be rewritten from its base file alone."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import Unsupported
from hudi_ops.services.session import Session
from hudi_ops.timeline.footprint import BUCKET_DIGITS
from hudi_ops.timeline.state import TableState
from hudi_ops.view.listing import StorageListing
from hudi_ops.view.slices import is_partitioned, visible_slices


def refuse_log_files(session: Session, state: TableState, groups: Sequence[tuple[str, int]]) -> None:
    """Refuse to write to buckets whose newest slice has log files: a new base file would hide what they hold.

    Args:
        session: the table.
        state: the state to judge by.
        groups: (partition path, bucket) of everything that is to be written.

    Raises:
        Unsupported: names the first such file group, and how many there are.

    Source: docs/format.md §9.2.
    """
    if state.config.table_type != "MERGE_ON_READ":
        return
    listing = StorageListing(session.ctx.storage, is_partitioned=is_partitioned(state.config))
    partitions = sorted({partition for partition, _ in groups})
    listed = dict(zip(partitions, LocalEngine().map(listing.files, partitions), strict=True))
    wanted = {(partition, f"{bucket:0{BUCKET_DIGITS}d}") for partition, bucket in groups}
    logged = [
        one
        for one in visible_slices(state.config, state.timeline, session.commits, listed)
        if one.logs and (one.partition_path, one.file_id[:BUCKET_DIGITS]) in wanted
    ]
    if not logged:
        return
    first = logged[0]
    count = sum(len(one.logs) for one in logged)
    raise Unsupported(
        f"file group {first.file_id} in partition {first.partition_path or '.'} has {len(first.logs)} log files, which cannot be "
        "merged yet",
        table=state.config.name,
        expected="base files only in the file groups that the batch touches",
        found=f"{count} log files in {len(logged)} of its {len(groups)} file groups",
        next_step="compact the table with Apache Hudi, then run the same call again",
        file_groups=[f"{one.partition_path or '.'}/{one.file_id}" for one in logged[:20]],
    )
