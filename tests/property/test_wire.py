"""Answers of a timeline server: round trips, and any cut or changed byte is found."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from hudi_ops.view.columns.files import ROWS
from hudi_ops.view.remote.wire import BadAnswer, Head, Part, decode, encode

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
FILES = st.builds(
    lambda text, size: {
        "file_id": text,
        "name": text,
        "instant": text,
        "kind": 0,
        "size": size,
        "author": None,
        "unread": False,
    },
    TEXT,
    st.integers(0, 2**62),
)
PARTITIONS = st.dictionaries(TEXT, st.lists(FILES, max_size=4), max_size=4)


@st.composite
def answers(draw: st.DrawFn) -> tuple[Head, dict[str, list[dict]], dict[str, list[dict]]]:
    files, ahead = draw(PARTITIONS), draw(PARTITIONS)
    counts = [tuple((path, len(rows)) for path, rows in one.items()) for one in (files, ahead)]
    replaced = tuple(draw(st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=3)))
    head = Head(
        draw(TEXT), draw(TEXT), draw(TEXT), draw(st.booleans()), draw(st.booleans()), counts[0], replaced, counts[1]
    )
    return head, files, ahead


def parts(of: dict[str, list[dict]]) -> list[Part]:
    return [Part.of(pa.RecordBatch.from_pylist(rows, ROWS)) for rows in of.values()]


def rows(batches: tuple[pa.RecordBatch, ...]) -> list[dict]:
    return pa.Table.from_batches(batches, ROWS).to_pylist()


@given(answers())
def test_an_answer_survives_the_wire(given_answer: tuple) -> None:
    head, files, ahead = given_answer
    found = decode(encode(head, parts(files), parts(ahead)))
    assert (found.head, found.is_whole) == (head, True)
    assert rows(found.files) == [row for of in files.values() for row in of]
    assert rows(found.ahead) == [row for of in ahead.values() for row in of]


def test_a_cut_or_changed_answer_is_found() -> None:
    files = {
        "p": [{"file_id": "a", "name": "b", "instant": "1", "kind": 0, "size": 5, "author": None, "unread": False}]
    }
    body = encode(Head("t", "1", "d", False, True, (("p", 1),)), parts(files))

    for length in range(len(body)):
        with pytest.raises(BadAnswer):
            decode(body[:length])
    for at in range(len(body)):
        with suppress(BadAnswer):
            assert not decode(body[:at] + bytes([body[at] ^ 0x20]) + body[at + 1 :]).is_whole
