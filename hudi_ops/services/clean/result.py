"""Result of a clean."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.services.base.result import ServiceResult


@dataclass(frozen=True)
class CleanOutcome(ServiceResult):
    """Result of an execution.

    `deleted` counts files that were deleted, `gone` those that did not exist any more, and `held_back` those that stay although the
    policy drops them; `ring_files` counts deleted files of old hash rings. Reads as of `earliest_retained` and later stay possible;
    empty: the policy names no instant.
    """

    policy: str = ""
    earliest_retained: str = ""
    partitions: int = 0
    deleted: int = 0
    bytes_deleted: int = 0
    gone: int = 0
    held_back: int = 0
    ring_files: int = 0
