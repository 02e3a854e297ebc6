"""`hudi-ops index show`: the pace of a pending build and what it waits for, in words and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudi_ops import Table
from hudi_ops.concurrency.lease.lease import take_lease
from hudi_ops.timeline.builds.checkpoint import BuildCheckpoint, put_checkpoint

WAITS = "waits for commit 2 of a foreign writer, which may not know the new partitions"


@pytest.fixture
def checkpoint(trips: Path) -> Callable[..., None]:
    """Put a checkpoint of a build that this process executes."""
    with_plan = Table.open(trips)
    plan = with_plan.indexing.plan(partitions=["record_index"]).instant
    assert plan is not None
    assert take_lease(with_plan.context, plan, "service")

    def put(**said: Any) -> None:
        put_checkpoint(
            with_plan.context.storage,
            BuildCheckpoint(
                plan=plan, epoch=1, built_at="1", partitions=("record_index",), phase="catch-up", rounds=2, **said
            ),
        )

    return put


def shown(program: Callable[..., Any]) -> tuple[str, dict[str, Any]]:
    """What `show` says of the record index, in words and as JSON."""
    text = program("index", "trips", "show")
    assert text.code == 0, text.err
    answer = program("index", "trips", "show", "--json")
    (found,) = (one for one in json.loads(answer.out)["indexes"] if one["name"] == "record_index")
    return " ".join(text.out.split()), found


def test_show_has_both_rates_and_the_estimated_end(program: Callable[..., Any], checkpoint) -> None:
    checkpoint(verdicts={"applied": 4, "carried": 1}, catch_up_per_s=4.0, ingest_per_s=1.25, seconds_left=10.4)
    said, found = shown(program)
    for word in ("4.00 completions/s", "1.25/s", "10 s left", "4 applied, 1 carried"):
        assert all(part in said for part in word.split()), (word, said)
    assert found["verdicts"] == {"applied": 4, "carried": 1}
    pace = {name: found[name] for name in ("rounds", "catch_up_per_s", "ingest_per_s", "seconds_left")}
    assert pace == {"rounds": 2, "catch_up_per_s": 4.0, "ingest_per_s": 1.25, "seconds_left": 10.4}


def test_show_says_what_a_build_waits_for(program: Callable[..., Any], checkpoint) -> None:
    checkpoint(note=WAITS, ingest_per_s=0.0)
    _, found = shown(program)
    assert found["note"].startswith(f"{WAITS}; catch-up, round 2")
    assert (found["catch_up_per_s"], found["ingest_per_s"], found["seconds_left"]) == (None, 0.0, None)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("shows",), "there is no action 'shows'. Did you mean 'show'?"),
        (("show", "nosuch"), "there is no index nosuch"),
        (("execute", "record_index"), "a plan says which indexes are built"),
        (("run", "nosuch"), "Unknown metadata partition 'nosuch'"),
        (("nosuch",), "Unknown metadata partition 'nosuch'"),
    ],
)
def test_a_wrong_word_is_a_wrong_call(
    call: Callable[..., Any], trips: Path, tree: Callable[..., Any], words: tuple[str, ...], says: str
) -> None:
    before = tree(trips)
    told = call("index", "trips", *words)
    assert (told.code, says in told.err) == (2, True), told.err
    assert tree(trips) == before


def test_show_shows_the_named_indexes(call: Callable[..., Any], trips: Path) -> None:
    told = call("index", "trips", "show", "files", "record_index", "--json")
    assert [one["name"] for one in told.json["indexes"]] == ["files", "record_index"]
