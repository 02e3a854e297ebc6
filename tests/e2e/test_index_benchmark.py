"""The index benchmark runs, and every result is right.

Goal: the benchmark keeps working without Apache Hudi. Method: its quick form; results are checked by the benchmark itself, no time
and no goal is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = [
    *(("tagging-64", name) for name in ("simple", "consistent", "resized", "bloom")),
    ("dual-others", "alone"),
    ("dual-others", "beside"),
    ("resize-logs", "local"),
]


def test_quick_form_gives_right_results(tmp_path: Path) -> None:
    chosen = ["--quick", "--cases", "tagging-64,dual-others,resize-logs"]
    chosen += ["--variants", "simple,consistent,resized,bloom,alone,beside,local"]
    places = ["--work", str(tmp_path / "work"), "--results", str(tmp_path / "results")]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.index", *chosen, *places],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [(one["case"], one["variant"]) for one in runs] == EXPECTED
    assert all(one["correct"] for one in runs)
    report = (tmp_path / "results" / "INDEX.md").read_text(encoding="utf-8")
    assert "consistent tagging, CPU: at most 1.1x simple | `tagging-64`" in report
