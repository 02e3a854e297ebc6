"""Why a file group is in a compaction's plan, or is not: for each of them, in numbers, and in one sentence for the whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from hudi_ops.services.compaction.strategies import Candidate, CompactionStrategy, Measured

SHOWN_MAX = 100
"""File groups that a result names for each reason but `planned`; the counts have all of them."""


class Reason(StrEnum):
    """What became of a file group."""

    PLANNED = "planned"
    NO_LOG_FILES = "no log files"
    BELOW_THRESHOLD = "below the threshold"
    PENDING = "in a pending plan"
    BEYOND_LIMIT = "beyond the limit of bytes"
    UNMERGEABLE = "log files that cannot be merged here"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One file group: what of it would be read, how it measures by the strategy, and what became of it. Sizes in bytes."""

    partition_path: str
    file_id: str
    reason: Reason
    base_bytes: int
    log_files: int
    log_bytes: int
    measure: float | None
    why: str


@dataclass
class Choice:
    """All file groups that were looked at, by what became of them.

    `elsewhere` are partitions with log files that the request did not ask for.
    """

    strategy: CompactionStrategy
    least: float
    max_bytes: int | None
    planned: list[Measured] = field(default_factory=list)
    below: list[Measured] = field(default_factory=list)
    beyond: list[Measured] = field(default_factory=list)
    pending: list[tuple[Candidate, str]] = field(default_factory=list)
    unmergeable: list[tuple[Candidate, str]] = field(default_factory=list)
    without_logs: int = 0
    elsewhere: set[str] = field(default_factory=set)

    def unplanned(self) -> set[str]:
        """Partitions with log files that are not planned."""
        waiting = [one.candidate for one in (*self.below, *self.beyond)]
        waiting += [candidate for candidate, _ in (*self.pending, *self.unmergeable)]
        return {one.partition_path for one in waiting} | self.elsewhere

    def counts(self) -> dict[str, int]:
        """File groups by reason."""
        return {
            Reason.PLANNED: len(self.planned),
            Reason.BELOW_THRESHOLD: len(self.below),
            Reason.PENDING: len(self.pending),
            Reason.BEYOND_LIMIT: len(self.beyond),
            Reason.UNMERGEABLE: len(self.unmergeable),
            Reason.NO_LOG_FILES: self.without_logs,
        }

    def verdicts(self) -> tuple[Verdict, ...]:
        """All that are planned, then up to `SHOWN_MAX` for each other reason; those without log files are counted only."""
        return tuple(self._verdicts())

    def _verdicts(self) -> Iterator[Verdict]:
        unit = self.strategy.unit
        for one in self.planned:
            yield _verdict(one.candidate, Reason.PLANNED, one.measure, f"{number(one.measure)} {unit}")
        for one in self.below[:SHOWN_MAX]:
            why = f"{number(one.measure)} of {number(self.least)} {unit}: {number(self.least - one.measure)} short"
            yield _verdict(one.candidate, Reason.BELOW_THRESHOLD, one.measure, why)
        for candidate, by in self.pending[:SHOWN_MAX]:
            yield _verdict(candidate, Reason.PENDING, None, by)
        for one in self.beyond[:SHOWN_MAX]:
            why = f"{one.candidate.bytes_in:,} bytes to read do not fit into what is left of {self.max_bytes or 0:,}"
            yield _verdict(one.candidate, Reason.BEYOND_LIMIT, one.measure, why)
        for candidate, why in self.unmergeable[:SHOWN_MAX]:
            yield _verdict(candidate, Reason.UNMERGEABLE, None, why)


def sentence_of(choice: Choice) -> str:
    """One sentence: what is planned, and what keeps the rest."""
    parts = []
    if choice.below:
        best = choice.below[0].measure
        parts.append(
            f"{_groups(len(choice.below))} below {number(choice.least)} {choice.strategy.unit} (at most {number(best)})"
        )
    if choice.pending:
        plans = sorted({by for _, by in choice.pending})
        parts.append(f"{_groups(len(choice.pending))} taken by others ({plans[0]}{_more(len(plans) - 1)})")
    if choice.beyond:
        parts.append(f"{_groups(len(choice.beyond))} beyond the limit of {choice.max_bytes or 0:,} bytes")
    if choice.unmergeable:
        first, why = choice.unmergeable[0]
        where = f"{first.partition_path}/{first.file_id}".lstrip("/")
        parts.append(f"{_groups(len(choice.unmergeable))} with log files that cannot be merged here ({where}: {why})")
    if choice.without_logs:
        parts.append(f"{_groups(choice.without_logs)} without log files")
    rest = ", ".join(parts)
    if choice.planned:
        logs = sum(len(one.candidate.logs) for one in choice.planned)
        said = f"{_groups(len(choice.planned))} with {logs:,} log file{'' if logs == 1 else 's'}"
        return f"{said}; left out: {rest}" if rest else said
    if not parts:
        return "nothing to compact: the table has no file groups"
    if not (choice.below or choice.pending or choice.beyond or choice.unmergeable):
        return "nothing to compact: no file group has log files"
    return f"nothing to compact: {rest}"


def number(value: float) -> str:
    """A measure for people: whole where it is large or whole."""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.1f}"


def _verdict(candidate: Candidate, reason: Reason, measure: float | None, why: str) -> Verdict:
    return Verdict(
        candidate.partition_path,
        candidate.file_id,
        reason,
        candidate.base_bytes,
        len(candidate.logs),
        candidate.log_bytes,
        measure,
        why,
    )


def _groups(count: int) -> str:
    return f"{count:,} file group{'' if count == 1 else 's'}"


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""
