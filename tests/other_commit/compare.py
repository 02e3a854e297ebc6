"""Play the same history with the code of two commits, and compare every file of storage after each call.

    .venv/bin/python -m tests.other_commit.compare COMMIT [OTHER] [TABLE ...]

Goal: a refactoring writes the same bytes. OTHER is a commit, or `.` (as without it) for the working tree. Prints a line for each
table; where files differ, the first such call with its files. Exits with 1 if any table differs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.other_commit.checkout import ROOT, code_of

PLAYER = Path(__file__).with_name("history.py")
SHOWN = 12
"""Number of files that are shown of a call."""

Call = tuple[str, str, dict[str, str]]
"""Name of a call, its outcome, and the sha256 of each file after it, by path."""


@dataclass(frozen=True)
class Difference:
    """The first call after which two histories differ, with a line for its outcome and for each file."""

    call: str
    lines: tuple[str, ...]


def first_difference(before: list[Call], after: list[Call], bodies: Path) -> Difference | None:
    """Return the first difference of two histories of one table; None: they are equal."""
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        (name, outcome, files), (other_name, other_outcome, other_files) = old, new
        changed = sorted(path for path in files.keys() | other_files.keys() if files.get(path) != other_files.get(path))
        lines = [f"{path}: {_change(files.get(path), other_files.get(path), bodies)}" for path in changed]
        if outcome != other_outcome:
            lines.insert(0, f"{outcome} -> {other_outcome}")
        if lines or name != other_name:
            return Difference(f"{number} {name}", tuple(lines))
    return None


def _change(sha: str | None, other: str | None, bodies: Path) -> str:
    if sha is None or other is None:
        return "appears" if sha is None else "is gone"
    old, new = ((bodies / each).read_bytes() for each in (sha, other))
    at = next((at for at, (left, right) in enumerate(zip(old, new, strict=False)) if left != right), 0)
    first, last = max(0, at - 60), at + 60
    return f"differs at byte {at} of {len(old)} and {len(new)}:\n      {old[first:last]!r}\n      {new[first:last]!r}"


def histories(code: Path, bodies: Path, tables: tuple[str, ...]) -> Iterator[tuple[str, list[Call]]]:
    """Play the histories with one commit's code; yield those of each table."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HUDI_OPS_", "PYTHON"))}
    command = [sys.executable, str(PLAYER), str(bodies), *tables]
    environment |= {"PYTHONPATH": str(code), "PYTHONHASHSEED": "0"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        loaded = json.loads(process.stdout.readline() or '"nothing"')
        if not loaded.startswith(f"{code}/"):
            raise RuntimeError(f"expected hudi_ops of {code}, loaded {loaded}")
        for line in process.stdout:
            name, calls = json.loads(line)
            yield name, calls
    if process.returncode:
        raise RuntimeError(f"the player of {code} ended with exit code {process.returncode}; its error is above")


def main(commit: str, other: str = ".", *tables: str) -> int:
    """Compare the histories of all tables, or of the named ones."""
    differ = 0
    with ExitStack() as stack:
        bodies = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        codes = [ROOT if each == "." else stack.enter_context(code_of(each)) for each in (commit, other)]
        sides: Any = (histories(code, bodies, tables) for code in codes)
        for (name, before), (_, after) in zip(*sides, strict=True):
            files = len({path for _, _, held in before for path in held})
            difference = first_difference(before, after, bodies)
            if difference is None:
                print(f"equal: {name}, {len(before)} calls, {files} files", flush=True)
                continue
            differ += 1
            print(f"different: {name}, after call {difference.call} of {len(before)}")
            print(*(f"    {line}" for line in difference.lines[:SHOWN]), sep="\n", flush=True)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
