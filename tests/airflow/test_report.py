"""The log of a task: lines keep the level that the application gave them, and a result is said as a sentence first."""

from __future__ import annotations

import logging

import pytest


def test_lines_of_applications_and_of_spark_keep_their_level() -> None:
    from hudi_ops.plugins.hudi_ops_report import LineLevels

    lines = {
        "2026-11-23 06:31:00,123 INFO hudi_ops.app: files: 3 of 9 done": logging.INFO,
        "2026-11-23 06:31:01,123 WARNING hudi_ops.app: dropped partitions": logging.WARNING,
        "2026-11-23 06:31:02,123 ERROR hudi_ops.app: no such folder": logging.ERROR,
        "  expected a folder, found nothing": logging.ERROR,
        "  Next: correct the path": logging.ERROR,
        "26/11/23 06:31:03 WARN NativeCodeLoader: Unable to load": logging.WARNING,
        "26/11/23 06:31:04 ERROR Executor: Exception in task 0.0": logging.ERROR,
        "\tat java.base/java.lang.Thread.run(Thread.java:840)": logging.ERROR,
        "": logging.INFO,
        "Setting default log level": logging.INFO,
    }
    levels = LineLevels()
    assert {line: levels.level_of(line + "\n") for line in lines} == lines


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (
            {
                "app": "ingest",
                "table": "trips",
                "instant": "20261123063100123",
                "rows_in": 1200,
                "files": 1,
                "inserted": 1000,
                "updated": 200,
                "deleted": 0,
                "seconds": 2.345,
            },
            "Ingested 1,200 rows (1,000 inserted, 200 updated) from 1 file into trips in 2.3 s, instant 20261123063100123",
        ),
        (
            {"app": "ingest", "table": "trips", "instant": None, "note": "nothing new: 3 files were taken before"},
            "trips: nothing new: 3 files were taken before",
        ),
        (
            {"app": "compact", "table": "t", "instant": "2", "verdicts": [], "counts": {"planned": 2}, "seconds": 0.1},
            "Planned the compaction of 2 file groups of t in 0.1 s, instant 2",
        ),
        (
            {"app": "compact", "table": "t", "instant": "2", "slices": 1, "log_files": 3, "rows": 9, "seconds": 1},
            "Compacted 3 log files into 1 base file with 9 rows of t in 1.0 s, instant 2",
        ),
        (
            {"app": "compact", "table": "t", "instant": "2", "slices": 0, "note": "it was completed before"},
            "t, instant 2: it was completed before",
        ),
        (
            {
                **{
                    "app": "cluster",
                    "table": "t",
                    "instant": "2",
                    "groups": 8,
                    "left_out": 2,
                    "replaced": 9,
                    "files": 1,
                },
                **{"rows": 5, "seconds": 1},
            },
            "Clustered 9 file groups into 1 file with 5 rows of t in 1.0 s, instant 2; left out 2 of 10 plan groups, which writes "
            "touched",
        ),
        (
            {
                **{"app": "resize", "table": "t", "instant": "2", "groups": 2, "left_out": 1},
                **{"replaced": 3, "files": 4, "rows": 5, "seconds": 1},
            },
            "Resized 3 buckets into 4 buckets with 5 rows of t in 1.0 s, instant 2; left out 1 of 3 plan groups, which writes "
            "touched",
        ),
        (
            {
                **{"app": "resize", "table": "t", "instant": "2", "verdicts": []},
                **{"counts": {"planned": 2}, "seconds": 0.1},
            },
            "Planned the resize of 2 file groups of t in 0.1 s, instant 2",
        ),
        (
            {
                "app": "cluster",
                "table": "t",
                "instant": "2",
                "groups": 0,
                "note": "nothing completed: all were touched",
            },
            "t, instant 2: nothing completed: all were touched",
        ),
        (
            {"app": "clean", "table": "t", "instant": "2", "verdicts": [], "counts": {"planned": 4}, "seconds": 0.1},
            "Planned the deletion of 4 files of t in 0.1 s, instant 2",
        ),
        (
            {"app": "clean", "table": "t", "instant": "2", "deleted": 4, "held_back": 1, "seconds": 1},
            "Deleted 4 files, 1 file held back of t in 1.0 s, instant 2",
        ),
        (
            {"app": "clean", "table": "t", "instant": "2", "deleted": 0, "note": "it was completed before"},
            "t, instant 2: it was completed before",
        ),
        (
            {"app": "clean", "table": "t", "cancelled": ["1"], "removed": ["1", "2"], "waiting": []},
            "t: 1 plan cancelled, 2 plans removed, 0 plans waiting",
        ),
        (
            {
                "app": "cancel",
                "table": "t",
                "cancelled": [],
                "removed": [],
                "waiting": [],
                "note": "no plan is overdue",
            },
            "t: no plan is overdue",
        ),
        (
            {"app": "cancel", "table": "t", "instant": "3", "action": "compaction", "reason": "not now", "files": 2},
            "Cancelled compaction 3 of t: not now, 2 files deleted",
        ),
        (
            {"app": "archive", "table": "t", "instants": 1, "boundary": "2", "kept": 20},
            "Archived 1 instant of t up to 2, 20 instants left on the timeline",
        ),
        (
            {"app": "archive", "table": "t", "instants": 0, "note": "20 writes are kept"},
            "t: 20 writes are kept",
        ),
        (
            {"app": "index", "table": "t", "instant": "3", "partitions": ["files", "bloom_filters"], "files": 2},
            "Built files, bloom_filters from 2 files in the metadata table of t, instant 3",
        ),
        (
            {
                "app": "index",
                "table": "t",
                "instant": "3",
                "partitions": ["files"],
                "files": 2,
                "rounds": 1,
                "verdicts": {"carried": 3, "applied": 1},
                "waited_for": ["waited for commit 2 of a foreign writer"],
            },
            "Built files from 2 files in the metadata table of t, instant 3; 1 round of catch-up, 1 applied, 3 carried; "
            "it waited for commit 2 of a foreign writer",
        ),
        (
            {"app": "index", "table": "t", "instant": "3", "verdicts": [], "note": "builds files"},
            "Planned index build 3 of t: builds files",
        ),
        (
            {"app": "verify", "table": "t", "findings": [], "checks": {"a": 4, "b": 5}},
            "Verified t: no error, 0 findings, 9 things checked",
        ),
        ({"app": "recover", "table": "t", "rolled_back": [], "left": []}, "t: nothing to recover"),
        (
            {"app": "recover", "table": "t", "rolled_back": [{"instant": "4"}], "left": []},
            "Recovered t: 1 write rolled back (4), 0 pending left alone",
        ),
        ({"app": "own", "ok": True}, "own succeeded"),
    ],
)
def test_a_result_is_a_sentence(result: dict, said: str) -> None:
    from hudi_ops.plugins.hudi_ops_report import sentence

    assert sentence(result) == said
