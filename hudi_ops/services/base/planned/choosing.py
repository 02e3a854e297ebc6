"""Find the file groups that a plan may name, and the plans that hold them already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hudi_ops.commit.session import Session
from hudi_ops.errors import InvalidRequest
from hudi_ops.services.base.choice import Candidate, Choice
from hudi_ops.services.base.planned.revise import other_plans
from hudi_ops.services.base.slices import live_slices
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS, Footprint
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.state import TableState
from hudi_ops.view.partitions import choose as choose_partitions, plain_paths
from hudi_ops.view.slices import Slice, is_partitioned


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


def pending_plans(session: Session, state: TableState, action: str) -> Callable[[Slice], str | None]:
    """Return a function that names the pending plan of a slice, or None.

    Plans that a plan of `action` may cancel do not count.
    """
    return naming(other_plans(session, state, action, reach_back=True))


def leave_out_pending(
    choice: Choice, candidates: Iterable[Candidate], plan_of: Callable[[Slice], str | None]
) -> list[Candidate]:
    """Return the candidates of which `plan_of` names no plan; enter the others into the choice."""
    free = []
    for candidate in candidates:
        if (plan := plan_of(candidate)) is not None:
            choice.pending.append((candidate, plan))
        else:
            free.append(candidate)
    return free


def naming(plans: Iterable[tuple[Instant, Footprint | None]]) -> Callable[[Slice], str | None]:
    """Return a function that names the plan of a slice, or None.

    A plan that cannot be read may name any slice.
    """
    found: dict[str, str] = {}
    for instant, inputs in plans:
        plan = f"{instant.action} {instant.time}"
        if inputs is None:
            found[""] = f"{plan}, which cannot be read"
        else:
            found |= {f"{partition}/{group}": plan for partition, group in inputs.groups}

    def plan_of(slice_: Slice) -> str | None:
        return found.get("") or found.get(f"{slice_.partition_path}/{slice_.file_id[:BUCKET_DIGITS]}")

    return plan_of
