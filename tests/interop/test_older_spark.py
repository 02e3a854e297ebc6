"""Our Spark engine on Spark 3.5, which Apache Hudi's bundle needs: fleets run both releases, and modules moved between them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.interop.apache_hudi import interop_environment

ROOT = Path(__file__).resolve().parents[2]


def test_the_spark_engine_writes_on_spark_3_5(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable, "-m", "benchmarks.ingest", "--quick", "--variants", "spark", "--cases", "few",
            "--work", str(tmp_path / "work"), "--results", str(tmp_path), "--python", str(interop_environment()[0]),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert runs
    assert all(run["correct"] and run["variant"] == "spark" for run in runs)
