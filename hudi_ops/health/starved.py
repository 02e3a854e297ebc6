"""Find file groups whose newest plans were all cancelled, by a bounded number of reads.

The guard of `starvation.py` counts the plans that ingestion cancelled, and reads all records on the timeline; here every cause
counts, and only the newest records are read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.commit.session import Session
from hudi_ops.errors import Corrupt, NotFound
from hudi_ops.index.resizes import is_resize
from hudi_ops.services.rewrite.starvation import Group, cancels_of, groups_of, newest_done, planned_by
from hudi_ops.timeline.cancel.aborted import read_aborted
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS
from hudi_ops.timeline.content.plans import Plan, ReplacePlan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import MERGING_ACTIONS, REWRITING_ACTIONS, State
from hudi_ops.timeline.state import TableState
from hudi_ops.view.columns.slices import NO_BASE, SliceColumns

IN_A_ROW = 3
"""Number of cancelled plans, one after the other, from which a file group is starved."""

RECORDS_READ = 6
"""Most records of cancelled plans that are read, the newest ones of all services."""

DONE_READ = 2
"""Most completed clusterings that are read to see whether one of them rewrote a group since."""

EXAMPLES = 3


@dataclass(frozen=True)
class StarvedGroup:
    """A starved file group, by the first digits of its file id, and its cancelled plans."""

    partition_path: str
    group: str
    cancels: int


@dataclass(frozen=True)
class StarvedGroups:
    """Starved file groups of one service.

    Attributes:
        action: pending word of the plans.
        is_a_resize: the newest cancelled plan was a resize.
        newest: instant of the newest cancelled plan.
        params: parameters of its strategy that say the order of rows; empty for a compaction.
        count: number of starved file groups.
        examples: some of them, those with most cancelled plans first.
    """

    action: str
    is_a_resize: bool
    newest: str
    params: tuple[tuple[str, str], ...]
    count: int
    examples: tuple[StarvedGroup, ...]


def starved_groups(session: Session, state: TableState, slices: SliceColumns | None) -> tuple[StarvedGroups, ...]:
    """Return the file groups whose last `IN_A_ROW` plans of a service were cancelled.

    A plan counts if its record is among the newest `RECORDS_READ`, and if no plan of the service completed on the group since. The
    cause of its cancel does not matter.

    Args:
        session: of this process.
        state: of the table.
        slices: the slices that readers see; None: they are not needed, as `may_be_starved` says.
    """
    if slices is None or not may_be_starved(state):
        return ()
    plans: dict[str, dict[str, Plan]] = {}
    for one in _newest_records(state):
        with suppress(NotFound, Corrupt):  # archived since; `verify` reports one that cannot be read
            record = read_aborted(session.ctx.storage, state.timeline, one)
            if (plan := planned_by(record)) is not None:
                plans.setdefault(one.action, {})[one.time] = plan
    found = (_starved(session, state, slices, action, of_action) for action, of_action in sorted(plans.items()))
    return tuple(one for one in found if one is not None)


def may_be_starved(state: TableState) -> bool:
    """Return whether the timeline has enough cancelled plans of a service; no storage call."""
    actions = [one.action for one in _newest_records(state)]
    return any(actions.count(action) >= IN_A_ROW for action in {*actions})


def _newest_records(state: TableState) -> list[Instant]:
    found = [one for one in state.timeline.aborted if one.action in REWRITING_ACTIONS and State.ABORTED in one.states]
    return sorted(found, key=lambda one: one.time)[-RECORDS_READ:]


def _starved(
    session: Session, state: TableState, slices: SliceColumns, action: str, plans: Mapping[str, Plan]
) -> StarvedGroups | None:
    if len(plans) < IN_A_ROW:
        return None
    groups = {instant: groups_of(plan) for instant, plan in plans.items()}
    often = {group for group, count in cancels_of(groups, {}).items() if count >= IN_A_ROW}
    bases = base_instants(slices, often)
    # A group that readers do not see any more was replaced by a clustering, or removed.
    groups = {instant: named & bases.keys() for instant, named in groups.items()}
    # Only a compaction makes the base files of a group with log files; a write may make those of other groups.
    done = bases if action in MERGING_ACTIONS else _done(session, state, min(groups))
    counts = {group: count for group, count in cancels_of(groups, done).items() if count >= IN_A_ROW}
    if not counts:
        return None
    newest = max(plans)
    plan = plans[newest]
    worst = sorted(counts, key=lambda group: (-counts[group], group))[:EXAMPLES]
    return StarvedGroups(
        action,
        is_resize(plan),
        newest,
        _ordering(plan),
        len(counts),
        tuple(StarvedGroup(*group, counts[group]) for group in worst),
    )


def _ordering(plan: Plan) -> tuple[tuple[str, str], ...]:
    params = plan.strategy_params if isinstance(plan, ReplacePlan) else {}
    return tuple(sorted((name, said) for name, said in params.items() if name.endswith(("sort.columns", ".order"))))


def _done(session: Session, state: TableState, since: str) -> dict[Group, str]:
    """Return the newest completed clustering of each file group, of the newest `DONE_READ` ones."""
    later = [one for one in state.timeline.completed_writes if one.kind == "replacecommit" and one.time > since]
    return newest_done(session, later[-DONE_READ:], state, since)


def base_instants(slices: SliceColumns, groups: Collection[Group]) -> dict[Group, str]:
    """Return the instant of the base file of each file group that readers see; empty: none."""
    ids: dict[str, list[str]] = {}
    for path, group in groups:
        ids.setdefault(path, []).append(group)
    found: dict[Group, str] = {}
    files = slices.files
    for path, named in ids.items():
        at = files.find(path)
        low, high = np.searchsorted(slices.firsts, files.offsets[at : at + 2]).tolist() if at >= 0 else (0, 0)
        own = files.rows["file_id"].take(pa.array(slices.firsts[low:high]))
        places = pc.index_in(pc.utf8_slice_codeunits(own, 0, BUCKET_DIGITS), pa.array(named, pa.string()))
        chosen = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
        rows = slices.bases[low:high][chosen]
        times = files.rows["instant"].take(pa.array(rows, mask=rows == NO_BASE)).fill_null("").to_pylist()
        for place, time in zip(places.drop_null().to_pylist(), times, strict=True):
            found[path, named[place]] = max(time, found.get((path, named[place]), ""))
    return found
