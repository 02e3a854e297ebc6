"""Choose the slices that a plan rewrites, by group; leave out those of other plans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Self, TypeVar

from hudi_ops.commit.session import Session
from hudi_ops.errors import InvalidRequest
from hudi_ops.services.base.choice import Candidate, Choice, Measured, Strategy
from hudi_ops.services.base.slices import live_slices
from hudi_ops.services.rewrite.later_changes import other_plans
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS
from hudi_ops.timeline.names import MERGING_ACTIONS
from hudi_ops.timeline.state import TableState
from hudi_ops.view.partitions import choose as choose_partitions, plain_paths
from hudi_ops.view.slices import Slice, is_partitioned


@dataclass(frozen=True)
class RewriteGroup:
    """Slices of a partition that are rewritten together, into `outputs` files."""

    slices: tuple[Candidate, ...]
    outputs: int = 1

    @property
    def partition_path(self) -> str:
        """Return the partition of all its slices."""
        return self.slices[0].partition_path

    @property
    def bytes_in(self) -> int:
        """Return the bytes that are read."""
        return sum(slice_.bytes_in for slice_ in self.slices)

    def extra(self) -> Mapping[str, str]:
        """Return the extra metadata of the plan group."""
        return {}


G = TypeVar("G", bound=RewriteGroup)


@dataclass
class RewriteChoice(Choice, Generic[G]):
    """Choice whose planned slices are rewritten by group."""

    groups: list[G] = field(default_factory=list)

    def revised(self, groups: list[G], left: Mapping[tuple[str, str], str]) -> Self:
        """Return the choice with these of its groups; `left` has the reason for each other slice."""
        slices = {slice_.key: slice_ for slice_ in members(groups)}
        planned, pending = [], [*self.pending]
        for chosen in self.planned:
            key = chosen.candidate.key
            if key in slices:
                planned.append(Measured(slices[key], chosen.measure))
            else:
                pending.append((chosen.candidate, left[key]))
        return replace(self, groups=groups, planned=planned, pending=pending)


def members(groups: Iterable[RewriteGroup]) -> Iterator[Candidate]:
    """Yield the slices of groups."""
    return (slice_ for group in groups for slice_ in group.slices)


def by_bytes(name: str) -> Strategy:
    """Return the strategy that measures slices by their bytes, under a name."""
    return Strategy(name, lambda candidate, now_ms: float(candidate.bytes_in), "bytes", 0.0)


def sized(slices: Iterable[Candidate]) -> list[Measured]:
    """Return slices, each measured by its bytes."""
    return [Measured(slice_, float(slice_.bytes_in)) for slice_ in slices]


def slices_of(session: Session, state: TableState, wanted: Sequence[str]) -> tuple[list[Slice], list[Slice] | None]:
    """Return the visible slices of the wanted partitions (none: all), and all listed slices.

    The second is None where only the wanted partitions were listed.

    Raises:
        InvalidRequest: a name that no partition has, or a table without partitions.
    """
    if not wanted:
        found = live_slices(session, state)
        return found, found
    if not is_partitioned(state.config):
        raise InvalidRequest(
            "the table has no partitions to choose from",
            table=state.config.name,
            expected="no partition named",
            found=", ".join(wanted),
        )
    if paths := plain_paths(wanted):
        found = live_slices(session, state, paths)
        if {slice_.partition_path for slice_ in found} == set(paths):
            return found, None
    found = live_slices(session, state)
    chosen = choose_partitions({slice_.partition_path: slice_ for slice_ in found}, wanted, state.config)
    return [slice_ for slice_ in found if slice_.partition_path in chosen], found


def pending_plans(
    session: Session, state: TableState, action: str, *, by_partition: bool = False
) -> dict[tuple[str, ...], str]:
    """Return the pending plans of file groups, by partition path and bucket digits.

    Plans that a plan of `action` may cancel do not count. A plan that cannot be read may name any slice; its key is empty. With
    `by_partition` a plan that moves rows between file groups is also entered under its partition path alone.
    """
    plans: dict[tuple[str, ...], str] = {}
    for instant, inputs in other_plans(session, state, action, reach_back=True):
        plan = f"{instant.action} {instant.time}"
        if inputs is None:
            plans[()] = f"{plan}, which cannot be read"
            continue
        plans |= dict.fromkeys(inputs.groups, plan)
        if by_partition and instant.action not in MERGING_ACTIONS:
            plans |= {(path,): plan for path, _ in inputs.groups}
    return plans


def leave_out_pending(
    choice: Choice, candidates: Iterable[Candidate], plans: Mapping[tuple[str, ...], str]
) -> list[Candidate]:
    """Return the candidates that none of the plans names; enter the others into the choice."""
    free = []
    for candidate in candidates:
        path, group = candidate.partition_path, candidate.file_id[:BUCKET_DIGITS]
        plan = plans.get((path,)) or plans.get(()) or plans.get((path, group))
        if plan is not None:
            choice.pending.append((candidate, plan))
        else:
            free.append(candidate)
    return free
