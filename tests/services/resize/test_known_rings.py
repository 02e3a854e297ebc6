"""Rows are split by the rings that are known before the split, and only ranges that changed since are split again."""

from __future__ import annotations

import pickle
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.errors import Corrupt, Internal
from hudi_ops.index.bucket_engine import Ranges, ring_engine_of
from hudi_ops.index.ring import INITIAL, TOP, Ring, initial_ring
from hudi_ops.index.ring_files import put_initial, ring_folder, ring_path
from hudi_ops.services.write.batch import Batch, tagged
from hudi_ops.services.write.operations import UPSERT
from hudi_ops.services.write.routing.known_rings import RINGS_OF_A_RUN, KnownRings
from hudi_ops.services.write.routing.router import router_of
from hudi_ops.services.write.routing.routes import Routes
from hudi_ops.services.write.rows import GivenRows
from hudi_ops.services.write.tasks import tag
from hudi_ops.services.write.tasks.tag import SourceSummary
from hudi_ops.table.table import Table
from hudi_ops.testing.faults import Fault, FaultPlan, FaultyStorage
from hudi_ops.view.schema import table_schema
from tests.services.resize.hand_plans import Wanted, plan_of_nodes, run_plan
from tests.services.resize.ringed_tables import CONSISTENT, EXTENDIBLE, hashes_of, opened, ring_of
from tests.tables import by_key, made, rows

KEYS = [f"k{number}" for number in range(400)]
P0 = "part=p0"


def batch(value: int = 1, parts: int = 1) -> Any:
    return rows(*((key, f"p{place % parts}", value, value, None) for place, key in enumerate(KEYS)))


class Write:
    """The steps of a write of rows until its file groups are known; the rows are kept for further attempts."""

    def __init__(self, table: Table, given: pa.Table) -> None:
        self.table, self.given, self.held = table, GivenRows(given), ExitStack()
        self.held.enter_context(self.given)

    def __enter__(self) -> Write:
        return self

    def __exit__(self, *_: object) -> None:
        self.held.close()

    def attempt(self, known: bool = True) -> tuple[Any, Routes]:
        session, engine = self.table._session, self.table.context.engine
        state = session.loader.load()
        schema, written = table_schema(state.config, state.timeline, session.commits), Batch(UPSERT, rows=self.given)
        rings = KnownRings.of(session, state, engine) if known else None
        scattered = self.held.enter_context(tagged(engine, state, written, schema, rings))
        router = self.held.enter_context(
            router_of(session, state, UPSERT, engine, schema, scattered, rings if known else None)
        )
        return router.intent(None), router.routes(state)


def by_group(routes: Routes) -> dict[tuple[str, str], list[str]]:
    """Record keys by partition and file group, in the order of their rows."""

    def keys_of(target: Any, tables: list[pa.Table]) -> tuple[tuple[str, str], list[str]]:
        keys = [key for table in tables for key in table.column(RECORD_KEY).to_pylist()]
        return (target.partition_path, target.file_id("", "")), keys

    found = routes.gather(keys_of, [(target.chunks, target) for target in routes.targets])
    assert len(dict(found)) == len(found)
    return dict(found)


def expected(ring: Ring, keys: list[str], path: str = P0) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for key, node in zip(keys, ring.nodes_of(hashes_of(keys)).tolist(), strict=True):
        found.setdefault((path, ring.file_id(node)), []).append(key)
    return found


def in_order_of_keys(found: dict[tuple[str, str], list[str]]) -> dict[tuple[str, str], list[str]]:
    """Rows that are split again come range by range; those of one key keep their order."""
    return {group: sorted(keys) for group, keys in found.items()}


