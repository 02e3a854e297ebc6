"""The comparison of two commits by the files that they write finds a changed byte, a lost file and another outcome."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from tests.other_commit.compare import first_difference


def kept(bodies: Path, body: bytes) -> str:
    """Keep a body as the player does; returns its sha256."""
    name = sha256(body).hexdigest()
    (bodies / name).write_bytes(body)
    return name


def test_a_changed_byte_is_shown_where_it_is(tmp_path: Path) -> None:
    old, new = kept(tmp_path, b"0" * 100 + b"a"), kept(tmp_path, b"0" * 100 + b"b")
    before = [("create", "returned", {"x": old}), ("write", "returned", {"x": old, "y": old})]
    after = [("create", "returned", {"x": old}), ("write", "returned", {"x": old, "y": new})]
    assert first_difference(before, before, tmp_path) is None
    difference = first_difference(before, after, tmp_path)
    assert difference is not None
    assert difference.call == "1 write"
    assert [line.splitlines()[0] for line in difference.lines] == ["y: differs at byte 100 of 101 and 101:"]


def test_a_lost_file_and_another_outcome_are_shown(tmp_path: Path) -> None:
    body = kept(tmp_path, b"body")
    before = [("write", "returned", {"x": body, "y": body})]
    after = [("write", "Conflict: lost", {"y": body, "z": body})]
    difference = first_difference(before, after, tmp_path)
    assert difference is not None
    assert difference.lines == ("returned -> Conflict: lost", "x: is gone", "z: appears")
