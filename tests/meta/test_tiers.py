"""Full holds all that was there, quick is a subset of it, and the tables name tests that are there.

Goal: a test that is moved or renamed is not lost. Method: the ids that pytest collects for each tier.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.groups import GROUPS, group_of
from tests.meta.compare_ids import baseline, collected
from tests.tiers import LEFT_OUT, SAMPLED, SOAK_ONLY, places

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def full() -> list[str]:
    return collected("full")


def test_full_holds_every_test_of_the_starting_commit(full: list[str]) -> None:
    before = baseline()
    assert len(before) == 5_874
    assert set(before) - set(full) == set()


def test_quick_is_a_subset_of_full(full: list[str]) -> None:
    quick = collected("quick")
    assert set(quick) <= set(full)
    assert len(quick) >= 0.75 * len(full)
    # A kind of test is in quick, if not each of them: nothing of these folders is left out whole.
    folders = {nodeid.split("/")[1] for nodeid in quick}
    assert folders >= {"unit", "meta", "corruption", "property", "protocol", "storage", "airflow", "interop", "e2e"}


def test_every_place_that_quick_leaves_out_is_there(full: list[str]) -> None:
    there = {place for nodeid in full for place in places(nodeid)}
    assert (set(LEFT_OUT) | set(SAMPLED)) - there == set()


def test_what_only_the_soak_has_is_not_in_full(full: list[str]) -> None:
    for place in SOAK_ONLY:
        path, _, test = place.partition("::")
        assert (ROOT / "tests" / path).exists(), place
        assert not test or f"def {test.partition('[')[0]}(" in (ROOT / "tests" / path).read_text(), place
    assert {place for nodeid in full for place in places(nodeid)} & set(SOAK_ONLY) == set()


def test_every_group_has_its_files(full: list[str]) -> None:
    files = {nodeid.partition("::")[0] for nodeid in full}
    assert set(GROUPS) - files - {file.rpartition("/")[0] for file in files} == set()


def test_what_asks_for_a_session_of_spark_shares_one_process() -> None:
    asking = re.compile(r"\b(apache_hudi(_1_0)?|spark): |local_spark_engine\(|getfixturevalue\(.apache_hudi")
    files = [file.relative_to(ROOT) for file in (ROOT / "tests").rglob("test_*.py") if asking.search(file.read_text())]
    assert len(files) >= 35
    assert len({group_of(f"{file}::test") for file in files}) == 1
