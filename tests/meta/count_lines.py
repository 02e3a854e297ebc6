"""Print how many lines the product and its first services have, and how that compares with the commit before the house issue.

    .venv/bin/python -m tests.meta.count_lines [COMMIT]

Lines are counted whole: code, docstrings, comments and blank lines. COMMIT is `eb2696b` unless it is given; a clone without it,
such as a shallow one, prints today's counts only.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BASELINE = "eb2696b"
LIMITS = {"toy service": 120, "tests of the toy": 150, "compaction": 1_500}
PARTS = {
    "toy service": ("tests/services/row_count/row_count.py",),
    "tests of the toy": ("tests/services/row_count/test_row_count.py",),
    "compaction": (
        "hudi_ops/services/compaction",
        "hudi_ops/cli/services/compact.py",
        "spark_apps/compact.py",
        "dags/compaction.py",
    ),
}


def lines_of(place: str) -> int:
    """Return the number of lines of a file, or of all Python files below a folder."""
    path = ROOT / place
    return sum(
        len(file.read_text(encoding="utf-8").splitlines())
        for file in ([path] if path.is_file() else path.rglob("*.py"))
    )


def kinds(source: str) -> Counter[str]:
    """Return the lines of a module: all, those of docstrings, and those that are neither docstring, comment nor blank."""
    text = source.splitlines()
    strings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            strings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    rest = [line.strip() for number, line in enumerate(text, 1) if number not in strings]
    return Counter(
        lines=len(text), docstrings=len(strings), code=sum(bool(line) and not line.startswith("#") for line in rest)
    )


def product(commit: str | None = None) -> Counter[str]:
    """Return the lines of `hudi_ops`, in the working tree or at a commit. Raises CalledProcessError for a commit that git lacks."""
    if commit is None:
        sources = [file.read_text(encoding="utf-8") for file in (ROOT / "hudi_ops").rglob("*.py")]
    else:
        names = _git("ls-tree", "-r", "--name-only", commit, "hudi_ops").split("\n")
        sources = [_git("show", f"{commit}:{name}") for name in names if name.endswith(".py")]
    return sum(map(kinds, sources), Counter())


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main(commit: str = BASELINE) -> int:
    """Print the counts; returns 1 when a part is over its limit."""
    counts = {name: sum(map(lines_of, places)) for name, places in PARTS.items()}
    for name, count in counts.items():
        print(f"{name:18} {count:6,} lines, limit {LIMITS[name]:,}")
    now = product()
    print(f"{'hudi_ops':18} {now['lines']:6,} lines: {now['docstrings']:,} of docstrings, {now['code']:,} of code")
    try:
        before = product(commit)
    except subprocess.CalledProcessError:
        print(f"this clone has no commit {commit} to compare with")
    else:
        differences = ", ".join(f"{kind} {now[kind] - before[kind]:+,}" for kind in now)
        print(f"since {commit:12} {differences}")
    return int(any(count >= LIMITS[name] for name, count in counts.items()))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
