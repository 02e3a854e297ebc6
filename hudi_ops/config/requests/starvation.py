"""Starvation guard of plans that writes cancel again and again (RFC-79)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from hudi_ops.errors import InvalidRequest

WAIT_S_MAX = 3_600
"""Longest window in which writes wait, in seconds: a service that needs more time is not fit to run beside ingestion."""

AFTER_MAX = 1_000

_GUARD = re.compile(
    r"(?P<how>halve|colder|wait (?P<number>\d{1,9}(?:\.\d{1,9})?) ?(?P<unit>s|m|h)) after (?P<after>\d{1,9})"
)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0}
_EXPECTED = "halve after 3, colder after 3, or wait 60s after 3"


@dataclass(frozen=True)
class StarvationGuard:
    """Treatment of file groups whose plans writes cancelled `after` times or more.

    `wait_s`: how long writes wait for the plan, in seconds; 0 unless `how` is `wait`.
    """

    how: Literal["halve", "colder", "wait"]
    after: int
    wait_s: float = 0.0


def parse_guard(text: str) -> StarvationGuard:
    """Return the guard of a text: `halve after 3`, `colder after 3`, or `wait 60s after 3`.

    Raises:
        InvalidRequest: it is none of these, or a number is out of bounds.
    """
    said = str(text)
    found = _GUARD.fullmatch(" ".join(said.lower().split()))
    wait_s = float(found["number"]) * _SECONDS[found["unit"]] if found is not None and found["number"] else 0.0
    waits = found is not None and found["how"].startswith("wait")
    if found is None or not 1 <= int(found["after"]) <= AFTER_MAX or (waits and not 0 < wait_s <= WAIT_S_MAX):
        raise InvalidRequest(
            f"starvation cannot be {said[:100]!r}",
            expected=f"{_EXPECTED}; after 1 to {AFTER_MAX:,} cancelled plans, and a wait of at most {WAIT_S_MAX:,} s",
            found=repr(said[:100]),
            next_step="correct starvation, or leave it out: then plans are made as if no earlier plan was cancelled",
            field="starvation",
        )
    how: Literal["halve", "colder", "wait"] = "wait" if waits else "halve" if found["how"] == "halve" else "colder"
    return StarvationGuard(how, int(found["after"]), wait_s)


def checked_guard(text: str | None) -> str | None:
    """Return a text that `parse_guard` takes, or None."""
    if text is not None:
        parse_guard(text)
    return text
