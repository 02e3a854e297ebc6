"""The compaction benchmark runs, and all engines leave the rows they must.

Goal: the benchmark keeps working, and every engine that needs no Apache Hudi compacts to the same rows. Method: its quick forms
with this environment's Spark; every value of every row is checked by the benchmark itself, no time and no goal is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VARIANTS = ["spark", "local", "delta", "floor"]
CASES = {"one-slice": 1, "eight-slices": 8} if os.environ.get("HUDI_OPS_SOAK") else {"eight-slices": 8}


def run(module: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_quick_form_gives_right_rows(tmp_path):
    work, results = tmp_path / "work", tmp_path / "results"
    chosen = ["--quick", "--variants", ",".join(VARIANTS), "--cases", ",".join(CASES)]
    places = ["--python", sys.executable, "--work", str(work), "--results", str(results)]
    out = run("benchmarks.compaction", *chosen, *places)
    runs = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert [(one["case"], one["variant"], one["files"]) for one in runs] == [
        (case, variant, files) for case, files in CASES.items() for variant in VARIANTS
    ]
    assert all(one["correct"] for one in runs)
    assert {one["rows"] for one in runs} == {runs[0]["rows"]}
    assert runs[0]["rows"] < 20_000, "deletes are among the entries"
    lines = (results / "compaction.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == runs
    report = (results / "COMPACTION.md").read_text(encoding="utf-8")
    assert "local, CPU: at most 1.3x the floor | `eight-slices`" in report


def test_kernel_is_measured_and_right():
    out = run("benchmarks.compaction.kernel", "--rows", "20000", "--batch-rows", "2000", "--runs", "1")
    assert "join \u00f7 kernel at least 0.9" in out


def test_memory_of_a_slice_is_measured(tmp_path):
    out = run("benchmarks.compaction.memory", "--rows", "10000", "--times", "2", "--work", str(tmp_path / "work"))
    assert "| 20,000 |" in out
    assert "bounded by the limit" in out
