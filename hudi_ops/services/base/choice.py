"""Choose the candidates of a plan by measure, threshold and limit, with a reason for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeVar

from hudi_ops.config.requests import CancelSettings
from hudi_ops.timeline.cancel.policy import NEVER, CancelPolicy, OnOverlap
from hudi_ops.view.slices import Slice

SHOWN_MAX = 100
"""Candidates that a result names for each reason but `planned`; the counts include all of them."""


class Sized(Protocol):
    """A candidate, a group, a task or inputs, which read a known number of bytes."""

    @property
    def bytes_in(self) -> int:
        """Return the bytes of the files that are read."""
        ...


M = TypeVar("M", bound=Sized)


class Reason(StrEnum):
    """Reason to plan a candidate or to leave it out. A service may add its own."""

    PLANNED = "planned"
    BELOW_THRESHOLD = "below the threshold"
    PENDING = "in a pending plan"
    BEYOND_LIMIT = "beyond the limit of bytes"
    GUARDED = "plans that writes cancelled"


@dataclass(frozen=True)
class Candidate(Slice):
    """A file slice that a plan may name.

    `commits` counts all delta commits that completed since its base file was made; `oldest_ms` is the completion time of its first
    log file, in ms since 1970.
    """

    commits: int = 0
    oldest_ms: int = 0


@dataclass(frozen=True)
class Strategy:
    """Named measure of candidates, at a time in ms since 1970, with unit and default threshold."""

    name: str
    measure: Callable[[Candidate, int], float]
    unit: str
    threshold: float


@dataclass(frozen=True, slots=True)
class Measured:
    """A candidate with its measure."""

    candidate: Candidate
    measure: float

    @property
    def bytes_in(self) -> int:
        """Return the bytes that are read."""
        return self.candidate.bytes_in


@dataclass(frozen=True, slots=True)
class Verdict:
    """File group of a choice: its sizes in bytes, its measure by the strategy, and the reason."""

    partition_path: str
    file_id: str
    reason: str
    base_bytes: int
    log_files: int
    log_bytes: int
    measure: float | None
    why: str


@dataclass
class Choice:
    """All candidates of a request, by reason.

    Attributes:
        verb: the service's work on a file group, for the note.
        has: property that makes a file group a candidate, for the note, for example `log files`.
        strategy: measures the candidates.
        threshold: least measure of a planned candidate.
        max_bytes: limit of the bytes that a plan reads; None: no limit.
        planned: candidates that the plan names.
        below: candidates below the threshold.
        beyond: candidates beyond the limit.
        pending: candidates of pending plans, each with the plan's name.
        others: candidates left out for the service's own reasons, by reason, each with the detail.
        bare: number of file groups that are no candidates, counted under `no {has}`.
        cancel: whether a cancel may end the plan, and when it is overdue.
        guard: what the starvation guard does; empty: nothing.
    """

    verb: str
    has: str
    strategy: Strategy
    threshold: float
    max_bytes: int | None = None
    planned: list[Measured] = field(default_factory=list)
    below: list[Measured] = field(default_factory=list)
    beyond: list[Measured] = field(default_factory=list)
    pending: list[tuple[Candidate, str]] = field(default_factory=list)
    others: dict[str, list[tuple[Candidate, str]]] = field(default_factory=dict)
    bare: int = 0
    cancel: CancelPolicy = NEVER
    guard: str = ""

    @property
    def is_due(self) -> bool:
        """Return whether there is anything to plan."""
        return bool(self.planned)

    def leave_unfit_to_wait(self) -> None:
        """Leave out work whose plan must not wait for its execution."""

    def refuse_nothing(self, table: str) -> None:
        """Refuse a choice without candidates. By default it is not refused: its note says enough."""

    def leave_out(self, reason: str, one: Candidate, why: str = "") -> None:
        """Leave a candidate out for a reason of the service, by default with its size as the detail."""
        self.others[reason].append((one, why or f"{one.bytes_in:,} bytes"))

    def waiting(self) -> Iterator[Candidate]:
        """Yield the candidates that are not planned."""
        yield from (found.candidate for found in (*self.below, *self.beyond))
        yield from (candidate for left in (self.pending, *self.others.values()) for candidate, _ in left)

    def counts(self) -> dict[str, int]:
        """Return the number of file groups by reason."""
        return {
            Reason.PLANNED: len(self.planned),
            Reason.BELOW_THRESHOLD: len(self.below),
            Reason.PENDING: len(self.pending),
            Reason.BEYOND_LIMIT: len(self.beyond),
            **{reason: len(left) for reason, left in self.others.items()},
            f"no {self.has}": self.bare,
        }

    def verdicts(self) -> tuple[Verdict, ...]:
        """Return all planned candidates, then up to `SHOWN_MAX` for each other reason."""
        return tuple(self._verdicts())

    def _verdicts(self) -> Iterator[Verdict]:
        unit = self.strategy.unit
        for found in self.planned:
            yield _verdict(found.candidate, Reason.PLANNED, f"{number(found.measure)} {unit}", found.measure)
        for found in self.below[:SHOWN_MAX]:
            short = number(self.threshold - found.measure)
            why = f"{number(found.measure)} of {number(self.threshold)} {unit}: {short} short"
            yield _verdict(found.candidate, Reason.BELOW_THRESHOLD, why, found.measure)
        for candidate, plan in self.pending[:SHOWN_MAX]:
            yield _verdict(candidate, Reason.PENDING, plan)
        for found in self.beyond[:SHOWN_MAX]:
            why = f"{found.candidate.bytes_in:,} bytes to read do not fit into the rest of {self.max_bytes or 0:,}"
            yield _verdict(found.candidate, Reason.BEYOND_LIMIT, why, found.measure)
        for reason, left in self.others.items():
            for candidate, why in left[:SHOWN_MAX]:
                yield _verdict(candidate, reason, why)

    def sentence(self) -> str:
        """Return one sentence: the planned groups, why others are not, and the guard."""
        return f"{self._sentence()}; starvation guard: {self.guard}" if self.guard else self._sentence()

    def _sentence(self) -> str:
        rest = ", ".join(self._kept())
        if self.planned:
            said = self.work()
            return f"{said}; left out: {rest}" if rest else said
        if not rest:
            return f"nothing to {self.verb}: the table has no file groups"
        if not any(True for _ in self.waiting()):
            return f"nothing to {self.verb}: no file group has {self.has}"
        return f"nothing to {self.verb}: {rest}"

    def work(self) -> str:
        """Return what the plan does, in words."""
        logs = sum(len(found.candidate.logs) for found in self.planned)
        return f"{count_of(len(self.planned), 'file group')} with {count_of(logs, 'log file')}"

    def _kept(self) -> Iterator[str]:
        if self.below:
            best, unit = number(self.below[0].measure), self.strategy.unit
            yield f"{_groups(len(self.below))} below {number(self.threshold)} {unit} (at most {best})"
        if self.pending:
            plans = sorted({plan for _, plan in self.pending})
            more = f" and {len(plans) - 1} more" if len(plans) > 1 else ""
            yield f"{_groups(len(self.pending))} taken by others ({plans[0]}{more})"
        if self.beyond:
            yield f"{_groups(len(self.beyond))} beyond the limit of {self.max_bytes or 0:,} bytes"
        for reason, left in self.others.items():
            if left:
                first, why = left[0]
                where = f"{first.partition_path}/{first.file_id}".lstrip("/")
                yield f"{_groups(len(left))} with {reason} ({where}: {why})"
        if self.bare:
            yield f"{_groups(self.bare)} without {self.has}"


def cancel_policy(settings: CancelSettings, on_overlap: OnOverlap) -> CancelPolicy:
    """Return the cancel policy of the settings; `on_overlap` is what an overlapping write does."""
    return CancelPolicy(settings.cancellable, settings.after_hours, settings.after_instants, on_overlap)


def measured(
    strategy: Strategy, candidates: Iterable[Candidate], threshold: float, now_ms: int
) -> tuple[list[Measured], list[Measured]]:
    """Return the candidates that reach the threshold, and those that do not.

    The largest measure is first; equal ones are ordered by log bytes, then by name, so that the same table gives the same plan.
    """
    ordered = sorted(
        (Measured(candidate, strategy.measure(candidate, now_ms)) for candidate in candidates),
        key=lambda found: (-found.measure, -found.candidate.log_bytes, found.candidate.key),
    )
    reached = [found for found in ordered if found.measure >= threshold]
    return reached, ordered[len(reached) :]


def within(ordered: Iterable[M], max_bytes: int | None) -> tuple[list[M], list[M]]:
    """Return the candidates or groups that fit a limit of bytes, and those that do not.

    The first always fits. One that does not fit is passed over for smaller ones behind it.
    """
    taken: list[M] = []
    left: list[M] = []
    used_bytes = 0
    for candidate in ordered:
        if max_bytes is not None and taken and used_bytes + candidate.bytes_in > max_bytes:
            left.append(candidate)
            continue
        taken.append(candidate)
        used_bytes += candidate.bytes_in
    return taken, left


def number(value: float) -> str:
    """Return a measure for people: without decimals where it is large or whole."""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.1f}"


def _verdict(candidate: Candidate, reason: str, why: str, measure: float | None = None) -> Verdict:
    logs = len(candidate.logs)
    return Verdict(*candidate.key, reason, candidate.base_bytes, logs, candidate.log_bytes, measure, why)


def count_of(number: int, what: str) -> str:
    """Return a number of things in words: `1 file group`, `2 file groups`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _groups(count: int) -> str:
    return count_of(count, "file group")
