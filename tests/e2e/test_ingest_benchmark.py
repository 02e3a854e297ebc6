"""The ingest benchmark runs and finds the rows it must.

Goal: the benchmark keeps working, and both engines give the right rows in it. Method: its quick form with our two engines
and this environment's Spark; what every run prints about its result is checked, no time is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_quick_form_gives_right_rows_on_both_engines(tmp_path):
    work, results = tmp_path / "work", tmp_path / "results"
    command = [sys.executable, "-m", "benchmarks.ingest", "--quick", "--variants", "spark,local"]
    done = subprocess.run(
        [*command, "--python", sys.executable, "--work", str(work), "--results", str(results)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [(run["batch"], run["variant"], run["rows"]) for run in runs] == [
        ("mix", "spark", 21_000),
        ("mix", "local", 21_000),
        ("upd", "spark", 20_000),
        ("upd", "local", 20_000),
    ]
    assert all(run["correct"] for run in runs)
    assert [json.loads(line) for line in (results / "ingest.jsonl").read_text(encoding="utf-8").splitlines()] == runs
    assert "| `mix` | hudi_ops, local engine |" in (results / "ingest.md").read_text(encoding="utf-8")
