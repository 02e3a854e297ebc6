"""Which test files share a process, their order, and the thirds of the suite that `bin/test --ci` takes in turn.

A file is a group of its own, unless it asks for a session of Spark that other files use, too: those of one kind share a process, so
that each session starts once in a run. The groups that take longest are given to the workers first.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from xdist.scheduler.loadscope import LoadScopeScheduling

from tests.durations import COSTS, file_of

ROOT = Path(__file__).resolve().parents[1]
THIRDS = 3

_VERSION_8 = re.compile(r"\bapache_hudi_1_0\b|\bRELEASE_OF_VERSION_8\b")
_SPARK = re.compile(r"\b(apache_hudi|spark|engines): |local_spark_engine\(|getfixturevalue\(.apache_hudi")


@cache
def group_of_file(file: str) -> str:
    """Return the group of a test file: the sessions that it asks for, or the file itself."""
    if file.startswith("tests/meta/") or not (ROOT / file).exists():
        return file  # tests about the tests name these fixtures, and use none
    text = (ROOT / file).read_text(encoding="utf-8")
    if _VERSION_8.search(text):
        return "sessions of Spark with Apache Hudi for table version 8"
    return "other sessions of Spark" if _SPARK.search(text) else file


def group_of(nodeid: str) -> str:
    """Return the group of a test."""
    return group_of_file(file_of(nodeid))


def longest_first(files: Iterable[str], tier: str) -> dict[str, tuple[float, str]]:
    """Return a sort key for each file: its group by wall seconds, the longest first."""
    files = sorted(set(files))  # sums of floats depend on their order, and all workers must order alike
    walls: dict[str, float] = defaultdict(float)
    for file in files:
        walls[group_of_file(file)] += COSTS.wall_s(file, tier)
    return {file: (-walls[group_of_file(file)], group_of_file(file)) for file in files}


@cache
def thirds() -> dict[str, int]:
    """Deal all test files to three parts of about the same wall seconds, those that need one kind of session evenly."""
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    of_group: dict[tuple[int, str], float] = defaultdict(float)
    of_third: dict[int, float] = defaultdict(float)
    dealt = {}
    # Files that share a session come first, each third gets as much of them; the other files then even out the sums.
    for file in sorted(files, key=lambda file: (group_of_file(file) == file, -COSTS.wall_s(file, "full"))):
        group, seconds = group_of_file(file), max(COSTS.wall_s(file, "full"), 0.1)
        third = min(range(THIRDS), key=lambda third: (of_group[third, group], of_third[third]))
        dealt[file] = third
        of_group[third, group] += seconds
        of_third[third] += seconds
    return dealt


class GroupScheduling(LoadScopeScheduling):
    """Give a worker one group after another, whole."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
