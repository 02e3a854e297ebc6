"""Request of the resize service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from hudi_ops.config.doors import Door
from hudi_ops.config.requests.fields import (
    Abandoned,
    CancelText,
    DryRun,
    Engine,
    Memory,
    Partitions,
    PlanInstant,
    Resume,
)
from hudi_ops.config.requests.request import Request
from hudi_ops.errors import InvalidRequest

SPLIT_BYTES = 240 << 20
"""Default size above which a bucket is split, in bytes: two files as large as ingestion lets a base file grow."""

MERGE_BYTES = 24 << 20
"""Default size below which neighbours are merged, in bytes."""

MERGE_SHARE = 4
"""Least ratio of split size and merge size. Halves of a split must not be merged again."""

PLAN_BYTES_MAX = 2 << 30
"""Default of the most bytes of a plan."""

SPLIT_POINTS = ("middle", "balanced")


def checked_split_point(name: str) -> str:
    """Return the name of a split point: a known one in lower case, or `module:Class` as it is.

    Raises:
        InvalidRequest: it is neither.
    """
    if ":" in str(name):
        return str(name)
    if str(name).lower() not in SPLIT_POINTS:
        raise InvalidRequest(
            f"unknown split point {name!r}",
            expected=f"{', '.join(SPLIT_POINTS)}, or module:Class",
            found=str(name),
            field="split_point",
        )
    return name.lower()


class ResizeRequest(Request):
    """Which buckets a resize splits and merges, and how its plan is executed."""

    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {**Request.checks, "split_point": checked_split_point}

    partitions: Partitions = ()
    split_bytes: Annotated[int, Door(option="split-size", unit="bytes")] = Field(
        default=SPLIT_BYTES,
        ge=1,
        title="Split size",
        description="Buckets above this are split, in bytes.",
    )
    merge_bytes: Annotated[int, Door(option="merge-size", unit="bytes")] = Field(
        default=MERGE_BYTES,
        ge=0,
        title="Merge size",
        description="Neighbouring buckets below this are merged, in bytes, up to half the split size; it is at most a quarter of "
        "that. 0: none is merged.",
    )
    split_point: Annotated[
        str | None,
        Door(form=None, allows="middle, balanced, or module:Class"),
    ] = Field(
        default=None,
        title="Split point",
        description="Where a bucket is split: middle, in the middle of its hashes; balanced, where each side gets half of the "
        "keys, which are read for that; module:Class, a class of yours. Default: balanced, for extendible rings middle.",
    )
    max_bytes: Annotated[int | None, Door(unit="bytes")] = Field(
        default=PLAN_BYTES_MAX,
        ge=1,
        title="Max bytes",
        description="Stop adding buckets once this size is reached (always takes at least one split or merge).",
    )
    max_partitions: int = Field(
        default=1,
        ge=1,
        title="Max partitions",
        description="Most partitions of a plan: those with most bytes to resize come first.",
    )
    cancel: CancelText = None
    instant: PlanInstant = None
    engine: Engine = "auto"
    memory_bytes: Memory = None
    abandoned: Abandoned = False
    dry_run: DryRun = False
    resume: Resume = False

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        if self.merge_bytes > self.split_bytes // MERGE_SHARE:
            raise InvalidRequest(
                "merge_bytes is above a quarter of split_bytes",
                expected=f"at most {self.split_bytes // MERGE_SHARE}: else halves of a split would be merged again",
                found=str(self.merge_bytes),
                next_step="lower merge_bytes, or raise split_bytes; with merge_bytes 0 nothing is merged",
                field="merge_bytes",
            )
