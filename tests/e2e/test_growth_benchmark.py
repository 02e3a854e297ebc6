"""The growth benchmark runs, and its tables hold what was written.

Goal: the benchmark keeps working. Method: its quick form; what every run prints about its result is checked, no time is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_quick_form_measures_tables_that_hold_the_last_row(tmp_path: Path) -> None:
    places = ["--work", str(tmp_path / "work"), "--results", str(tmp_path / "results")]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth", "--quick", "--cases", "cow,mor-metadata", *places],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    *runs, ledgers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [run["case"] for run in runs] == ["cow", "mor-metadata"]
    assert all(run["correct"] and run["names"] > 3 * 30 and len(run["parts"]) == 2 for run in runs)
    assert 0 < ledgers["bytes"] < 50 * 1_200
    report = (tmp_path / "results" / "GROWTH.md").read_text(encoding="utf-8")
    assert "| `mor-metadata` |" in report


def test_quick_form_with_services_keeps_the_timeline_and_ledgers_small(tmp_path: Path) -> None:
    places = ["--work", str(tmp_path / "work"), "--results", str(tmp_path / "results")]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth.services", "--quick", "--cases", "mor-metadata,files", *places],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    logged, files = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert logged["correct"]
    assert files["correct"]
    (early, first), *_, (late, last) = files["moments"]
    assert (early, late) == (30, 130)
    assert last["timeline"][0] < 2 * first["timeline"][0]
    assert first["slots"][0] < last["slots"][0]
    assert last["ledgers"][1] < 130 * 200
    assert logged["moments"][-1][1]["metadata table: timeline"][0] < 130
    assert "| ledgers |" in (tmp_path / "results" / "SERVICES.md").read_text(encoding="utf-8")
