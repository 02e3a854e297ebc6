"""The cancel benchmark runs, and every plan that it cancels is aborted.

Goal: the benchmark keeps working. Method: its quick form, without the cases that start Spark or eight writers; what every run
prints about its result is checked, no time is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CASES = ["request", "stop-local", "watcher", "clean", "commit", "compaction-local"]


def test_quick_form_cancels_what_it_says(tmp_path: Path) -> None:
    places = ["--work", str(tmp_path / "work"), "--results", str(tmp_path / "results")]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.cancel",
            "--quick",
            "--rows",
            "1000000",
            "--cases",
            ",".join(CASES),
            *places,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    runs = {run["case"]: run for run in (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))}
    assert list(runs) == CASES
    assert all(run["correct"] for run in runs.values())
    assert runs["watcher"]["threads"] == 1
    assert 0 < runs["watcher"]["calls_per_s"] <= 1
    assert len(runs["clean"]["held_s"]) >= 10, "each removal takes the lock for itself"
    report = (tmp_path / "results" / "CANCEL.md").read_text(encoding="utf-8")
    assert "| request to stopped, local, longest: at most 2 s | `stop-local` |" in report
    assert "anchor, two syncs" in report
