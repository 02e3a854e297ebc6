"""Inputs of pending compactions and clusterings.

Source: docs/protocol §14.
"""

from __future__ import annotations

from collections.abc import Iterator

from hudi_ops.context import TableContext
from hudi_ops.errors import Corrupt
from hudi_ops.timeline.content.footprint import Footprint, inputs_of
from hudi_ops.timeline.content.plans import read_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import REWRITING_ACTIONS
from hudi_ops.timeline.state import TableState


def pending_inputs(ctx: TableContext, state: TableState) -> Iterator[tuple[Instant, Footprint | None]]:
    """Yield pending compactions and clusterings with their inputs; None: unreadable plan."""
    for instant in state.timeline.pending:
        if instant.action in REWRITING_ACTIONS:
            yield instant, plan_inputs(ctx, state, instant)


def plan_inputs(ctx: TableContext, state: TableState, instant: Instant) -> Footprint | None:
    """Return the file groups that a plan reads; None when it is unreadable."""
    try:
        return inputs_of(read_plan(ctx.storage, state.timeline, instant))
    except Corrupt:
        return None
