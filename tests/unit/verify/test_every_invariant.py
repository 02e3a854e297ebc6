"""A verify that cannot fail is worth nothing: every invariant that the sources name is broken by some test here."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import hudi_ops.verify as package

SLUG = re.compile(r"(?!utf-)[a-z0-9]+(-[a-z0-9]+)+")
"""The form of an invariant's id; names of encodings have it, too."""


def named_in(folder: Path) -> set[str]:
    """Every string constant that has the form of an invariant's id."""
    return {
        node.value
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SLUG.fullmatch(node.value)
    }


def test_every_invariant_is_broken_by_a_test():
    promised = named_in(Path(package.__file__).parent)
    assert len(promised) > 60
    assert promised - named_in(Path(__file__).parent) == set()
