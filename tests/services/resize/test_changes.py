"""Incremental reads over pending, completed and aborted resizes: no row twice, none lost, against a dict."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.testing.faults import FaultyStorage
from tests.bounds import bound
from tests.fault_plans import MoveBefore
from tests.services.resize.hand_plans import P1, Wanted, plan_of_nodes, run_plan
from tests.services.resize.modelled import Modelled, numbered
from tests.services.resize.ringed_tables import CONSISTENT
from tests.views import assert_view_is_synced

DEFINITIONS = {
    "metadata table": replace(CONSISTENT, metadata=True),
    "no metadata table": CONSISTENT,
    "commit time": replace(CONSISTENT, ordering=None),
}


@dataclass
class Since:
    """A checkpoint, and the newest value of each key that was written or deleted behind it; None: deleted."""

    checkpoint: str
    written: dict[str, int | None]


class Followed:
    """A table, its model, and checkpoints of every moment."""

    def __init__(self, definition: Any) -> None:
        self.table = Modelled(definition, numbered(range(16)))
        self.moments: list[Since] = []
        self.mark()

    def mark(self) -> None:
        """Take a checkpoint."""
        self.moments.append(Since(self.table.open().scan().checkpoint, {}))

    def write(self, values: dict[str, int], storage: Any = None) -> None:
        """Upsert rows."""
        self.table.write(values, storage)
        for moment in self.moments:
            moment.written |= values

    def delete(self, keys: list[str]) -> None:
        """Delete rows."""
        self.table.delete(keys)
        for moment in self.moments:
            moment.written |= dict.fromkeys(keys)

    def check(self) -> None:
        """From each checkpoint come the rows written behind it, in their newest state, each once; deleted ones do not."""
        assert_view_is_synced(self.table.storage)
        self.table.check()
        for number, moment in enumerate(self.moments):
            wanted = {key: value for key, value in moment.written.items() if value is not None}
            changes = self.table.open().changes(moment.checkpoint)
            assert values(changes.to_arrow()) == wanted, f"from checkpoint {number}"
        reader, held = self.moments[0].checkpoint, {}
        for moment in [*self.moments[1:], None]:
            until = {} if moment is None else {"until": moment.checkpoint}
            step = self.table.open().changes(reader, **until)
            held |= values(step.to_arrow())
            reader = step.checkpoint
        assert {key: held[key] for key in held.keys() & self.table.rows.keys()} == {
            key: value for key, value in self.moments[0].written.items() if value is not None
        }


def values(found: pa.Table) -> dict[str, int]:
    """Values by key; no key twice."""
    keys = found["id"].to_pylist()
    assert len({*keys}) == len(keys), f"a row came twice: {sorted(keys)}"
    return dict(zip(keys, found["value"].to_pylist(), strict=True))


@pytest.mark.parametrize("end", ["completed", "aborted", "left out"])
@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)
def test_changes_over_a_resize_equal_the_writes(definition: Any, end: str) -> None:
    followed = Followed(definition)
    table = followed.table
    followed.write(numbered(range(0, 16, 3), 100))
    followed.mark()
    instant = plan_of_nodes(table.open("planner"), Wanted((0,)), Wanted((1, 2)), Wanted((3, 0), P1))
    followed.mark()
    followed.write(numbered(range(0, 20, 2), 200))
    followed.delete(["k2", "k3"])
    followed.check()
    followed.mark()
    if end == "aborted":
        table.open("user").cancel(instant)
    elif end == "completed":
        move = MoveBefore("put:.hoodie/.commit_log/payload", lambda: followed.write(numbered(range(0, 20, 5), 300)))
        run_plan(table.open("executor", FaultyStorage(table.storage, move)), instant)
        assert move.moved
    else:
        table.overwrite({"k1": 701, "k5": 705})
        for moment in followed.moments:
            gone = [key for key in moment.written if int(key[1:]) % 2]
            moment.written |= dict.fromkeys(gone) | {"k1": 701, "k5": 705}
        assert run_plan(table.open("executor"), instant).left_out == 1
    followed.check()
    followed.mark()
    followed.write(numbered(range(0, 16, 4), 400))
    followed.check()


def test_changes_over_random_resizes_equal_the_writes() -> None:
    """Plans that complete or are aborted, with writes before, during and after each, and a checkpoint at every step."""
    for seed in range(bound(1, 1, 8)):
        draw = random.Random(seed)
        followed = Followed(replace(CONSISTENT, ordering=None, buckets=2, buckets_max=8))
        ends = {"completed": 0, "aborted": 0}
        for _ in range(bound(2, 5, 12)):
            followed.write(numbered(draw.sample(range(24), 6), draw.randrange(1_000, 90_000)))
            sizes = draw.choice([{"split_bytes": 1, "merge_bytes": 0}, {"split_bytes": 60_000, "merge_bytes": 15_000}])
            instant = followed.table.plan_resize(**sizes, max_partitions=2)
            followed.mark()
            followed.write(numbered(draw.sample(range(24), 6), draw.randrange(1_000, 90_000)))
            followed.delete([f"k{n}" for n in draw.sample(range(24), 2)])
            followed.mark()
            if instant is not None and draw.random() < 0.4:
                followed.table.open("user").cancel(instant)
                ends["aborted"] += 1
            elif instant is not None:
                run_plan(followed.table.open("executor"), instant)
                ends["completed"] += 1
            followed.check()
        assert ends["completed"]
