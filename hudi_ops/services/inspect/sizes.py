"""Divide the bytes of a table's data files by the reason why the files exist."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hudi_ops.config.table import TableConfig
from hudi_ops.context import TableContext
from hudi_ops.errors import Busy, Conflict, Corrupt
from hudi_ops.services.clean.history import past_slices
from hudi_ops.services.clean.keepers import Keepers, keepers
from hudi_ops.timeline.active import Timeline
from hudi_ops.view.columns.files import FileColumns
from hudi_ops.view.columns.slices import SliceColumns
from hudi_ops.view.columns.table_view import View


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
    ctx: TableContext, view: View, listed: FileColumns, visible: SliceColumns, *, lists_all: bool
) -> Sizes:
    """Return the bytes of listed files by reason.

    Args:
        ctx: storage and clock.
        view: of the listed files.
        listed: all of them.
        visible: the slices of the view that readers see now.
        lists_all: `listed` has uncommitted files, too.

    Raises:
        Corrupt: a commit cannot be read.
    """
    live = visible.paths()
    keeping = _keepers(ctx, view.config, view.timeline)
    past = past_slices(view)
    found = dict.fromkeys(("live", "as_of", "held"), 0)
    found["live"] = int(past.view.files.sizes[past.alone].sum())
    for slice_ in past.slices:
        for file in slice_.files:
            is_kept = file.path in live or not slice_.superseded
            is_held = keeping is not None and keeping.keeper_of(slice_, file.path)
            found["live" if is_kept else "held" if is_held else "as_of"] += file.size_bytes
    running = {one.time for one in view.timeline.pending if one.kind != "savepoint"}
    words, places = listed.instants
    is_left = ~listed.are_in(past.view.files)
    is_running = np.array([word in running for word in words], bool)[places]
    held = found.pop("held")
    return Sizes(
        **found,
        held=held if keeping is not None else None,
        pending=int(listed.sizes[is_left & is_running].sum()),
        leftover=int(listed.sizes[is_left & ~is_running].sum()) if lists_all else None,
    )


def _keepers(ctx: TableContext, config: TableConfig, timeline: Timeline) -> Keepers | None:
    try:
        return keepers(ctx, config, timeline)
    except (Busy, Conflict, Corrupt):
        # `verify` names what is damaged.
        return None
