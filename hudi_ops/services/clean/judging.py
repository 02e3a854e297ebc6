"""Judge the files of old slices on columns: what a policy drops, and what keeps it.

`choose` and the measures of a table's health share this.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.commit.holds import Hold
from hudi_ops.services.clean.history import NONE, PastColumns, ranks_of_groups
from hudi_ops.services.clean.keepers import HOLD, PENDING, SAVEPOINT, Keepers
from hudi_ops.services.clean.policy import Policy
from hudi_ops.view.columns.files import Flags, Longs


@dataclass(frozen=True, eq=False)
class Kept:
    """Files that one savepoint, pending instant or hold keeps.

    Attributes:
        reason: as in `keepers`.
        name: request time of the savepoint or instant, or id of the hold.
        action: of the pending instant; empty: another keeper.
        rows: which of the asked files.
    """

    reason: str
    name: str
    action: str
    rows: Flags


def dropped_by(policy: Policy, past: PastColumns, earliest: str) -> Flags:
    """Return which of the files `past.rows` a policy drops, given the earliest retained instant."""
    return policy.drops(past, earliest)[past.slice_of]


def kept_by(keeping: Keepers, past: PastColumns, asked: Longs) -> Iterator[Kept]:
    """Yield each keeper with the files that it keeps; a file may have several.

    `asked` are places in `past.rows`. It is `Keepers.keeper_of`, for many files.
    """
    slices, rows = past.slice_of[asked], past.rows[asked]
    first, superseded = past.instants[slices], past.superseded[slices]
    if keeping.saved:
        # Ranks of the files' instants: `past.words` has more words than `files.instants`.
        words, places = past.files.instants
        at = np.searchsorted(np.array(past.words), np.array(words)) if words else np.zeros(0, np.int64)
        least = np.maximum(first, at[places[rows]])
        paths = past.files.paths().take(pa.array(rows))
        for saved in sorted(keeping.saved):
            end = past.up_to(saved)
            is_seen = (least < end) & ((superseded == NONE) | (superseded >= end))
            is_named = pc.is_in(paths, pa.array(list(keeping.named.get(saved, ())), pa.string()))
            yield Kept(SAVEPOINT, saved, "", is_seen | is_named.to_numpy(zero_copy_only=False))
    for plan, starts in keeping.plans.items():
        ranks = ranks_of_groups(past.files, {group: past.below(start) for group, start in starts.items()})[rows]
        yield Kept(PENDING, plan.time, plan.action, (ranks != NONE) & (first >= ranks))
    for hold in keeping.holds:
        yield Kept(HOLD, hold.id, "", needed_by(hold, superseded, past))


def needed_by(hold: Hold, superseded: Longs, past: PastColumns) -> Flags:
    """Return whether a hold needs the slices that these instants superseded."""
    found: Flags = (superseded == NONE) | (superseded >= past.up_to(hold.instant))
    return found


def deleted_by(policy: Policy, past: PastColumns, earliest: str, keeping: Keepers) -> tuple[Flags, Flags]:
    """Return which of the files `past.rows` a clean deletes, and which a keeper keeps.

    The policy drops both.
    """
    dropped = dropped_by(policy, past, earliest)
    held = np.zeros(len(dropped), bool)
    asked = np.flatnonzero(dropped)
    for kept in kept_by(keeping, past, asked):
        held[asked] |= kept.rows
    return dropped & ~held, held
