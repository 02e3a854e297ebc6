"""What a verification found: findings, and how much was looked at, so that "nothing found" says what it is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from shlex import quote
from typing import Any, Literal

Severity = Literal["error", "warning", "info"]
_RANK: Mapping[Severity, int] = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken invariant. `where` is a path below the table's root, or an instant.

    An error means rows or readability are at risk now; a warning, that they will be or that work is left to do; an info, clutter.
    """

    severity: Severity
    invariant: str
    what: str
    where: str = ""
    next_step: str = ""

    def as_dict(self) -> dict[str, str]:
        """As plain values."""
        return asdict(self)

    def __str__(self) -> str:
        text = f"{self.severity} {self.invariant}: {self.what}"
        text += f" [{self.where}]" if self.where else ""
        return text + (f"\n  Next: {self.next_step}" if self.next_step else "")


@dataclass(frozen=True)
class Report:
    """Findings, worst first, and how many things each check looked at."""

    table: str
    uri: str
    findings: tuple[Finding, ...]
    checks: Mapping[str, int]
    deep: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing found is an error."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that put rows or readability at risk."""
        return tuple(one for one in self.findings if one.severity == "error")

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "table": self.table,
            "uri": self.uri,
            "ok": self.ok,
            "deep": self.deep,
            "findings": [one.as_dict() for one in self.findings],
            "checks": dict(self.checks),
        }


@dataclass
class Findings:
    """Collects what the checks of one verification find."""

    found: list[Finding] = field(default_factory=list)
    checks: Counter[str] = field(default_factory=Counter)

    def looked(self, check: str, count: int = 1) -> None:
        """Count things that a check looked at."""
        self.checks[check] += count

    def error(self, invariant: str, what: str, where: str = "", next_step: str = "") -> None:
        """Rows or readability are at risk now."""
        self.found.append(Finding("error", invariant, what, where, next_step))

    def warning(self, invariant: str, what: str, where: str = "", next_step: str = "") -> None:
        """Rows or readability will be at risk, or work is left to do."""
        self.found.append(Finding("warning", invariant, what, where, next_step))

    def info(self, invariant: str, what: str, where: str = "", next_step: str = "") -> None:
        """Clutter, or a fact worth knowing."""
        self.found.append(Finding("info", invariant, what, where, next_step))

    def report(self, table: str, uri: str, *, deep: bool) -> Report:
        """All of it, worst first, then by invariant and place."""
        ordered = sorted(self.found, key=lambda one: (_RANK[one.severity], one.invariant, one.where, one.what))
        return Report(table, uri, tuple(ordered), dict(sorted(self.checks.items())), deep)


def compact_command(partition: str | None = None) -> str:
    """The command that merges the log files of a partition, or of the whole table, into base files; for a next step."""
    return f"`hudi-ops compact TABLE --partition {quote(partition)}`" if partition else "`hudi-ops compact TABLE`"
