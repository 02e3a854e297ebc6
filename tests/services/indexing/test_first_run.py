"""Which completions one round of catch-up adds: a key that one inserted and a later one deleted must not stay in the index."""

from __future__ import annotations

import pytest

from hudi_ops.services.indexing.filling.verdicts import Verdict, first_run
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import State

NAMES = {"C": "carried", "O": "out of order", "M": "missing", "P": "missing"}
"""P: it has records in some of the partitions."""


@pytest.mark.parametrize(
    ("completions", "undone", "lead", "run"),
    [
        ("", False, "", ""),
        ("CC", False, "CC", ""),
        ("CMMC", False, "C", "MM"),
        ("MMM", False, "", "MMM"),
        ("OMO", False, "", "O"),
        ("MOOM", False, "", "MOO"),
        ("COMC", False, "C", "O"),
        ("", True, "", ""),
        ("CCOM", True, "", "CCO"),
        ("MCM", True, "", "MC"),
        ("PM", False, "", "P"),
        ("MPOM", False, "", "MPO"),
        ("CPP", False, "C", "P"),
    ],
)
def test_a_completion_that_lacks_the_partitions_is_not_added_with_records_before_it(
    completions: str, undone: bool, lead: str, run: str
) -> None:
    new = [
        Instant(f"2030031717464{number:04}", "commit", State.COMPLETED, f"2030031717465{number:04}")
        for number in range(len(completions))
    ]
    judged = [
        Verdict(one.time, one.kind, NAMES[said], has_records=said != "M")
        for one, said in zip(new, completions, strict=True)
    ]
    if undone:
        judged.append(Verdict("20300317174600000", "commit", "undone"))
    found = first_run(new, judged)
    assert [one for part in found for one in part] == new
    letters = {one.time: said for one, said in zip(new, completions, strict=True)}
    assert ["".join(letters[one.time] for one in part) for part in found[:2]] == [lead, run]
