"""Divide the bytes of a table's data files by the reason why the files exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hudi_ops.config.table import TableConfig
from hudi_ops.context import TableContext
from hudi_ops.errors import Busy, Conflict, Corrupt
from hudi_ops.services.clean.history import past_slices
from hudi_ops.services.clean.keepers import Keepers, keepers
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.slices import Slice


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of data files by reason.

    Attributes:
        live: what readers see now.
        as_of: older slices, which only reads as of earlier instants see; a clean deletes them.
        held: older slices that a savepoint, a pending plan or a hold keeps from a clean; None: what holds them cannot be read, and
            `as_of` has them.
        pending: files of instants that are pending.
        leftover: files that no instant names; None: unknown, since the metadata table lists only what completed.
    """

    live: int
    as_of: int
    held: int | None
    pending: int
    leftover: int | None


def sizes_by_reason(
    ctx: TableContext,
    config: TableConfig,
    timeline: Timeline,
    commits: CommitReader,
    listed: Mapping[str, Sequence[DataFile]],
    visible: Iterable[Slice],
    *,
    lists_all: bool,
) -> Sizes:
    """Return the bytes of listed files by reason.

    Args:
        ctx: storage and clock.
        config: the table's settings.
        timeline: of the table.
        commits: reads its commits.
        listed: files by partition path.
        visible: the slices that readers see now.
        lists_all: `listed` has uncommitted files, too.

    Raises:
        Corrupt: a commit cannot be read.
    """
    live = {file.path for slice_ in visible for file in (slice_.base, *slice_.logs) if file is not None}
    keeping = _keepers(ctx, config, timeline)
    running = {one.time for one in timeline.pending if one.kind != "savepoint"}
    found = dict.fromkeys(("live", "as_of", "held", "pending", "leftover"), 0)
    committed: set[str] = set()
    for slice_ in past_slices(config, timeline, commits, listed):
        for file in slice_.files:
            committed.add(file.path)
            is_kept = file.path in live or not slice_.superseded
            is_held = keeping is not None and keeping.keeper_of(slice_, file.path)
            reason = "live" if is_kept else "held" if is_held else "as_of"
            found[reason] += file.size_bytes
    for file in (file for files in listed.values() for file in files):
        if file.path not in committed:
            found["pending" if file.instant in running else "leftover"] += file.size_bytes
    leftover, held = found.pop("leftover"), found.pop("held")
    return Sizes(**found, held=held if keeping is not None else None, leftover=leftover if lists_all else None)


def _keepers(ctx: TableContext, config: TableConfig, timeline: Timeline) -> Keepers | None:
    try:
        return keepers(ctx, config, timeline)
    except (Busy, Conflict, Corrupt):
        # `verify` names what is damaged.
        return None
