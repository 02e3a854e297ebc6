"""What a check is: facts of a table, and their judgement by targets at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hudi_ops.health.look import Look

TABLE = "TABLE"
"""Word of a command that stands for the table's name or path."""

EVIDENCE_MAX = 10
"""Most file groups, instants or owners that a judgement names."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a check found in a table.

    All fields are plain values, so that a verdict can be stored as JSON.

    Attributes:
        until_ms: time from which the facts must be read anew although the table did not change, for example when a hold expires;
            in ms since 1970. None: never.
    """

    until_ms: int | None = None


@dataclass(frozen=True)
class NotHere:
    """Why a check says nothing about a table, for example `the table has no log files`."""

    why: str


@dataclass(frozen=True)
class Measure:
    """A measured value and its target.

    Attributes:
        name: as the target is called in `tables.yaml`.
        value: None: nothing to measure.
        target: most that is healthy; None: no target.
        unit: `s`, or a noun in the plural; empty: a ratio.
    """

    name: str
    value: float | None
    target: float | None
    unit: str = ""

    @property
    def is_missed(self) -> bool:
        """Whether the value is above its target."""
        return self.value is not None and self.target is not None and self.value > self.target


@dataclass(frozen=True)
class Evidence:
    """A thing that explains the measures.

    `kind` is `file group`, `instant`, `owner`, `index`, `savepoint` or `hold`.
    """

    kind: str
    name: str
    detail: str = ""


@dataclass(frozen=True)
class Judgement:
    """What a check says about its facts.

    Attributes:
        measures: the first ones are the most telling.
        evidence: at most `EVIDENCE_MAX`, the gravest first; also where no target is missed.
        commands: words of the commands that mend it, without the program's name, with `TABLE` for the table, in their order; empty
            where no target is missed.
        note: further facts; empty: none.
        since_ms: since when a target is missed, in ms since 1970; None: unknown, then the first verdict that saw it says it.
        mended_ms: when the service that mends it completed last, in ms since 1970: no target is missed for longer. None: unknown.
    """

    measures: tuple[Measure, ...]
    evidence: tuple[Evidence, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    note: str = ""
    since_ms: int | None = None
    mended_ms: int | None = None

    @property
    def is_missed(self) -> bool:
        """Whether any target is missed."""
        return any(one.is_missed for one in self.measures)


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: as in `HealthTargets`.
        facts: class of its facts.
        measure: reads the facts of a table; changes nothing. Raises the errors of its service.
        judge: judges facts by the targets at a time in ms since 1970; reads nothing.
    """

    name: str
    facts: type[Facts]
    measure: Callable[[Look], Facts | NotHere]
    judge: Callable[[Any, Any, int], Judgement] = field(repr=False)
