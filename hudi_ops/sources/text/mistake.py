"""Mistake in a CSV or JSON lines file, as errors tell it."""

from __future__ import annotations

from typing import NamedTuple

_SHOWN_MAX = 60


class Mistake(NamedTuple):
    """What is wrong in a file.

    Attributes:
        line: number of the line in the file, from 1; None: not found again.
        what: the mistake, without file and line.
        expected: what the line should hold.
        field: the column, where one is concerned.
        found: the value, as it is written in the file.
        is_unknown: the table lacks the column.
    """

    line: int | None
    what: str
    expected: str
    field: str | None = None
    found: str = ""
    is_unknown: bool = False


def shown(text: str) -> str:
    """Return a text that is not too long for an error."""
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
