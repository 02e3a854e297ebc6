"""Result of a resize, for users."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.services.base.rewrite.result import RewriteResult


@dataclass(frozen=True)
class ResizeResult(RewriteResult):
    """Result of a resize.

    `left_out` counts the plan groups that writes touched without writing into their children.

    Attributes:
        splits: number of buckets that were split.
        merges: number of runs of buckets that were merged.
        streamed: number of plan groups that were rewritten in bounded memory.
    """

    splits: int = 0
    merges: int = 0
    streamed: int = 0
