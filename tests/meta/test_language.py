"""Docstrings, comments and messages in plain technical English, as far as a test can tell.

Goal: every sentence is understood at once. Method: the first line of each docstring is short, functions begin with a verb (ruff's
D401), and words that stand for riddles are not used. These are floors: a sentence that avoids the words and still has to be read
twice is rewritten.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_FIRST_LINE = 90
WORDS = re.compile(r"\b(?:whoever|nobody|somebody|what is left|at it|so many|of one's own)\b(?!-)", re.IGNORECASE)
RIDDLES = re.compile(
    r"is at it\b|is none that is built here|has no folder to lie in|where no person is at|lacks columns? |found=\"nothing|"
    r"\bis at a table|\bupon which\b|that is none of the kinds|would never come|took it away|rows are the table's\"|"
    r"is no (?:column|number) of|\bnor we\b|that begin so\"|is its own to|are its own to|a plan that is there|"
    r"cannot (?:head|stand in) |going on after them|make less of|nothing on reading back|none that can be read",
    re.IGNORECASE,
)
"""Sentences that users of the product had to read twice."""
PLACES = ("hudi_ops", "dags", "plugins", "spark_apps", "examples", "README.md", "docs")


def name(file: Path) -> str:
    """Its path below the repository."""
    return str(file.relative_to(ROOT))


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
                found[name(file)] += len(first) > MAX_FIRST_LINE
    return found


def words() -> Counter[str]:
    """Words that stand for a riddle, in code, comments and docs."""
    found: Counter[str] = Counter()
    for file in files(".py", ".md"):
        text = file.read_text(encoding="utf-8")
        found[name(file)] += len(WORDS.findall(text)) + len(RIDDLES.findall(text))
    return found


def test_the_language_is_plain() -> None:
    found = first_lines() + words()
    print(f"offences of language: {found.total()}")
    assert {place: count for place, count in found.items() if count} == {}


def test_ruff_asks_for_the_imperative_mood() -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert "D401" in rules["select"]
    assert "D401" not in rules["ignore"]
    # Places of the product are checked by it: only tests and benchmarks leave docstrings out.
    assert {place for place, left_out in rules["per-file-ignores"].items() if "D" in left_out} == {
        "tests/**",
        "benchmarks/**",
    }