@pytest.mark.parametrize("definition", [CONSISTENT, EXTENDIBLE], ids=lambda one: one.bucket_engine)
@pytest.mark.parametrize("nodes", [1, 4, 7, 16])
def test_rows_of_a_ring_with_other_nodes_are_split_once(definition: Any, nodes: int) -> None:
    storage = made(definition)
    ring = put_initial(storage, P0, nodes)
    with Write(opened(storage), batch()) as write:
        intent, routes = write.attempt()
        assert (routes.again, routes.split_again) == (None, frozenset())
        assert by_group(routes) == expected(ring, KEYS)
        assert {group for _, group in intent.groups} == {prefix[:8] for prefix in ring.prefixes}
    with Write(opened(storage), batch()) as write:
        told, again = write.attempt(known=False)
        assert (again.again is None) is (nodes == 4), "lanes are no nodes"
        assert in_order_of_keys(by_group(again)) == in_order_of_keys(expected(ring, KEYS))
        assert told == intent


def test_only_ranges_that_changed_after_the_split_are_split_again() -> None:
    storage = made(CONSISTENT, batch(parts=2))
    table = opened(storage, "writer")
    ours, others = KEYS[::2], KEYS[1::2]
    with Write(table, batch(2, parts=2)) as write:
        _, before = write.attempt()
        old = ring_of(table)
        assert before.again is None
        other = opened(storage)
        run_plan(other, plan_of_nodes(other, Wanted((1,))))
        run_plan(other, plan_of_nodes(other, Wanted((3, 4))))
        ring = ring_of(table)
        assert len(ring.prefixes) == 4
        intent, after = write.attempt()
        p1 = initial_ring("part=p1", 4)
        assert in_order_of_keys(by_group(after)) == in_order_of_keys(
            expected(ring, ours) | expected(p1, others, "part=p1")
        )
        kept = {target.chunks for target in after.targets} - after.split_again
        assert kept == {"00000000/part=p0", *(f"{node:08d}/part=p1" for node in range(4))}
        assert len(after.split_again) == 3, "a node was split, and two were merged"
        assert {group for path, group in intent.groups if path == P0} == {prefix[:8] for prefix in ring.prefixes}
        assert old.prefixes[0] == ring.prefixes[0]


def test_a_ring_that_only_got_other_groups_is_not_split_again() -> None:
    storage = made(CONSISTENT, batch())
    table = opened(storage, "writer")
    with Write(table, batch(2)) as write:
        write.attempt()
        opened(storage).ingest(rows(("k0", "p0", 9, 9, None)), operation="insert_overwrite")
        _, after = write.attempt()
        assert after.again is None
        assert by_group(after) == expected(ring_of(table), KEYS)


