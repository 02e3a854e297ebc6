"""Which file groups a compaction takes first: by size, number or age of their log files, or by the commits since the last one.

Pure: each strategy measures a candidate, and the largest measures come first. What lies below the threshold waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hudi_ops.errors import InvalidRequest
from hudi_ops.view.file_group import DataFile


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file group that has log files, as the planner found it.

    `commits` are the delta commits that completed since its base file was made, its own and others'; `oldest_ms` is when the first
    of its log files completed, in ms since 1970.
    """

    partition_path: str
    file_id: str
    base: DataFile | None
    logs: tuple[DataFile, ...]
    commits: int = 0
    oldest_ms: int = 0

    @property
    def base_bytes(self) -> int:
        """Bytes of its base file."""
        return self.base.size_bytes if self.base is not None else 0

    @property
    def log_bytes(self) -> int:
        """Bytes of its log files."""
        return sum(file.size_bytes for file in self.logs)

    @property
    def bytes_in(self) -> int:
        """Bytes that merging it reads."""
        return self.base_bytes + self.log_bytes

    @property
    def key(self) -> tuple[str, str]:
        """Partition path and file id."""
        return self.partition_path, self.file_id


@dataclass(frozen=True)
class CompactionStrategy:
    """One way to choose.

    Attributes:
        name: as users write it.
        measure: of a candidate, at a moment in ms since 1970.
        unit: of the measure, as it follows a number.
        least: threshold where none is given: what measures less waits.
    """

    name: str
    measure: Callable[[Candidate, int], float]
    unit: str
    least: float


STRATEGIES = {
    one.name: one
    for one in (
        CompactionStrategy("size", lambda one, now_ms: one.log_bytes, "bytes", 1),
        CompactionStrategy("count", lambda one, now_ms: len(one.logs), "log files", 5),
        CompactionStrategy("commits", lambda one, now_ms: one.commits, "delta commits", 5),
        CompactionStrategy("age", lambda one, now_ms: (now_ms - one.oldest_ms) / 1000, "s", 3600),
    )
}
"""By name; the first is the default."""


def parse_strategy(name: str) -> CompactionStrategy:
    """The strategy of that name.

    Raises:
        InvalidRequest: none has it.
    """
    found = STRATEGIES.get(name.lower())
    if found is None:
        raise InvalidRequest(f"unknown compaction strategy {name!r}", expected=" or ".join(STRATEGIES), found=name)
    return found


@dataclass(frozen=True, slots=True)
class Measured:
    """A candidate with its measure."""

    candidate: Candidate
    measure: float


def measured(
    strategy: CompactionStrategy, candidates: Iterable[Candidate], least: float, now_ms: int
) -> tuple[list[Measured], list[Measured]]:
    """Candidates that reach the threshold, the largest measure first, and those that do not, the nearest first.

    Equal measures are ordered by log bytes, then by name, so that the same table gives the same plan.

    Args:
        strategy: how they are measured.
        candidates: file groups with log files.
        least: what measures less waits.
        now_ms: the present.
    """
    ordered = sorted(
        (Measured(one, strategy.measure(one, now_ms)) for one in candidates),
        key=lambda one: (-one.measure, -one.candidate.log_bytes, one.candidate.key),
    )
    return [one for one in ordered if one.measure >= least], [one for one in ordered if one.measure < least]


def within(ordered: Iterable[Measured], max_bytes: int | None) -> tuple[list[Measured], list[Measured]]:
    """Those of which the bytes to read lie within a limit together, one at least, and those that do not fit.

    One that does not fit is passed over for smaller ones behind it.
    """
    taken: list[Measured] = []
    left: list[Measured] = []
    used = 0
    for one in ordered:
        if max_bytes is not None and taken and used + one.candidate.bytes_in > max_bytes:
            left.append(one)
            continue
        taken.append(one)
        used += one.candidate.bytes_in
    return taken, left
