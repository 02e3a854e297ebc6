"""Request model of index builds."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import BeforeValidator, Field

from hudi_ops.clock import DURATION_MAX_S
from hudi_ops.config.doors import Door
from hudi_ops.config.requests.fields import Abandoned, PlanInstant, Resume
from hudi_ops.config.requests.request import EngineName, Request, listed

MetadataPartitionName: TypeAlias = Literal["files", "column_stats", "partition_stats", "bloom_filters", "record_index"]
OnTimeout: TypeAlias = Literal["leave", "abort"]

TIMEOUT_S = 15 * 60.0
"""Default limit of catch-up."""

_NAMES = f"^({'|'.join(get_args(MetadataPartitionName))}|secondary_index_[^=]+(=.+)?)$"
_PARTITIONS = {
    # Apache Hudi's writers build the first two themselves; a form that offers one more has something to build.
    "default": ["column_stats", "partition_stats", "bloom_filters"],
    "items": {"type": "string"},
    "examples": list(get_args(MetadataPartitionName)),
}


class IndexRequest(Request):
    """Which partitions of the metadata table are built, and how their plan is executed."""

    partitions: Annotated[tuple[str, ...] | None, BeforeValidator(listed), Door(form=_PARTITIONS, takes=_NAMES)] = (
        Field(
            default=None,
            title="Partitions",
            description="files, column_stats, partition_stats, bloom_filters, record_index, or secondary_index_NAME=COLUMN; files "
            "is built with the others where it is missing. Without names: the first three.",
        )
    )
    rebuild: bool = Field(
        default=False,
        title="Rebuild existing",
        description="Drop and rebuild the chosen partitions, or all of them where none is chosen. Unavailable until finished.",
    )
    timeout_s: Annotated[float, Door(option="timeout", unit="seconds")] = Field(
        default=TIMEOUT_S,
        gt=0,
        le=DURATION_MAX_S,
        title="Timeout",
        description="Limit of catch-up, which adds what completed beside the build. After it the plan stays, and the same call "
        "goes on.",
    )
    on_timeout: Annotated[OnTimeout, Door(form=None)] = Field(
        default="leave",
        title="On timeout",
        description="What becomes of a build whose catch-up takes too long: leave keeps it for the next call, abort removes it.",
    )
    engine: EngineName = Field(
        default="auto",
        title="Engine",
        description="Where files are read: local is one process, spark the executors; auto chooses by size.",
    )
    instant: PlanInstant = None
    abandoned: Abandoned = False
    dry_run: bool = Field(default=False, title="Dry run", description="Show what would be built; change nothing.")
    resume: Resume = False

    @property
    def memory_bytes(self) -> int | None:
        """Return no limit of memory: records are made of statistics and keys."""
        return None
