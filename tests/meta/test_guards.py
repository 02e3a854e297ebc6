"""The guards that `python -m tests.guards` removes stand where its table says, once each, and its tests are there."""

from __future__ import annotations

from pathlib import Path

from tests.guards.table import GUARDS

ROOT = Path(__file__).resolve().parents[2]


def test_each_guard_stands_once_in_its_file() -> None:
    counts = {one.name: (ROOT / one.file).read_text(encoding="utf-8").count(one.text) for one in GUARDS}
    assert {name: count for name, count in counts.items() if count != 1} == {}
    assert len(counts) == len(GUARDS) >= 20


def test_the_tests_of_each_guard_are_there() -> None:
    assert [test for one in GUARDS for test in one.tests if not (ROOT / test.partition("::")[0]).exists()] == []


def test_a_guard_is_removed_by_its_row() -> None:
    assert [one.name for one in GUARDS if one.without == one.text] == []
