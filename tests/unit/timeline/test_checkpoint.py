"""Checkpoints are texts that come back as they were, and nothing else passes for one."""

from __future__ import annotations

import pytest

from hudi_ops.errors import InvalidRequest
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.checkpoint import Checkpoint, brings_rows, is_checkpoint, still_open
from hudi_ops.timeline.names import State

T1, T2, T3, T4 = (f"2026112110150000{i}" for i in range(1, 5))
FULL = Checkpoint(T2, T1, "0a1b-table", (T3, T4))


def instant(time: str, action: str = "commit", completed: str = "") -> Instant:
    return Instant(time, action, State.COMPLETED if completed else State.INFLIGHT, completed)


@pytest.mark.parametrize(
    "one", [FULL, Checkpoint(), Checkpoint(T2), Checkpoint(T2, T1), Checkpoint(T2, "", "t", (T3,))]
)
def test_a_checkpoint_comes_back_as_it_was(one: Checkpoint) -> None:
    text = one.encode()
    assert (Checkpoint.decode(f" {text}\n"), is_checkpoint(text), " " in text) == (one, True, False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        T2,
        "hudi-ops-changes:2:t:1:1:",
        "hudi-ops-changes:1:t:1:1",
        "hudi-ops-changes:1:t:x:1:",
        FULL.encode() + ",late",
    ],
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="not a checkpoint") as caught:
        Checkpoint.decode(text)
    assert "read the table" in caught.value.next_step


def test_what_is_open_is_not_consumed() -> None:
    one = Checkpoint(T3, T1, open=(T2,))
    assert [one.is_consumed(time, T3) for time in (T1, T2)] == [True, False]
    assert not one.is_consumed(T1, T4)
    assert not Checkpoint().is_consumed(T1, T1)


def test_open_are_writes_that_may_come_below_the_checkpoint() -> None:
    instants = [
        instant(T1, completed=T3),
        instant(T2),
        instant(T3, "compaction"),
        instant(T3, "clean"),
        instant(T4, "replacecommit"),
    ]
    assert still_open(instants, frozenset({T1}), T3) == (T2, T4)
    assert still_open(instants, frozenset(), T2) == (T2, T4), "T1 completed above it"
    assert still_open(instants, frozenset(), T3) == (T1, T2, T4), "missed"
    assert [brings_rows(one) for one in instants] == [True, True, False, False, True]
