"""The quick tier is a subset of the full one, and its table names tests that are there.

Goal: a test that is renamed does not slip into quick or out of sight. Method: the ids that pytest collects for each tier.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.groups import GROUPS, group_of
from tests.tiers import LEFT_OUT, places

ROOT = Path(__file__).resolve().parents[2]


def collected(*arguments: str) -> list[str]:
    """Return the ids that pytest collects, as a process of its own: the tier is read when modules are imported."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HUDI_OPS_", "PYTEST_"))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    return [line for line in done.stdout.splitlines() if line.startswith("tests/") and "::" in line]


@pytest.fixture(scope="module")
def full() -> list[str]:
    """Without a tier every test is selected, with the bounds of the full one."""
    return collected()


def test_quick_is_a_subset_of_full(full: list[str]) -> None:
    quick = collected("--tier=quick")
    assert set(quick) <= set(full)
    assert len(quick) >= 0.85 * len(full)
    # A kind of test is in quick, if not each of them: nothing of these folders is left out whole.
    folders = {nodeid.split("/")[1] for nodeid in quick}
    assert folders >= {"unit", "meta", "corruption", "property", "protocol", "storage", "airflow", "interop", "e2e"}


def test_every_place_that_quick_leaves_out_is_there(full: list[str]) -> None:
    there = {place for nodeid in full for place in places(nodeid)}
    assert set(LEFT_OUT) - there == set()


def test_every_group_has_its_files(full: list[str]) -> None:
    files = {nodeid.partition("::")[0] for nodeid in full}
    assert set(GROUPS) - files == set()
    assert {group_of(f"{file}::test") for file in files - set(GROUPS)} == files - set(GROUPS)
