"""Result of a clustering, for users."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.services.base.rewrite.result import RewriteResult


@dataclass(frozen=True)
class ClusterResult(RewriteResult):
    """Result of a clustering.

    Attributes:
        order: order of the rows, as the plan says it.
        spilled: number of plan groups that were sorted on disk.
    """

    order: str = ""
    spilled: int = 0