def test_rows_of_several_runs_stay_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two rows of one key with equal ordering values the later one wins, so its place must not depend on the ring."""
    storage = made(CONSISTENT)
    ring = put_initial(storage, P0, 7)
    twice = pa.concat_tables([batch(1), batch(2)])
    monkeypatch.setattr(tag, "_FOLDED_ROWS_MIN", 1 << 30)
    with Write(opened(storage), twice) as write:
        _, routes = write.attempt()
        assert by_group(routes) == expected(ring, KEYS * 2)


def ring_reads(storage: FaultyStorage) -> list[str]:
    return [call for call in storage.history if ring_folder("") in call]


def test_a_write_reads_a_ring_as_often_as_before() -> None:
    storage = FaultyStorage(made(CONSISTENT, batch()))
    table = opened(storage, "writer")
    before = len(storage.history)
    table.ingest(batch(2))
    calls = [call for call in storage.history[before:] if ring_folder("") in call]
    assert [call.partition(":")[0] for call in calls] == ["list_folder", "get"] * 2, (
        "before it begins, and as it begins"
    )


def test_rings_of_partitions_with_few_rows_of_a_run_are_not_waited_for() -> None:
    parts = RINGS_OF_A_RUN + 4
    storage = made(CONSISTENT)
    rings = {f"part=p{number}": put_initial(storage, f"part=p{number}", 3) for number in range(parts)}
    large = rows(*((f"k{number}", "p0", 1, 1, None) for number in range(100)))
    table = opened(storage)
    with Write(table, pa.concat_tables([batch(parts=parts), large])) as write:
        _, routes = write.attempt()
        again = {key.rpartition("/")[2] for key in routes.split_again}
        assert again == rings.keys() - {P0}
        keys = [*KEYS[::parts], *(f"k{number}" for number in range(100))]
        assert {group: found for group, found in by_group(routes).items() if group[0] == P0} == expected(
            rings[P0], keys
        )
    table.ingest(batch(2, parts=parts))
    assert by_key(table) == dict.fromkeys(KEYS, 2)


def test_an_answer_for_a_partition_stays() -> None:
    storage = made(CONSISTENT)
    put_initial(storage, P0, 7)
    table = opened(storage)
    session = table._session
    known = KnownRings.of(session, session.loader.load(), table.context.engine)
    assert known is not None
    assert known.ranges_of(P0, 1, RINGS_OF_A_RUN + 1) is None
    assert known.ranges_of(P0, 1, 1) is None, "a run before it was split by the initial ring"
    assert known.ranges_of("part=p1", 5, 5) is None, "it has no ring yet"
    put_initial(storage, "part=p1", 7)
    assert known.ranges_of("part=p1", 5, 5) is None


def test_a_copy_for_executors_reads_nothing_and_takes_ranges_alone() -> None:
    storage = FaultyStorage(made(CONSISTENT))
    ring = put_initial(storage, P0, 7)
    session = opened(storage)._session
    known = KnownRings.of(session, session.loader.load(), opened(storage).context.engine)
    assert known is not None
    assert known.ranges_of(P0, 1, 1) is not None
    copy = pickle.loads(pickle.dumps(known))
    before = len(storage.history)
    assert copy.ranges_of("part=p1", 1, 1) is None
    found = copy.ranges_of(P0, 1, 1)
    assert (found.instant, found.values.tolist(), copy.rings) == (INITIAL, ring.values.tolist(), {})
    assert len(storage.history) == before


def test_the_only_ring_of_a_table_is_read_for_executors() -> None:
    class Executors:
        name = "spark"

    for definition, path in ((replace(CONSISTENT, partition_by=()), ""), (CONSISTENT, P0)):
        storage = made(definition)
        put_initial(storage, path, 7)
        session = opened(storage)._session
        known = KnownRings.of(session, session.loader.load(), Executors())  # type: ignore[arg-type]
        assert known is not None
        assert (pickle.loads(pickle.dumps(known)).ranges_of(path, 1, 1) is not None) is (path == "")


def test_a_ring_that_cannot_be_read_before_the_split_does_not_stop_the_write() -> None:
    storage = made(CONSISTENT, batch())
    calls = FaultyStorage(storage.copy())
    opened(calls, "writer").ingest(batch(2))
    first = next(place for place, call in enumerate(calls.history) if ring_folder("") in call)
    faulty = FaultyStorage(storage, FaultPlan.at(first + 1, Fault.ERROR_BEFORE))
    table = opened(faulty, "writer")
    table.ingest(batch(2))
    assert by_key(table) == dict.fromkeys(KEYS, 2)
    assert len(ring_reads(faulty)) == len(ring_reads(calls)) + 1


def test_a_broken_ring_is_reported_by_the_router() -> None:
    """The rows are kept, so that the next attempt can use them once the ring was restored."""
    storage = made(CONSISTENT, batch())
    path = ring_path(P0, INITIAL)
    ring = storage.get(path)
    with Write(opened(storage), batch(2)) as write:
        storage.put(path, b"{}")
        with pytest.raises(Corrupt, match="hash ring") as refused:
            write.attempt()
        assert refused.value.table == CONSISTENT.name
        storage.put(path, ring)
        _, routes = write.attempt()
        assert by_group(routes) == expected(initial_ring(P0, 4), KEYS)


def test_runs_that_were_split_by_two_versions_are_refused() -> None:
    table = opened(made(CONSISTENT))
    session, engine = table._session, table.context.engine
    state = session.loader.load()
    values = ring_engine_of(state.log.properties.facts).initial().values.copy()
    values[0] -= 1

    class Split:
        summaries = (
            SourceSummary(1, ((P0, 0, 1),), 1, {P0: Ranges(INITIAL, values)}),
            SourceSummary(1, ((P0, 0, 1),), 1),
        )

    with pytest.raises(Internal, match="two versions"):
        router_of(session, state, UPSERT, engine, pa.schema([]), Split(), None)  # type: ignore[arg-type]
    assert values[-1] == TOP
