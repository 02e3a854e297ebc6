"""The optional words of `resize`: a partition and a mode, in either order; anything else is refused before the table is opened."""

from __future__ import annotations

import pytest

from hudi_ops.cli.planned import Mode, mode_and_partition
from hudi_ops.errors import InvalidRequest


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ((None, None), (Mode.RUN, None)),
        (("plan", None), (Mode.PLAN, None)),
        (("city=Oslo", None), (Mode.RUN, "city=Oslo")),
        (("city=Oslo", "explain"), (Mode.EXPLAIN, "city=Oslo")),
        (("execute", "city=O*"), (Mode.EXECUTE, "city=O*")),
    ],
)
def test_a_mode_and_a_partition_stand_in_either_order(
    words: tuple[str | None, ...], meant: tuple[Mode, str | None]
) -> None:
    assert mode_and_partition(words) == meant


@pytest.mark.parametrize(
    "words", [("plan", "run"), ("run", "run"), ("city=Oslo", "city=Rome"), ("city=Oslo", "explan")]
)
def test_two_modes_and_two_partitions_are_refused(words: tuple[str, str]) -> None:
    with pytest.raises(InvalidRequest, match=f"{words[0]} and {words[1]} are not") as refused:
        mode_and_partition(words)
    assert "--partition" in refused.value.next_step
