"""Compare the tests that pytest collects now with those of commit eb2696b: full holds all of them, and quick is a subset of full.

    .venv/bin/python -m tests.meta.compare_ids

`renamed_tests.tsv` maps what was moved or renamed, a line each: the beginning of an id before, and after; the longest fit counts.
"""

from __future__ import annotations

import csv
import lzma
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BASELINE = HERE / "ids_of_eb2696b.txt.xz"


def collected(tier: str) -> list[str]:
    """Return the ids of a tier. pytest runs in a process of its own, since modules read the tier when they are imported."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", f"--tier={tier}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HUDI_OPS_", "PYTEST_"))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500)
    if done.returncode:
        raise RuntimeError(f"pytest collected nothing: {done.stdout[-2_000:]}{done.stderr[-2_000:]}")
    return [line for line in done.stdout.splitlines() if line.startswith("tests/") and "::" in line]


def baseline() -> list[str]:
    """Return the ids of the starting commit, under their names of today."""
    with (HERE / "renamed_tests.tsv").open(encoding="utf-8", newline="") as file:
        renamed = [(row["before"], row["after"]) for row in csv.DictReader(file, delimiter="\t")]
    renamed.sort(key=lambda pair: len(pair[0]), reverse=True)
    return [today(nodeid, renamed) for nodeid in lzma.decompress(BASELINE.read_bytes()).decode().splitlines()]


def today(nodeid: str, renamed: list[tuple[str, str]]) -> str:
    """Return the name that a test has today: the beginning of its id is replaced where that ends at a folder, file or case."""
    for before, after in renamed:
        rest = nodeid.removeprefix(before)
        if nodeid.startswith(before) and (not rest or before.endswith("/") or rest[0] in "/:["):
            return after + rest
    return nodeid


def main() -> int:
    """Print what is missing; returns the exit code."""
    before, full, quick = baseline(), collected("full"), collected("quick")
    missing, strange = sorted(set(before) - set(full)), sorted(set(quick) - set(full))
    for nodeid in missing:
        print(f"not in full: {nodeid}")
    for nodeid in strange:
        print(f"in quick, not in full: {nodeid}")
    print(f"baseline {len(before)}, full {len(full)} ({len(set(full) - set(before))} new), quick {len(quick)}")
    return 1 if missing or strange else 0


if __name__ == "__main__":
    raise SystemExit(main())
