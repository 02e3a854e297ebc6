"""Which test files run in one process, so that each release of Apache Hudi and our own Spark start once in a run.

A file is a group of its own unless the table below names it. The groups are given to the workers in the order of collection.
"""

from __future__ import annotations

from xdist.scheduler.loadscope import LoadScopeScheduling

_PEERS = "sessions of Spark"
"""One group, not one for each release: many files ask Apache Hudi 1.1 and 1.0, and some beside our own Spark."""

GROUPS: dict[str, str | None] = {
    "tests/interop": _PEERS,
    "tests/interop/test_compare.py": None,
    "tests/interop/test_covering_reads.py": None,
    "tests/interop/test_log_files.py": None,
    "tests/interop/test_mixed_fleet.py": None,
    "tests/interop/test_older_spark.py": None,
    "tests/e2e/test_datasource.py": _PEERS,
    "tests/e2e/test_spark_engine.py": _PEERS,
    "tests/e2e/test_spark_frames.py": _PEERS,
    "tests/e2e/test_spark_object_store.py": _PEERS,
    "tests/e2e/test_spark_stop.py": _PEERS,
    "tests/e2e/test_spark_writer.py": _PEERS,
    "tests/property/test_merge_on_read_spark.py": _PEERS,
    "tests/property/test_table_model_spark.py": _PEERS,
    "tests/services/row_count/test_row_count.py": _PEERS,
}
"""Folder or file -> its group; None: a file of such a folder that starts nothing, or processes of its own."""


def group_of(nodeid: str) -> str:
    """Return the group of a test: that of its file or else of its folder, or the file itself."""
    file = nodeid.partition("::")[0]
    return GROUPS.get(file, GROUPS.get(file.rpartition("/")[0])) or file


class GroupScheduling(LoadScopeScheduling):
    """Give a worker one group after another, whole."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
