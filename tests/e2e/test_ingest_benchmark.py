"""The ingest benchmark runs and finds the rows it must.

Goal: the benchmark keeps working, and every writer that needs no Apache Hudi gives the right rows in it. Method: its quick form
with this environment's Spark; what every run prints about its result is checked, no time is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.bounds import SOAK

ROOT = Path(__file__).resolve().parents[2]
VARIANTS = ["spark", "local", "delta", "floor", "floor-bare"]
ROWS = {"bulk": 20_000, "mix": 21_000, "one": 100, "mor-mix": 21_000}
if SOAK:
    ROWS = {"bulk": 20_000, "mix": 21_000, "ins": 22_000, "upd-1": 20_000, "few": 20_000, "one": 100, "mor-mix": 21_000}


def test_quick_form_gives_right_rows(tmp_path):
    work, results = tmp_path / "work", tmp_path / "results"
    chosen = ["--quick", "--variants", ",".join(VARIANTS), "--cases", ",".join(ROWS)]
    places = ["--python", sys.executable, "--work", str(work), "--results", str(results)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.ingest", *chosen, *places],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [(run["case"], run["variant"], run["rows"]) for run in runs] == [
        (case, variant, rows)
        for case, rows in ROWS.items()
        for variant in VARIANTS
        if variant != "floor-bare" or not case.startswith("mor-")
    ]
    assert all(run["correct"] for run in runs)
    assert [json.loads(line) for line in (results / "ingest.jsonl").read_text(encoding="utf-8").splitlines()] == runs
    report = (results / "INGEST.md").read_text(encoding="utf-8")
    assert "| `mix` | hudi_ops, local engine |" in report
    assert "merge-on-read, local, wall: at least 3x delta-rs MERGE | `mor-mix`" in report
    assert "local, wall: one row in at most 0.08 s" in report
    assert "`one`, local engine: **" in report
