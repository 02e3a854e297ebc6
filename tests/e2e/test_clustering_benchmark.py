"""The clustering benchmark runs, and all engines leave the rows they must, in order.

Goal: the benchmark keeps working, and every engine that needs no Apache Hudi sorts the same rows. Method: its quick form; rows and
order are checked by the benchmark itself, no time and no goal is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = [
    ("sort", "local", 8),
    ("sort", "floor", 8),
    ("z-order", "local", 8),
    ("z-order", "delta", 8),
    ("box-hilbert", "local", 50),
]


def test_quick_form_gives_right_rows(tmp_path: Path) -> None:
    chosen = ["--quick", "--variants", "local,delta,floor", "--cases", "sort,z-order,box-hilbert"]
    places = ["--work", str(tmp_path / "work"), "--results", str(tmp_path / "results")]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.clustering", *chosen, *places],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [(one["case"], one["variant"], one["files"]) for one in runs] == EXPECTED
    assert {(one["correct"], one["rows"]) for one in runs} == {(True, 20_000)}
    assert runs[-1]["box_share"] <= 0.4
    report = (tmp_path / "results" / "CLUSTERING.md").read_text(encoding="utf-8")
    assert "local, CPU: at most 1.4x the floor | `sort`" in report
