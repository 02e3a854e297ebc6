"""Which test files run in one process, so that each release of Apache Hudi and our own Spark start once in a run.

A file is a group of its own unless the table below names it. The groups are given to the workers in the order of collection.
"""

from __future__ import annotations

from xdist.scheduler.loadscope import LoadScopeScheduling

GROUPS: dict[str, str] = {}


def group_of(nodeid: str) -> str:
    """Return the group of a test: that of the longest path in the table that holds its file, or the file itself."""
    file = nodeid.partition("::")[0]
    parents = [path for path in GROUPS if file == path or file.startswith(f"{path}/")]
    return GROUPS[max(parents, key=len)] if parents else file


class GroupScheduling(LoadScopeScheduling):
    """Give a worker one group after another, whole."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
