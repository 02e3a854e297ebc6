"""A verify that cannot fail is worth nothing: every invariant that the sources name is broken by some test here."""

from __future__ import annotations

from pathlib import Path

import hudi_ops.verify as package
from tests.unit.verify.breaking import named_in


def test_every_invariant_is_broken_by_a_test():
    promised = named_in(Path(package.__file__).parent)
    assert len(promised) > 60
    assert promised - named_in(Path(__file__).parent) == set()
