"""Report of a verification: findings, and how many things each check looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from shlex import quote
from typing import Any, Literal

Severity = Literal["error", "warning", "info"]
_RANK: Mapping[Severity, int] = {"error": 0, "warning": 1, "info": 2}

RESTORE = "restore the file from a copy of the table"
REWRITE = "rewrite the file with its writer"


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken invariant. `where` is a path below the table's root, or an instant.

    An error: rows or readability are at risk now. A warning: they will be, or work is unfinished. An info: clutter.
    """

    severity: Severity
    invariant: str
    what: str
    where: str = ""
    next_step: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return plain values."""
        return asdict(self)

    def __str__(self) -> str:
        text = f"{self.severity} {self.invariant}: {self.what}"
        text += f" [{self.where}]" if self.where else ""
        return text + (f"\n  Next: {self.next_step}" if self.next_step else "")


@dataclass(frozen=True)
class Report:
    """Findings, worst first, and the number of things that each check looked at."""

    table: str
    uri: str
    findings: tuple[Finding, ...]
    checks: Mapping[str, int]
    deep: bool = False

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that put rows or readability at risk now."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "table": self.table,
            "uri": self.uri,
            "ok": self.ok,
            "deep": self.deep,
            "findings": [finding.as_dict() for finding in self.findings],
            "checks": dict(self.checks),
        }


@dataclass
class Findings:
    """Collector of the findings of one verification."""

    found: list[Finding] = field(default_factory=list)
    checks: Counter[str] = field(default_factory=Counter)

    def looked(self, check: str, count: int = 1) -> None:
        """Count things that a check looked at."""
        self.checks[check] += count

    def error(self, invariant: str, what: str, where: str = "", next_step: str = "") -> None:
        """Report that rows or readability are at risk now."""
        self.found.append(Finding("error", invariant, what, where, next_step))

    def warning(self, invariant: str, what: str, where: str = "", next_step: str = "") -> None:
        """Report that rows or readability will be at risk, or that work is unfinished."""
        self.found.append(Finding("warning", invariant, what, where, next_step))

    def info(self, invariant: str, what: str, where: str = "", next_step: str = "") -> None:
        """Report clutter, or a fact worth knowing."""
        self.found.append(Finding("info", invariant, what, where, next_step))

    def report(self, table: str, uri: str, *, deep: bool) -> Report:
        """Return all findings, ordered by severity, invariant and place."""
        ordered = sorted(
            self.found, key=lambda found: (_RANK[found.severity], found.invariant, found.where, found.what)
        )
        return Report(table, uri, tuple(ordered), dict(sorted(self.checks.items())), deep)


def compact_command(partition: str | None = None) -> str:
    """Return the command that compacts a partition, or the whole table, for a next step."""
    return f"`hudi-ops compact TABLE --partition {quote(partition)}`" if partition else "`hudi-ops compact TABLE`"
