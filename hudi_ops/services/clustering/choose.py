"""Choose the file groups that a clustering rewrites, and which of them together.

Source: docs/protocol §28.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

import numpy as np
import pyarrow as pa

from hudi_ops.commit.session import Session
from hudi_ops.config.requests import ClusteringRequest
from hudi_ops.config.requests.cancel import parse_cancel
from hudi_ops.errors import InvalidRequest, NotFound, Unsupported
from hudi_ops.files.base.base_file import BaseFileReader
from hudi_ops.kernels.sorting.order import UNSORTED, SortOrder
from hudi_ops.services.base.choice import Candidate, cancel_policy, count_of, within
from hudi_ops.services.clustering.layout import ORDER_KEY, decode_order, say_order
from hudi_ops.services.clustering.packing import pack
from hudi_ops.services.rewrite.choice import (
    RewriteChoice,
    RewriteGroup,
    by_bytes,
    leave_out_pending,
    members,
    pending_plans,
    sized,
    slices_of,
)
from hudi_ops.services.rewrite.starvation import held_back, unguard
from hudi_ops.timeline.state import TableState
from hudi_ops.view.partition_values import constant_fields
from hudi_ops.view.schema import table_schema

MERGED_MIN = 2
"""Least number of files to merge."""


class LeftReason(StrEnum):
    """Reasons of clustering alone to leave a file group out."""

    LARGE = "files above the small file limit"
    ORDERED = "rows in this order already"
    ALONE = "no other small file to merge with"


@dataclass
class ClusteringChoice(RewriteChoice[RewriteGroup]):
    """Choice of a clustering, with the order of the rows."""

    order: SortOrder = UNSORTED

    def work(self) -> str:
        """Return in words how many file groups are rewritten, and into how many."""
        outputs = sum(group.outputs for group in self.groups)
        work = f"{count_of(len(self.planned), 'file group')} into {outputs:,}"
        return f"{work}, sorted {say_order(self.order)}" if self.order.columns else work

    def leave_out_ordered(self, candidate: Candidate) -> None:
        """Leave out a file whose rows are in this order already."""
        self.leave_out(LeftReason.ORDERED, candidate, say_order(self.order))


def empty_choice(request: ClusteringRequest) -> ClusteringChoice:
    """Return the choice of a request without candidates."""
    return ClusteringChoice(
        "cluster",
        "files",
        by_bytes(request.curve),
        float(request.small_limit),
        request.max_bytes,
        others={reason: [] for reason in LeftReason},
        cancel=cancel_policy(parse_cancel(request.cancel), request.on_overlap),
        order=SortOrder(request.curve, request.sort_by),
    )


def choose(session: Session, state: TableState, request: ClusteringRequest) -> ClusteringChoice:
    """Choose the file groups of a plan; change nothing.

    Raises:
        InvalidRequest: a partition or sort column that the table does not have, or an order that its index does not allow.
    """
    choice = empty_choice(request)
    _refuse_columns(session, state, request)
    has_buckets = state.log.properties.facts.has_buckets
    plans = pending_plans(session, state, "clustering")
    slices, _ = slices_of(session, state, request.partitions)
    candidates = [Candidate(*slice_.key, slice_.base, slice_.logs) for slice_ in slices]
    free = leave_out_pending(choice, candidates, plans)
    ordered = frozenset() if request.rewrite else _ordered(session, state, choice.order, free)

    def groups(into: ClusteringChoice, candidates: Sequence[Candidate]) -> list[RewriteGroup]:
        if has_buckets:
            return _groups_of_buckets(into, candidates, ordered)
        return _groups_of_partitions(into, request, candidates, ordered)

    starved = held_back(session, state, "clustering", request.starvation)
    if starved is not None:
        due = [*members(groups(empty_choice(request), free))]
        kept = starved.keep(choice, due, least=1 if has_buckets else MERGED_MIN)
        held = {candidate.key for candidate in due} - {candidate.key for candidate in kept}
        rest = [candidate for candidate in free if candidate.key not in held]
        if held and not groups(empty_choice(request), rest):
            unguard(choice)
        else:
            free = rest
    _take(choice, groups(choice, free))
    return choice


def _refuse_columns(session: Session, state: TableState, request: ClusteringRequest) -> None:
    """Refuse sort columns that the table does not have or that have no order.

    Raises:
        InvalidRequest: names the column; or there is none, and the table's files cannot be merged; or each has one value in a
            partition, so that sorting changes nothing.
    """
    schema = table_schema(state.config, state.timeline, session.commits)
    for name in request.sort_by:
        place = schema.get_field_index(name)
        if place < 0:
            raise InvalidRequest(
                f"the table has no column {name!r} to sort by",
                table=state.config.name,
                expected=", ".join(schema.names),
                found=name,
                next_step="name columns of the table",
                field="sort_by",
            )
        if pa.types.is_nested(schema.field(place).type):
            raise InvalidRequest(
                f"column {name!r} is nested and has no order",
                table=state.config.name,
                expected="columns of numbers, texts, bytes, dates, times or booleans",
                found=str(schema.field(place).type),
                next_step="name another column",
                field="sort_by",
            )
    if request.sort_by and constant_fields(state.config).issuperset(request.sort_by):
        names = ", ".join(request.sort_by)
        raise InvalidRequest(
            f"all rows of a partition have the same {names}: sorting by it would rewrite every file and change none",
            table=state.config.name,
            expected="a sort column that is no partition column",
            found=names,
            next_step="name columns that conditions compare, or leave the sort columns out to merge small files",
            field="sort_by",
        )
    if not request.sort_by and state.log.properties.facts.has_buckets:
        raise InvalidRequest(
            "this table has a file for each bucket, which cannot be merged with others",
            table=state.config.name,
            expected="sort_by with columns: each file is sorted by itself",
            found="no sort columns",
            next_step="name sort columns, or leave the table as it is",
            field="sort_by",
        )


def refuse_unknown_index(state: TableState) -> None:
    """Refuse a table in which rows may not move between file groups.

    Raises:
        Unsupported: an index of Apache Hudi's own says where rows lie.
    """
    facts = state.log.properties.facts
    if facts.has_ring:
        raise Unsupported(
            "the file groups of this table are the nodes of a hash ring, which a clustering would leave without files",
            table=state.config.name,
            expected="a table with the bloom, simple, record_index or simple bucket index",
            found=facts.index,
            next_step="split and merge its buckets instead: `hudi-ops resize TABLE`",
        )
    if not facts.takes_rows:
        raise Unsupported(
            "the index of this table is not known, so rows may not move between its file groups",
            table=state.config.name,
            expected="a table with the bloom, simple, record_index or simple bucket index",
            found=facts.index,
            next_step="cluster it with Apache Hudi",
        )


def _groups_of_buckets(
    choice: ClusteringChoice, candidates: Iterable[Candidate], ordered: frozenset[tuple[str, str]]
) -> list[RewriteGroup]:
    """Return a group for each file that is not in the order yet: its rows stay in their bucket."""
    groups = []
    for candidate in candidates:
        if candidate.key in ordered:
            choice.leave_out_ordered(candidate)
        else:
            groups.append(RewriteGroup((candidate,)))
    return groups


def _groups_of_partitions(
    choice: ClusteringChoice,
    request: ClusteringRequest,
    candidates: Iterable[Candidate],
    ordered: frozenset[tuple[str, str]],
) -> list[RewriteGroup]:
    """Return the groups of candidates, which come partition by partition.

    Small files are merged where that leaves fewer files. With an order, every file that is not in this order yet is sorted,
    together with small files that are.
    """
    limit = request.small_limit
    taken: list[Candidate] = []
    numbers: list[int] = []
    is_unsorted: list[bool] = []
    for number, (_, in_partition) in enumerate(groupby(candidates, key=lambda candidate: candidate.partition_path)):
        small: list[Candidate] = []
        begun = len(taken)
        for candidate in in_partition:
            if choice.order.columns and candidate.key not in ordered:
                taken.append(candidate)
            elif candidate.bytes_in < limit:
                small.append(candidate)
            elif candidate.key in ordered:
                choice.leave_out_ordered(candidate)
            else:
                choice.leave_out(LeftReason.LARGE, candidate)
        is_unsorted += [True] * (len(taken) - begun) + [False] * len(small)
        taken += small
        numbers += [number] * (len(taken) - begun)
    sizes = np.array([candidate.bytes_in for candidate in taken], np.int64)
    packs = pack(np.array(numbers, np.int64), sizes, request.group_bytes, request.target_bytes)
    groups = []
    for start, count, outputs in zip(packs.starts.tolist(), packs.counts.tolist(), packs.outputs.tolist(), strict=True):
        slices = tuple(taken[start : start + count])
        # Files that are not sorted yet come first in their partition.
        if is_unsorted[start] or outputs < count:
            groups.append(RewriteGroup(slices, outputs))
            continue
        for candidate in slices:
            if candidate.key in ordered:
                choice.leave_out_ordered(candidate)
            else:
                choice.leave_out(LeftReason.ALONE, candidate)
    return groups


def _take(choice: ClusteringChoice, groups: Sequence[RewriteGroup]) -> None:
    """Plan groups up to the limit of bytes, the largest first."""
    ordered = sorted(groups, key=lambda group: (-group.bytes_in, group.slices[0].key))
    choice.groups, beyond = within(ordered, choice.max_bytes)
    choice.planned, choice.beyond = sized(members(choice.groups)), sized(members(beyond))


def _ordered(
    session: Session, state: TableState, order: SortOrder, slices: Sequence[Candidate]
) -> frozenset[tuple[str, str]]:
    """Return the slices whose base file was written in an order.

    Commits on the timeline name the order of their files. For files whose writer was archived, the footer is read.
    """
    if not order.columns:
        return frozenset()
    known: dict[str, bool] = {}
    for time in {one.base.instant for one in slices if one.base is not None}:
        instant = state.timeline.find(time)
        metadata = session.commits.metadata(state.timeline, instant) if instant is not None else None
        if metadata is not None:
            known[time] = decode_order(metadata.extra.get(ORDER_KEY, "")) == order
    storage = session.ctx.storage

    def is_ordered(path: str) -> bool:
        try:
            return decode_order(BaseFileReader(storage, path).footer_value(ORDER_KEY)) == order
        except NotFound:
            return False  # cleaned since it was listed

    unknown = [one.base.path for one in slices if one.base is not None and one.base.instant not in known]
    by_footer = dict(zip(unknown, session.ctx.local_engine.map(is_ordered, unknown), strict=True))
    return frozenset(
        one.key
        for one in slices
        # Rows in log files are in no order.
        if one.base is not None and not one.logs and (by_footer.get(one.base.path) or known.get(one.base.instant))
    )
