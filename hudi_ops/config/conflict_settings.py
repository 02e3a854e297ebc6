"""Settings for conflicts between writers: who gives way, early detection, retries and waits."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

STRATEGY = "ingestion-first"

ForeignWithoutHeartbeat: TypeAlias = Literal["busy", "pass"]
"""Whether a write may complete above a pending write of another program that has no heartbeat."""


PlannedService: TypeAlias = Literal["compaction", "clustering"]
"""Services whose plans name file groups, so that they may overlap."""


class ConflictSettings(BaseModel):
    """Settings of one writer; `tables.yaml` gives them to every writer of a declared table.

    `strategy` may be an object as well (`concurrency.conflicts.ConflictStrategy`), a class that this package cannot import.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    strategy: Any = Field(
        default=STRATEGY, description="first-committer, ingestion-first, or the import path `module:Class` of your own."
    )
    early_detection: bool = Field(default=True, description="Look for overlapping writers before work and during it.")
    retries: int = Field(default=5, ge=0, le=1_000, description="How often a write that lost is tried again.")
    lock_wait_s: float = Field(
        default=60.0, gt=0, le=86_400, strict=False, description="How long to wait for the table lock before giving up."
    )
    accept_future_instants: bool = Field(
        default=False, description="Let new instants follow one that a wrong clock put into the future."
    )
    wait_s: float = Field(
        default=10.0, ge=0, le=86_400, strict=False, description="How long to let an overlapping writer finish first."
    )
    priority: dict[PlannedService, int] = Field(
        default_factory=dict,
        description="Priorities of services, 0 unless given: a plan cancels overlapping, cancellable plans of lower ones.",
    )
    foreign_without_heartbeat: ForeignWithoutHeartbeat = Field(
        default="busy",
        description="Before a write completes above a pending one of Apache Hudi that has no heartbeat: busy stops, pass warns.",
    )

    def outranks(self, action: str, other: str) -> bool:
        """Return whether plans of one service cancel those of another."""
        ranks: dict[str, int] = dict(self.priority.items())
        return ranks.get(action, 0) > ranks.get(other, 0)
