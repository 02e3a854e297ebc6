"""Remove each guard of the table from a copy of the repository, run the tests named for it, and print which test failed.

    .venv/bin/python -m tests.guards              # all of them, two at a time, in tens of minutes
    .venv/bin/python -m tests.guards epoch quote  # those whose name holds one of these words

The tests run with the bounds of the full tier. Exit code 1 when a guard was removed and no test failed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.guards.table import GUARDS, Guard

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 900
COPIES = 2
"""Number of guards that are removed at a time, each from a copy of its own."""
TESTS_FAILED = 1


def copy_repository(target: Path) -> None:
    """Copy what tests need; the product is imported from the copy, since pytest puts its own root first."""
    left_out = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, target, ignore=left_out, dirs_exist_ok=True)


def removed(guard: Guard, copy: Path) -> str:
    """Run the tests without the guard; returns the first that failed, empty when none did."""
    file = copy / guard.file
    body = file.read_text(encoding="utf-8")
    if body.count(guard.text) != 1:
        raise ValueError(f"{guard.file} holds the text of {guard.name!r} {body.count(guard.text)} times")
    file.write_text(body.replace(guard.text, guard.without), encoding="utf-8")
    try:
        done = run_tests(copy, *guard.tests)
    finally:
        file.write_text(body, encoding="utf-8")
    if done.returncode not in {0, TESTS_FAILED}:
        raise RuntimeError(f"{guard.name}: pytest ended with {done.returncode}\n{done.stdout[-3_000:]}")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+::[^\n]*?)(?: - .*)?$", done.stdout, re.MULTILINE)
    return (failed[1] if failed else "?") if done.returncode else ""


def run_tests(copy: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in the copy until a test fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tier=full", *tests]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(copy)}
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=LIMIT_S)


def main(words: list[str]) -> int:
    """Print a row for each guard; returns the exit code."""
    chosen = [one for one in GUARDS if not words or any(word in one.name for word in words)]
    copies: SimpleQueue[Path] = SimpleQueue()

    def found_by(guard: Guard) -> str:
        copy = copies.get()
        try:
            return removed(guard, copy)
        finally:
            copies.put(copy)

    unseen = 0
    with tempfile.TemporaryDirectory(prefix="guards-") as folder, ThreadPoolExecutor(COPIES) as pool:
        for number in range(COPIES):
            copy_repository(Path(folder) / str(number))
            copies.put(Path(folder) / str(number))
        print("| guard removed | from | found by |\n| --- | --- | --- |", flush=True)
        for guard, found in zip(chosen, pool.map(found_by, chosen), strict=True):
            unseen += not found
            print(f"| {guard.name} | `{guard.file}` | {f'`{found}`' if found else '**no test**'} |", flush=True)
    print(f"{len(chosen) - unseen} of {len(chosen)} found")
    return 1 if unseen else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
