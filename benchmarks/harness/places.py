"""Where things lie that every comparison needs."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INTEROP = ROOT / ".interop"
INTEROP_PYTHON = INTEROP / "venv" / "bin" / "python"
BUNDLE = INTEROP / "jars" / "hudi-spark3.5-bundle_2.12-1.2.0.jar"
RESULTS = ROOT / "benchmarks" / "results"
