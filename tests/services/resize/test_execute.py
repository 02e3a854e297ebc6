"""A resize against a dict: splits and merges of every kind of table, beside writers, and later writes into the children."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.index.ring import INITIAL
from hudi_ops.index.ring_files import ring_path
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.verify import verify_table
from tests.services.resize.hand_plans import P0, P1, Wanted, child_logs, plan_of_nodes, rings_of, run_plan
from tests.services.resize.ringed_tables import BY_COMMIT_TIME, CONSISTENT, EXTENDIBLE, hashes_of, keys_in, opened
from tests.tables import NOW_MS, START_MS, TIMELINE, by_key, made, rows

HALF = 1 << 28
"""Half of the first of four equal ranges."""

DEFINITIONS = {
    "metadata table": replace(CONSISTENT, metadata=True),
    "no metadata table": CONSISTENT,
    "commit time": BY_COMMIT_TIME,
    "extendible": EXTENDIBLE,
    "version 8": replace(CONSISTENT, version=8),
}
WANTED = {
    "split": [Wanted((0,), point=HALF)],
    "merge": [Wanted((1, 2))],
    "merge around the end": [Wanted((3, 0))],
    "merge of all": [Wanted((0, 1, 2, 3))],
    "two groups": [Wanted((0,), point=HALF), Wanted((2, 3))],
    "two partitions": [Wanted((1, 2, 3)), Wanted((0,), P1, HALF)],
}
KEYS = range(48)


def row(n: int, value: int, ts: int, *, gone: bool = False) -> tuple[Any, ...]:
    return f"k{n}", f"p{n % 2}", value, ts, gone or None


class Model:
    """A table with hash rings, and what it has to show."""

    def __init__(self, definition: Any, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock(NOW_MS, tick_ms=1)
        self.by_event = definition.ordering is not None
        self.storage: MemoryStorage = made(definition, rows(*(row(n, n, 5) for n in KEYS)))
        self.rows = {f"k{n}": (n, 5) for n in KEYS}

    def open(self, actor: str) -> Table:
        return opened(self.storage, actor, self.clock)

    def write(self, *values: tuple[Any, ...], storage: Any = None) -> None:
        """Upsert rows, of which some delete and some come late."""
        opened(storage or self.storage, "writer", self.clock).ingest(rows(*values))
        for key, _, value, ts, gone in values:
            if self.by_event and key in self.rows and self.rows[key][1] > ts:
                continue
            if gone:
                self.rows.pop(key, None)
            else:
                self.rows[key] = (value, ts)

    def write_of_each_kind(self, first: int) -> None:
        """Updates of a third, late rows, deletes, and new keys."""
        self.write(*(row(n, first + n, 10) for n in KEYS[::3]), row(100 + first, 1, 1), row(101 + first, 2, 1))
        self.write(row(0, -1, 4), row(1, -2, 4), row(4, 0, 12, gone=True), row(7, 0, 12, gone=True))

    def check(self) -> None:
        """All readers see the rows, each once, and nothing is left over."""
        values = {key: value for key, (value, _) in self.rows.items()}
        assert by_key(self.open("reader")) == values
        assert by_key(self.open("reader"), listing="storage") == values
        assert verify_table(self.storage, deep=True, index=True, clock=self.clock).findings == ()


@pytest.mark.full("tries each plan with each table")
@pytest.mark.parametrize("wanted", WANTED.values(), ids=WANTED)
@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)
def test_a_resize_beside_writers_keeps_every_row_once(definition: Any, wanted: list[Wanted]) -> None:
    model = Model(definition)
    model.write_of_each_kind(200)
    before = rings_of(model.open("reader"), [P0, P1])
    instant = plan_of_nodes(model.open("planner"), *wanted)
    model.check()
    model.write_of_each_kind(300)
    assert child_logs(model.storage, instant)
    model.check()
    result = run_plan(model.open("executor"), instant)
    assert (result.groups, result.left_out) == (len(wanted), 0)
    assert (result.splits, result.merges) == (
        sum(len(one.nodes) == 1 for one in wanted),
        sum(len(one.nodes) > 1 for one in wanted),
    )
    model.check()
    after = rings_of(model.open("reader"), [P0, P1])
    for path in (P0, P1):
        ours = [one for one in wanted if one.partition == path]
        grown = sum(1 if len(one.nodes) == 1 else 1 - len(one.nodes) for one in ours)
        assert len(after[path].prefixes) == len(before[path].prefixes) + grown
        assert (after[path].instant, after[path].seq_no) == ((instant, 1) if ours else (INITIAL, 0))
        assert (model.storage.head(ring_path(path, instant)) is not None) == bool(ours)
    named = {
        (path, file_id) for path, ring in after.items() for file_id in map(ring.file_id, range(len(ring.prefixes)))
    }
    done = model.open("writer").ingest(rows(*(row(n, 500 + n, 20) for n in KEYS)))
    model.rows |= {f"k{n}": (500 + n, 20) for n in KEYS}
    assert done.inserted == 0, "every key is found in the children"
    assert written_groups(model.storage, done.instant) <= named
    model.check()


def written_groups(storage: MemoryStorage, instant: str | None) -> set[tuple[str, str]]:
    (path,) = (info.path for info in storage.list(TIMELINE) if info.path.startswith(f"{TIMELINE}/{instant}_"))
    stats = CommitMetadata.from_bytes(storage.get(path), path).stats
    return {(stat.partition_path, stat.file_id) for stat in stats}


def test_rows_keep_their_meta_columns_and_lie_where_the_ring_leads() -> None:
    model = Model(CONSISTENT)
    before = {row["id"]: row for row in model.open("reader").read(meta_columns=True).to_pylist()}
    run_plan(model.open("executor"), plan_of_nodes(model.open("planner"), Wanted((0,)), Wanted((1, 2))))
    ring = rings_of(model.open("reader"), [P0])[P0]
    for found in model.open("reader").read(meta_columns=True).to_pylist():
        was = before[found["id"]]
        assert found["_hoodie_commit_time"] == was["_hoodie_commit_time"]
        assert found["_hoodie_commit_seqno"] == was["_hoodie_commit_seqno"]
        if found["_hoodie_partition_path"] == P0:
            (node,) = ring.nodes_of(hashes_of([found["id"]])).tolist()
            assert found["_hoodie_file_name"].startswith(ring.file_id(node))


def test_a_child_without_rows_gets_a_base_file_and_later_its_rows() -> None:
    storage, clock = made(CONSISTENT, rows(("k0", "p0", 0, 1, None))), ManualClock(NOW_MS, tick_ms=1)
    ring = rings_of(opened(storage), [P0])[P0]
    (node,) = ring.nodes_of(hashes_of(["k0"])).tolist()
    other = next(key for key in keys_in(ring, node, 50) if hashes_of([key])[0] < hashes_of(["k0"])[0])
    point = int(hashes_of([other])[0])
    instant = plan_of_nodes(opened(storage, clock=clock), Wanted((node,), point=point))
    result = run_plan(opened(storage, "executor", clock), instant)
    assert (result.files, result.rows) == (2, 1)
    bases = [info.path for info in storage.list(P0) if instant in info.path]
    assert len(bases) == 2
    table = opened(storage, "writer", clock)
    table.ingest(rows((other, "p0", 1, 1, None), ("k0", "p0", 2, 2, None)))
    assert by_key(table) == {other: 1, "k0": 2}
    assert verify_table(storage, deep=True, index=True, clock=clock).findings == ()


def test_parents_whose_rows_were_all_deleted_become_one_empty_child() -> None:
    model = Model(replace(CONSISTENT, metadata=True))
    ring = rings_of(model.open("reader"), [P0])[P0]
    keys = [n for n in KEYS if n % 2 == 0 and ring.nodes_of(hashes_of([f"k{n}"]))[0] in {1, 2}]
    model.write(*(row(n, 0, 9, gone=True) for n in keys))
    instant = plan_of_nodes(model.open("planner"), Wanted((1, 2)))
    result = run_plan(model.open("executor"), instant)
    assert (result.files, result.rows, result.deleted) == (1, 0, len(keys))
    model.check()
    model.write(*(row(n, 7, 10) for n in keys))
    model.check()


def test_a_table_without_partitions_is_resized() -> None:
    definition = replace(CONSISTENT, partition_by=(), metadata=True)
    storage, clock = made(definition, rows(*(row(n, n, 1) for n in KEYS))), ManualClock(NOW_MS, tick_ms=1)
    instant = plan_of_nodes(opened(storage, clock=clock), Wanted((0,), ""), Wanted((1, 2), ""))
    opened(storage, "writer", clock).ingest(rows(*(row(n, 100 + n, 2) for n in KEYS[::2])))
    run_plan(opened(storage, "executor", clock), instant)
    assert rings_of(opened(storage), [""])[""].instant == instant
    assert by_key(opened(storage, clock=clock)) == {f"k{n}": n + (0 if n % 2 else 100) for n in KEYS}
    assert verify_table(storage, deep=True, index=True, clock=clock).findings == ()


def test_a_ring_of_one_node_is_split_and_merged_again() -> None:
    storage, clock = made(replace(CONSISTENT, buckets=1), rows(*(row(n, n, 1) for n in KEYS))), ManualClock(NOW_MS)
    values = []
    for wanted in (Wanted((0,)), Wanted((1,)), Wanted((2, 0)), Wanted((0, 1))):
        clock.advance_ms(1_000)
        run_plan(opened(storage, "executor", clock), plan_of_nodes(opened(storage, clock=clock), wanted))
        values.append(rings_of(opened(storage), [P0])[P0].values.tolist())
        assert by_key(opened(storage, clock=clock)) == {f"k{n}": n for n in KEYS}
    assert [len(found) for found in values] == [2, 3, 2, 1]
    assert verify_table(storage, deep=True, clock=clock).findings == ()


def test_readers_of_changes_get_each_write_once_over_a_resize() -> None:
    model = Model(replace(CONSISTENT, metadata=True))
    table = model.open("reader")
    first = table.scan().checkpoint
    instant = plan_of_nodes(model.open("planner"), Wanted((0,)), Wanted((1, 2)))
    model.write(*(row(n, 300 + n, 10) for n in KEYS[::3]))
    amid = table.scan().checkpoint
    changed = {f"k{n}": 300 + n for n in KEYS[::3]}
    assert values(table.changes(first).to_arrow()) == changed
    run_plan(model.open("executor"), instant)
    again = model.open("reader")
    assert values(again.changes(first).to_arrow()) == changed
    assert again.changes(amid).count_rows() == 0
    model.write(row(2, 900, 30))
    assert values(model.open("reader").changes(amid).to_arrow()) == {"k2": 900}


def values(found: pa.Table) -> dict[str, int]:
    keys = found["id"].to_pylist()
    assert len({*keys}) == len(keys)
    return dict(zip(keys, found["value"].to_pylist(), strict=True))


def test_columns_that_writers_add_beside_a_resize_stay() -> None:
    model = Model(CONSISTENT)
    instant = plan_of_nodes(model.open("planner"), Wanted((0,)), Wanted((1, 2)))
    wider = rows(*(row(n, 300 + n, 10) for n in KEYS[::3])).append_column("more", pa.array(KEYS[::3], pa.int32()))
    model.open("writer").ingest(wider, evolve=True)
    run_plan(model.open("executor"), instant)
    found = model.open("reader").read(["id", "more"])
    more = dict(zip(found["id"].to_pylist(), found["more"].to_pylist(), strict=True))
    assert more == {f"k{n}": None if n % 3 else n for n in KEYS}


def test_a_resize_before_the_table_was_ever_written_has_nothing_to_execute() -> None:
    storage = made(CONSISTENT, clock=ManualClock(START_MS, tick_ms=1))
    assert run_plan(opened(storage)).note == "no resize is planned"
