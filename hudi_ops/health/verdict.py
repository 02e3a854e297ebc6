"""Say what the health of a table is: for users, programs and the next verdict."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hudi_ops.clock import bounded_ms, iso_of_ms
from hudi_ops.config.requests.targets import DAY_S
from hudi_ops.errors import Corrupt, Internal, Unavailable
from hudi_ops.health.check import Measure
from hudi_ops.health.seen import Seen

FORM: Literal[1] = 1
"""Form of verdicts. A reader of another form does not use them."""

MISSED_EXIT_CODE = 4
"""Exit code when a target is missed."""

GRAVEST = (Corrupt.exit_code, Internal.exit_code, Unavailable.exit_code, 14, 12, 11, 10, 3, 2, MISSED_EXIT_CODE, 0)
"""Exit codes, the gravest first."""

CheckStatus = Literal["healthy", "missed", "off", "not_applicable", "unknown"]
Status = Literal["healthy", "missed", "unknown"]


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True)


class MeasureSaid(_Said):
    """A measured value and its target."""

    name: str = Field(description="As the target is called in tables.yaml.")
    value: float | None = Field(description="null: nothing to measure.")
    target: float | None = Field(description="Most that is healthy; null: no target.")
    unit: str = Field(description="s, or a noun in the plural; empty: a ratio.")
    missed: bool = Field(description="Whether the value is above the target.")


class EvidenceSaid(_Said):
    """A file group, an instant, or another thing that explains the measures."""

    kind: str = Field(description="file group, instant, owner, index, savepoint or hold.")
    name: str = Field(description="Which one.")
    detail: str = Field(description="What about it.")


class CheckVerdict(_Said):
    """What one check says."""

    check: str = Field(description="Name of the check.")
    status: CheckStatus = Field(
        description="healthy; missed: a value is above its target; off: by tables.yaml; not_applicable: the check says nothing "
        "about this table, note says why; unknown: the check failed, error says why."
    )
    since: str | None = Field(
        default=None, description="Since when the target is missed, or the check unknown, as ISO time in UTC."
    )
    tolerate_s: float = Field(
        default=DAY_S, description="How long a target may be missed before the DAG health fails, in s."
    )
    measures: tuple[MeasureSaid, ...] = Field(default=(), description="The most telling ones first.")
    evidence: tuple[EvidenceSaid, ...] = Field(default=(), description="The gravest first; at most ten.")
    commands: tuple[str, ...] = Field(default=(), description="Commands that mend it, in their order.")
    note: str = Field(default="", description="Further facts.")
    error: dict[str, Any] | None = Field(default=None, description="Error of the check, as other commands print it.")


class HealthVerdict(_Said):
    """Verdict on one table."""

    form: Literal[1] = Field(default=FORM, description="Form of the verdict.")
    table: str = Field(description="Name or path by which the table was asked for.")
    path: str = Field(default="", description="URI of the table; empty: unknown.")
    at: str = Field(description="Time of the verdict, as ISO time in UTC.")
    status: Status = Field(description="missed: at least one check is; unknown: the table or a check cannot be judged.")
    exit_code: int = Field(description="0 healthy, 4 missed, else that of the gravest error.")
    since: str | None = Field(default=None, description="Since when the table cannot be judged, as ISO time in UTC.")
    error: dict[str, Any] | None = Field(default=None, description="Why the table cannot be judged.")
    note: str = Field(default="", description="Further facts; empty: none.")
    checks: tuple[CheckVerdict, ...] = Field(default=(), description="All checks, in the order of the documentation.")
    seen: Seen | None = Field(default=None, description="Facts for the next verdict; of no meaning to others.")

    @property
    def missed(self) -> tuple[CheckVerdict, ...]:
        """Checks whose target is missed."""
        return tuple(one for one in self.checks if one.status == "missed")

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values."""
        return self.model_dump(mode="json")

    def summary(self) -> str:
        """Return one line for a log."""
        if self.error is not None:
            return f"{self.table}: {str(self.error.get('message', '')).splitlines()[0]}"
        said = [_summary(one) for one in self.checks if one.status in {"missed", "unknown"}]
        return f"{self.table}: {'; '.join(said) or 'healthy'}"

    def intolerable(self, now_ms: int) -> tuple[str, ...]:
        """Return the checks that were missed or unknown for longer than is tolerated.

        `now_ms` is in ms since 1970. A damaged table is not tolerated at all. `table` stands for a table that cannot be judged.
        """
        found = [
            one.check
            for one in self.checks
            if one.status in {"missed", "unknown"} and _is_over(one.since, one.tolerate_s, one.error, now_ms)
        ]
        if self.error is not None and _is_over(self.since, DAY_S, self.error, now_ms):
            found.append("table")
        return tuple(found)


class HealthReport(_Said):
    """Verdicts on several tables, as `hudi-ops health --json` prints them."""

    form: Literal[1] = Field(default=FORM, description="Form of the verdicts.")
    exit_code: int = Field(description="The gravest of the tables: 20 before 13 before 4 before 0.")
    tables: tuple[HealthVerdict, ...] = Field(description="In the order in which they were asked for.")


def gravest(codes: Iterable[int]) -> int:
    """Return the gravest of exit codes; 0 without one."""
    return min(codes, key=lambda code: GRAVEST.index(code) if code in GRAVEST else 1, default=0)


def said_measure(one: Measure) -> MeasureSaid:
    """Return a measure as a verdict says it."""
    return MeasureSaid(name=one.name, value=one.value, target=one.target, unit=one.unit, missed=one.is_missed)


def said_time(ms: int) -> str:
    """Return a time in ms since 1970 as a verdict says it."""
    return iso_of_ms(ms).replace("+00:00", "Z")


def ms_of(time: str) -> int | None:
    """Return a time of a verdict in ms since 1970; None: it is no time."""
    try:
        found = datetime.fromisoformat(time)
    except ValueError:
        return None
    return bounded_ms(int((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp() * 1000))


def said_value(value: float, unit: str) -> str:
    """Return a measured value in words: `3 d`, `1,200`, `14`, `0.42`."""
    if unit == "s":
        size, name = next(((size, name) for size, name in _TIMES if value >= size), (1, "s"))
        return f"{value / size:,.3g} {name}"
    if 0 < value < _LEAST_SAID:
        return f"< {_LEAST_SAID}"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.3g}"


_LEAST_SAID = 0.001
_TIMES = ((86_400, "d"), (3_600, "h"), (60, "min"))


def _summary(one: CheckVerdict) -> str:
    if one.error is not None:
        return f"{one.check} unknown: {str(one.error.get('message', '')).splitlines()[0]}"
    values = [
        f"{said.name} {said_value(said.value, said.unit)} (target {said_value(said.target, said.unit)})"
        for said in one.measures
        if said.missed and said.value is not None and said.target is not None
    ]
    commands = f": {' && '.join(one.commands)}" if one.commands else ""
    return f"{one.check} missed since {one.since}, {', '.join(values)}{commands}"


def _is_over(since: str | None, tolerate_s: float, error: dict[str, Any] | None, now_ms: int) -> bool:
    if error is not None and error.get("exit_code") == Corrupt.exit_code:
        return True
    since_ms = ms_of(since) if since is not None else None
    return since_ms is not None and now_ms - since_ms > tolerate_s * 1000
