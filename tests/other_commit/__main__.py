"""Let the code of another commit and the working tree write, read and service the same tables in turn, against a dict.

    .venv/bin/python -m tests.other_commit COMMIT [ROUNDS]

Goal: nothing stored was renamed. Both sides create tables, write to those of the other, read them, execute the compactions that the
other planned, and verify them. The other commit runs with the packages of this environment, from a git worktree that is removed at
the end. Prints a line a table; exits with 1 at the first difference.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.other_commit.checkout import ROOT, code_of

PLAYER = Path(__file__).with_name("play.py")
TABLES = [
    ("cow", "bucket", False),
    ("cow", "bucket", True),
    ("cow", "bloom", True),
    ("cow", "record_index", True),
    ("mor", "bucket", False),
    ("mor", "bucket", True),
    ("mor", "simple", True),
    ("mor", "record_index", True),
]

KNOWN = "key-in-two-groups"
"""Earlier commits say so of a key that a log file deleted and a later write put into another file group."""


class Player:
    """A process with one commit's code."""

    def __init__(self, code: Path) -> None:
        self.is_here = code == ROOT
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("HUDI_OPS_", "PYTHON"))
        }
        self._process = subprocess.Popen(
            [sys.executable, str(PLAYER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment | {"PYTHONPATH": str(code)},
        )
        loaded = self._answer()
        if not loaded.startswith(f"{code}/"):
            raise RuntimeError(f"expected hudi_ops of {code}, loaded {loaded}")

    def __call__(self, *command: object) -> Any:
        """Send a command and return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the player ended with exit code {self._process.wait(30)}; its error is above")
        return json.loads(line)

    def stop(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def play(path: str, sides: list[Player], table: tuple[str, str, bool], rounds: int, dice: random.Random) -> int:
    """Play one table; returns how many compactions one side planned and the other executed."""
    model: dict[str, int] = {}
    kind, _, metadata = table
    handed_over = 0
    sides[0]("create", path, *table)
    for number in range(rounds):
        one, other = (sides[number % 2], sides[(number + 1) % 2])
        ids = [f"k{n}" for n in dice.sample(range(40), 12)]
        rows = [
            {"id": key, "part": f"p{int(key[1:]) % 3}", "value": number * 100 + n, "ts": number}
            for n, key in enumerate(ids)
        ]
        one("write", path, "upsert", rows)
        model |= {row["id"]: row["value"] for row in rows}
        gone = [
            {"id": key, "part": f"p{int(key[1:]) % 3}", "value": 0, "ts": number}
            for key in dice.sample(sorted(model), 2)
        ]
        other("write", path, "delete", gone)
        for row in gone:
            del model[row["id"]]
        if kind == "mor" and number % 3 == 1:
            handed_over += one("plan", path) and other("execute", path)
        if metadata and number == rounds // 2:
            one("build", path, ["column_stats"])
        for side in (other, one):
            found = side("read", path)
            assert found["rows"] == model, (number, table)
            assert found["count"] == len(model) <= found["changes"], (number, found)
            findings = [one for one in found["findings"] if side.is_here or KNOWN not in one]
            assert findings == [], (number, findings)
    return handed_over


def main(commit: str, rounds: str = "8") -> int:
    """Play every kind of table, begun by each side."""
    with code_of(commit) as code, tempfile.TemporaryDirectory() as folder:
        sides = [Player(code), Player(ROOT)]
        for number, table in enumerate(TABLES):
            for first in (0, 1):
                path = str(Path(folder) / f"{number}-{first}")
                handed_over = play(path, sides[first:] + sides[:first], table, int(rounds), random.Random(number))
                creator = commit if first == 0 else "the working tree"
                print(
                    f"equal: {table}, created by {creator}, {rounds} rounds, {handed_over} plans handed over",
                    flush=True,
                )
        for side in sides:
            side.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
