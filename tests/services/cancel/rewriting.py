"""Clusterings that a write ends: every file is sorted again, in its bucket."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.services.clustering.service import ClusterResult
from hudi_ops.table.table import Table


@dataclass(frozen=True)
class RewriteRequest:
    """Partitions whose files are rewritten, none: all; the column by which they are sorted; and the plan's cancel policy."""

    partitions: tuple[str, ...] = ()
    sort_by: str = "id"
    cancel: str = "cancellable"


def plan_rewrite(table: Table, request: RewriteRequest | None = None) -> str:
    """Publish a plan; returns its instant."""
    wanted = request or RewriteRequest()
    made = table.clustering.plan(
        sort_by=wanted.sort_by,
        rewrite=True,
        partitions=wanted.partitions,
        cancel=wanted.cancel,
        on_overlap="cancel",
    )
    assert made.instant is not None, made.note
    return made.instant


def execute_rewrite(table: Table, instant: str | None = None) -> ClusterResult:
    """Execute a plan; None: the oldest one without a live executor."""
    return table.clustering.execute(instant=instant, engine="local")
