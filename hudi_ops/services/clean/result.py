"""Result of a clean."""

from __future__ import annotations

from dataclasses import dataclass, field

from hudi_ops.services.base.result import EndedPlans, ServiceResult


@dataclass(frozen=True)
class CleanOutcome(ServiceResult):
    """Result of an execution.

    `deleted` counts files that were deleted, `gone` those that did not exist any more, and `held_back` those that stay although the
    policy drops them; `ring_files` counts deleted files of old hash rings. Reads as of `earliest_retained` and later stay possible;
    empty: the policy names no instant. `ended_first` has the plans of other services that the call ended before it chose files.
    """

    policy: str = ""
    earliest_retained: str = ""
    partitions: int = 0
    deleted: int = 0
    bytes_deleted: int = 0
    gone: int = 0
    held_back: int = 0
    ring_files: int = 0
    ended_first: EndedPlans = field(default_factory=EndedPlans)
