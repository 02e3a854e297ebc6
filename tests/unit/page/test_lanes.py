"""A drawing has one mark for each instant, inside of its area, for all times and texts."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings, strategies as st

from hudi_ops.page.lanes import MARKS, drawn, shape
from tests.bounds import examples
from tests.unit.page.shown_pages import parsed

TIMES = st.one_of(
    st.from_regex(r"\A20[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|1[0-9]|2[0-8])[01][0-9][0-5][0-9][0-5][0-9]000\Z"),
    st.text(max_size=20),
)
ROWS = st.fixed_dictionaries({
    "time": TIMES,
    "action": st.one_of(
        st.sampled_from(["commit", "deltacommit", "clustering", "clean", "rollback"]), st.text(max_size=12)
    ),
    "state": st.sampled_from(["requested", "inflight", "completed", "aborted"]),
    "note": st.text(max_size=10),
    "rows_written": st.one_of(st.none(), st.integers(0, 10**12)),
})


@settings(max_examples=examples(60))
@given(st.lists(ROWS, max_size=40), st.sets(st.integers(0, 39)))
def test_each_instant_has_its_mark_in_the_lane_of_its_action(rows: list[dict[str, Any]], cancelled: set[int]) -> None:
    rows = sorted(rows, key=lambda row: row["time"])
    ended = {rows[at]["time"] for at in cancelled if at < len(rows)}
    found = drawn(rows, ended, "<t>")
    svg = parsed(str(found.marks)).one("svg")
    width, height = (float(svg.attributes[name] or "") for name in ("width", "height"))
    marks = svg.all("g", class_="dot")
    words = [
        row["state"] if row["state"] in {"completed", "aborted"} else "cancelled" if row["time"] in ended else "pending"
        for row in rows
    ]
    assert [(one.attributes["class"] or "").split()[1] for one in marks] == words
    assert Counter(found.counts) == Counter({word: words.count(word) for word in MARKS})
    places = []
    for mark, row in zip(marks, rows, strict=True):
        drawing = mark.children[-1].attributes  # type: ignore[union-attr]
        x, y = (drawing["cx"], drawing["cy"]) if "cx" in drawing else str(drawing["d"])[1:].partition("m")[0].split()
        places.append(float(x or ""))
        assert float(y or "") == found.lanes.index(row["action"]) * 26 + 13
        assert 0 < float(x or "") < width
    assert places == sorted(set(places)), "marks stand in their order, and none hides another"
    assert len(found.lanes) * 26 < height
    assert len(parsed(str(found.labels)).all("text")) == len(found.lanes)


def test_the_marks_differ_in_shape() -> None:
    shapes = {str(shape(word)).replace(word, "") for word in MARKS}
    assert len(shapes) == len(MARKS)
