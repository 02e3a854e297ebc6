"""Draw a timeline as lanes: one for each action, with one mark for each instant.

The SVG has classes and no styles. Instants stand in their order. The space between two of
them grows with the logarithm of the time between them, so that neither a burst of writes nor a quiet month hides the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

ROW, AXIS, MARGIN = 26, 24, 14
"""Height of a lane and of the axis, and the space before the first and after the last mark."""

WIDTH_MIN, SLOT, GAP_MAX = 960, 11, 44
"""Least width of the drawing, space of an instant, and most space of a pause."""

LABEL_EVERY = 124
"""Least space between two times on the axis."""

FIRST_ACTIONS = (
    "commit",
    "deltacommit",
    "replacecommit",
    "compaction",
    "logcompaction",
    "clustering",
    "indexing",
    "clean",
)
"""Actions whose lanes come first."""

MARKS = ("completed", "pending", "cancelled", "aborted")
"""What a mark says of its instant."""

_SHAPES = {
    "completed": '<circle cx="{x}" cy="{y}" r="4.5"/>',
    "pending": '<path d="M{x} {y}m-6 0l6 -6l6 6l-6 6z"/>',
    "cancelled": '<path d="M{x} {y}m-5 -5h10v10h-10zm0 10l10 -10"/>',
    "aborted": '<path d="M{x} {y}m-5 -5l10 10m0 -10l-10 10"/>',
}


@dataclass(frozen=True)
class Drawing:
    """Lanes of a timeline.

    Attributes:
        lanes: actions, from the top.
        labels: SVG with their names.
        marks: SVG with the instants.
        counts: number of instants by what their marks say; all of `MARKS`.
    """

    lanes: Sequence[str]
    labels: Markup
    marks: Markup
    counts: Mapping[str, int]


def word_of(row: Mapping[str, Any], cancelled: Collection[str]) -> str:
    """Return what the mark of an instant says: one of `MARKS`.

    Args:
        row: of the timeline.
        cancelled: instants whose cancel is decided.
    """
    state = row.get("state")
    if state in {"completed", "aborted"}:
        return str(state)
    return "cancelled" if row.get("time") in cancelled else "pending"


def drawn(rows: Sequence[Mapping[str, Any]], cancelled: Collection[str], name: str) -> Drawing:
    """Return the drawing of a timeline.

    Args:
        rows: as `hudi-ops timeline --json` prints them, oldest first.
        cancelled: instants whose cancel is decided, and that are not removed yet.
        name: of the table.
    """
    used = {str(row.get("action", "")) for row in rows}
    lanes = [*(action for action in FIRST_ACTIONS if action in used), *sorted(used.difference(FIRST_ACTIONS))]
    middle = {action: at * ROW + ROW // 2 for at, action in enumerate(lanes)}
    times = [_seconds(str(row.get("time", ""))) for row in rows]
    places = _places(times)
    width = round(max(WIDTH_MIN, (places[-1] if places else 0) + MARGIN))
    height = len(lanes) * ROW
    words = [word_of(row, cancelled) for row in rows]
    counts = Counter(words)
    summary = ", ".join(f"{counts[word]:,} {word}" for word in MARKS)
    parts = [
        f'<svg class="lanes" role="img" aria-labelledby="lanes-title lanes-desc" width="{width}" height="{height + AXIS}" '
        f'viewBox="0 0 {width} {height + AXIS}">',
        f'<title id="lanes-title">Timeline of {escape(name)}</title>',
        f'<desc id="lanes-desc">{len(rows):,} instants, oldest on the left: {summary}. The table below lists them.</desc>',
    ]
    parts += [f'<line class="lane" x1="0" y1="{y}" x2="{width}" y2="{y}"/>' for y in middle.values()]
    parts += _axis(times, places, height, width)
    for row, word, x in zip(rows, words, places, strict=True):
        y = middle[str(row.get("action", ""))]
        line = f'<line class="open" x1="{x}" y1="{y}" x2="{width}" y2="{y}"/>' if word == "pending" else ""
        parts.append(
            f'<g class="dot {word}"><title>{escape(_said(row, word))}</title>{line}{_SHAPES[word].format(x=x, y=y)}</g>'
        )
    parts.append("</svg>")
    marks = Markup("".join(parts))  # noqa: S704 - escaped above
    return Drawing(lanes, _labels(lanes, middle, height), marks, {word: counts[word] for word in MARKS})


def shape(word: str) -> Markup:
    """Return the mark of a word, for a legend."""
    mark = _SHAPES[word].format(x=8, y=8)
    svg = f'<svg class="key" width="16" height="16" viewBox="0 0 16 16" aria-hidden="true"><g class="dot {word}">{mark}</g></svg>'
    return Markup(svg)  # noqa: S704 - one of four constants


def _labels(lanes: Sequence[str], middle: Mapping[str, int], height: int) -> Markup:
    width = max((len(action) for action in lanes), default=0) * 7 + 10
    texts = "".join(f'<text x="0" y="{middle[action] + 4}">{escape(action)}</text>' for action in lanes)
    head = f'<svg class="lanes" aria-hidden="true" width="{width}" height="{height + AXIS}" viewBox="0 0 {width} {height + AXIS}">'
    return Markup(f"{head}{texts}</svg>")  # noqa: S704 - escaped above


def _places(times: Sequence[float | None]) -> list[float]:
    """Return the places of instants from the left, spread over the least width."""
    known = [time for time in times if time is not None]
    pauses = sorted(max(0.0, later - time) for time, later in pairwise(known))
    usual = max(1.0, pauses[len(pauses) // 2]) if pauses else 1.0
    places = [0.0]
    for time, later in pairwise(times):
        pause = max(0.0, later - time) if time is not None and later is not None else 0.0
        places.append(places[-1] + SLOT + min(GAP_MAX, 9 * math.log2(max(1.0, pause / usual))))
    if not times:
        return []
    room = WIDTH_MIN - 2 * MARGIN
    factor = min(4.0, room / places[-1]) if 0 < places[-1] < room else 1.0
    return [round(MARGIN + place * factor, 1) for place in places]


def _axis(times: Sequence[float | None], places: Sequence[float], height: int, width: int) -> list[str]:
    parts, last, day = [], -math.inf, ""
    for time, x in zip(times, places, strict=True):
        if time is None or x < last + LABEL_EVERY or x > max(width - 90, MARGIN):
            continue
        at = datetime.fromtimestamp(time, UTC)
        said, today = at.strftime("%H:%M:%S"), at.strftime("%Y-%m-%d")
        label = said if today == day else f"{today} {said[:5]}"
        parts.append(
            f'<line class="tick" x1="{x}" y1="0" x2="{x}" y2="{height + 4}"/><text x="{x}" y="{height + 18}">{label}</text>'
        )
        last, day = x, today
    return parts


def _seconds(instant: str) -> float | None:
    """Return the time of an instant in seconds since 1970; None: it is none."""
    try:
        return datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _said(row: Mapping[str, Any], word: str) -> str:
    operation = f", {row['operation']}" if row.get("operation") else ""
    rows = f", {row['rows_written']:,} rows" if isinstance(row.get("rows_written"), int) else ""
    note = f": {row['note']}" if row.get("note") else ""
    return f"{row.get('time', '')} {row.get('action', '')} {word}{operation}{rows}{note}"
