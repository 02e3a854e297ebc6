"""The metadata benchmark runs, and what it makes is right.

Goal: the benchmark keeps working. Method: its smallest forms without Apache Hudi; the benchmark itself compares rows, records and
listings, and what it prints is checked, no time and no goal is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WRITES, BUILDS = ["mor-one"], {"record-index": 20_000}
if os.environ.get("HUDI_OPS_SOAK"):
    WRITES, BUILDS = ["one", "mor-one", "upd", "mor-upd"], {"record-index": 20_000, "column-stats": 16 * 13}


def run(module: str, *arguments: str) -> tuple[str, list[dict[str, object]]]:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_quick_form_gives_right_rows_and_records(tmp_path):
    chosen = ["--quick", "--variants", "local,local-without,local-hudi", "--cases", ",".join([*WRITES, *BUILDS])]
    _, runs = run("benchmarks.metadata", *chosen, "--work", str(tmp_path / "work"), "--results", str(tmp_path))
    assert [(one["case"], one["variant"]) for one in runs] == [
        *((case, variant) for case in WRITES for variant in ("local", "local-without")),
        *((case, "local") for case in BUILDS),
    ]
    assert all(one["correct"] for one in runs)
    assert {one["case"]: one["records"] for one in runs if "records" in one} == BUILDS
    kept = {one["case"] for one in runs if one["metadata_files"]}
    assert kept == {*WRITES, *BUILDS}
    assert not any(one["metadata_files"] for one in runs if one["variant"] == "local-without")
    report = (tmp_path / "METADATA.md").read_text(encoding="utf-8")
    assert "| one row, wall: at most 0.2 s | `mor-one` |" in report


def test_listings_are_the_same_and_measured(tmp_path):
    places = ["--work", str(tmp_path / "work"), "--results", str(tmp_path)]
    out, runs = run("benchmarks.metadata.listing", "--files", "150", "--runs", "1", *places)
    assert [(one["case"], one["variant"]) for one in runs] == [
        (case, variant) for case in ("all-150", "one-150") for variant in ("metadata", "storage")
    ]
    assert "| `all-150` | storage |" in out


def test_reads_give_the_same_rows_and_are_measured(tmp_path):
    places = ["--work", str(tmp_path / "work"), "--results", str(tmp_path)]
    out, runs = run("benchmarks.metadata.skipping", "--rows", "4000", "--commits", "2", "--runs", "1", *places)
    assert list(dict.fromkeys(one["case"] for one in runs)) == ["key", "minute", "day", "everything"]
    of_key = next(line for line in out.splitlines() if line.startswith("| `key` | metadata |"))
    assert "| 1 | 1 | 1 | record_index " in of_key, "one row, of the one file that is opened"


def test_builds_as_a_service_are_measured(tmp_path):
    sizes = ["--files", "200", "--commits", "2", "--rows", "2000", "--missing", "3", "--runs", "1", "--warmup", "0"]
    places = ["--work", str(tmp_path / "work"), "--results", str(tmp_path)]
    out, runs = run("benchmarks.metadata.builds", "--cases", "planning,beside-writers,lock-calls", *sizes, *places)
    assert all(one["correct"] for one in runs)
    assert {one["case"]: one["commits"] > 0 for one in runs if one["variant"] == "beside"} == {"beside-writers": True}
    assert {one["variant"]: one["calls"] > 0 for one in runs if one["case"] == "lock-calls"} == dict.fromkeys(
        ("alone", "missing", "line"), True
    )
    assert "| plan of a build, wall: at most 0.1 s | `planning` |" in out


def test_ingestion_beside_a_build_is_measured(tmp_path):
    sizes = ["--rows", "2000", "--batch-rows", "200", "--commits", "20", "--missing", "2", "--runs", "1"]
    places = ["--work", str(tmp_path / "work"), "--results", str(tmp_path)]
    out, runs = run("benchmarks.metadata.ingestion", *sizes, "--warmup", "0", *places)
    assert {one["variant"] for one in runs} == {"alone", "beside", "elsewhere", "indexed", "catch-up"}
    assert all(one["correct"] for one in runs)
    assert "| catch-up, CPU: at least 5x the throughput of ingestion | `catch-up` |" in out
