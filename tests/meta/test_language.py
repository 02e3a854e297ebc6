"""Docstrings, comments and messages in plain technical English, as far as a test can tell.

Goal: nobody has to read a sentence twice. Method: the first line of each docstring is short, functions begin with a verb (ruff's
D401), and words that stand for riddles are not used. These are floors: a sentence that avoids the words and still has to be read
twice is rewritten.

`UNWRITTEN` holds the packages that are still to be rewritten, with the number of offences in each. A number may only go down; a
package without offences leaves the table.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_FIRST_LINE = 90
WORDS = re.compile(r"\b(?:whoever|nobody|somebody|what is left|at it|so many|of one's own)\b(?!-)", re.IGNORECASE)
PLACES = ("hudi_ops", "dags", "plugins", "spark_apps", "README.md", "docs")

UNWRITTEN: dict[str, int] = {
    "hudi_ops/services": 290,
}


def package(file: Path) -> str:
    """`hudi_ops/commit` of a file somewhere below it; other places by their first part."""
    parts = file.relative_to(ROOT).parts
    return "/".join(parts[:2]) if parts[0] in {"hudi_ops", "docs"} else parts[0]


def files(*suffixes: str) -> list[Path]:
    """Files of the product and its docs."""
    found = []
    for place in PLACES:
        path = ROOT / place
        found += [path] if path.is_file() else sorted(path.rglob("*"))
    return [file for file in found if file.suffix in suffixes and "__pycache__" not in file.parts]


def first_lines() -> Counter[str]:
    """Docstrings whose first line is too long."""
    found: Counter[str] = Counter()
    for file in files(".py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                first = (ast.get_docstring(node) or "").split("\n")[0]
                found[package(file)] += len(first) > MAX_FIRST_LINE
    return found


def words() -> Counter[str]:
    """Words that stand for a riddle, in code, comments and docs."""
    found: Counter[str] = Counter()
    for file in files(".py", ".md"):
        found[package(file)] += len(WORDS.findall(file.read_text(encoding="utf-8")))
    return found


def moods() -> Counter[str]:
    """Docstrings of functions that do not begin with a verb."""
    ruff = Path(sys.executable).with_name("ruff")
    folders = [place for place in PLACES if (ROOT / place).is_dir() and place != "docs"]
    done = subprocess.run(
        [str(ruff), "check", "--isolated", "--select", "D401", "--output-format", "concise", *folders],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    named = [line.split(":")[0] for line in done.stdout.splitlines() if " D401 " in line or "non-imperative" in line]
    return Counter(package(ROOT / name) for name in named)


def test_the_language_is_plain() -> None:
    found = first_lines() + words() + moods()
    print(f"offences of language: {found.total()}, {dict(found)}")
    assert {name: count for name, count in found.items() if count > UNWRITTEN.get(name, 0)} == {}
    assert [name for name in UNWRITTEN if not found[name]] == []
