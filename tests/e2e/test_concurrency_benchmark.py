"""The concurrency benchmark runs, and every commit that it counts is in the table.

Goal: the benchmark keeps working. Method: its quick form, our writers alone over a real ZooKeeper; what every run prints about its
result is checked, no time is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CASES = ["alone", "alone-in-process", "disjoint-4", "same-8"]


def test_quick_form_counts_commits_that_are_there(tmp_path: Path) -> None:
    places = ["--work", str(tmp_path / "work"), "--results", str(tmp_path / "results")]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.concurrency", "--quick", "--cases", ",".join(CASES), *places],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [run["case"] for run in runs] == CASES
    assert all(run["correct"] for run in runs)
    assert all(run["calls_under_lock"] < run["calls_per_commit"] for run in runs)
    report = (tmp_path / "results" / "CONCURRENCY.md").read_text(encoding="utf-8")
    assert "| one-row commit, the whole transaction: at most 0.08 s | `alone` |" in report
    assert "| put_if_absent slot | 1 | 1 |" in report
    assert "list_folder partition | 1 | 0 |" in report, "no partition is listed under the lock"
