"""Say values as people read them, in the words that the command line uses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape
from pydantic import TypeAdapter, ValidationError

from hudi_ops.cli.output import sized
from hudi_ops.config.tables_file import TableName
from hudi_ops.health.verdict import said_time, said_value
from hudi_ops.registry.rows import NAME_MAX

DASH = "\u2013"
"""Stands for a value that there is not."""

_NAME = TypeAdapter[str](TableName)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True)
class Mark:
    """A status as text, shape and class; colour comes from the class."""

    word: str
    shape: str
    kind: str


_MARKS = {
    "missed": Mark("missed", "▲", "bad"),
    "unknown": Mark("unknown", "?", "odd"),
    "healthy": Mark("healthy", "✓", "good"),
    "": Mark("never judged", "○", "none"),
    "off": Mark("off", DASH, "none"),
    "not_applicable": Mark("n/a", DASH, "none"),
    "running": Mark("running", "▶", "live"),
    "succeeded": Mark("succeeded", "✓", "good"),
    "failed": Mark("failed", "✕", "bad"),
    "cancelled": Mark("cancelled", "⊘", "odd"),
    "skipped": Mark("skipped", DASH, "none"),
    "lost": Mark("lost", "?", "odd"),
    "planned": Mark("planned", "◇", "none"),
    "left": Mark("left", "?", "odd"),
    "aborted": Mark("aborted", "✕", "none"),
    "completed": Mark("completed", "●", "good"),
    "requested": Mark("requested", "◇", "none"),
    "inflight": Mark("inflight", "▶", "live"),
    "live": Mark("live", "▶", "live"),
    "dead": Mark("dead", "✕", "bad"),
    "stale": Mark("stale", "!", "odd"),
}


def mark(status: str) -> Markup:
    """Return a status as HTML: a shape that colours, and its word."""
    found = _MARKS.get(status) or Mark(status, "·", "none")
    shape = Markup('<span aria-hidden="true">{}</span>').format(found.shape)
    return Markup('<span class="mark {}">{} {}</span>').format(found.kind, shape, found.word)


def when(ms: float | None, now_ms: int) -> Markup:
    """Return a time in ms since 1970 as HTML: how long ago, with the exact time as title."""
    if ms is None:
        return escape(DASH)
    iso = said_time(int(ms))
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(iso, ago(ms, now_ms))


def ago(ms: float, now_ms: int) -> str:
    """Return how long ago a time is, such as `3 min ago`."""
    seconds = (now_ms - ms) / 1000
    if abs(seconds) < 1:
        return "now"
    size, unit = next(((size, unit) for size, unit in _UNITS if abs(seconds) >= size), _UNITS[-1])
    said = f"{int(abs(seconds) // size):,} {unit}"
    return f"{said} ago" if seconds > 0 else f"in {said}"


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def duration(seconds: float | None) -> str:
    """Return a duration in words, as `hudi-ops health` prints it; a dash for None."""
    if seconds is None:
        return DASH
    return said_value(round(seconds) if seconds >= 10 else round(seconds, 1), "s")


def count(value: Any) -> str:
    """Return a number with separators; a dash for None; other values as text."""
    if value is None:
        return DASH
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) or value != int(value) else f"{int(value):,}"


def size(value: Any) -> str:
    """Return a number of bytes in words; a dash for None."""
    return sized(int(value)) if isinstance(value, (int, float)) and not isinstance(value, bool) else DASH


def measured(value: Any, unit: str) -> str:
    """Return a measured value or its target as `hudi-ops health` prints it; a dash for None."""
    return said_value(float(value), unit) if isinstance(value, (int, float)) else DASH


def code_marked(text: str) -> Markup:
    """Return a text as HTML in which words between backquotes are code."""
    parts = str(text).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


def run_address(dag_run: str) -> str:
    """Return the address of a run below Airflow's root; empty: the text names no run.

    Args:
        dag_run: DAG, task and run with slashes between them, as leases have it, or DAG and run.
    """
    dag, _, rest = dag_run.partition("/")
    task, _, run = rest.partition("/")
    if not run:
        task, run = "", task
    if not dag or not run:
        return ""
    address = f"dags/{quote(dag, safe='')}/runs/{quote(run, safe='')}"
    return f"{address}/tasks/{quote(task, safe='')}" if task else address


def is_name(text: str) -> bool:
    """Return whether tables.yaml can declare a table of this name: others have no page."""
    try:
        _NAME.validate_python(text)
    except ValidationError:
        return False
    return True


def plain_search(text: str) -> str:
    """Return a search without characters that no name has."""
    return _CONTROL.sub("", text).strip()[:NAME_MAX]


def shown_setting(value: Any) -> str:
    """Return a setting of a table as text; empty: it has none."""
    match value:
        case None | "" | [] | {}:
            return ""
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return count(value)
        case list() | tuple():
            return ", ".join(map(shown_setting, value))
        case Mapping():
            return ", ".join(f"{name}: {shown_setting(one)}" for name, one in value.items())
    return str(value)
