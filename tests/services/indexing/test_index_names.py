"""Names and columns of secondary indexes: a name is one folder and one word, and a column that is asked for is the one indexed."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from hudi_ops.config.table import INDEX_DEFINITIONS_PATH
from hudi_ops.errors import Conflict, Corrupt, InvalidRequest
from hudi_ops.metadata.index_definitions import encode_index_definitions, secondary_definition
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from tests.tables import BY_RECORD_INDEX, NOW_MS, SCHEMA, made, of_schema, table_of

CITIES = replace(BY_RECORD_INDEX, schema=pa.schema([*SCHEMA, ("city", pa.string())]))
ROWS = of_schema(CITIES.schema, [("k1", "a", 1, 1, None, "Oslo"), ("k2", "b", 2, 1, None, "Bergen")])
INDEX = "secondary_index_x"


def table(storage: Storage) -> Table:
    return table_of(storage, ManualClock(NOW_MS, tick_ms=1), "user")


@pytest.fixture
def storage() -> MemoryStorage:
    return made(CITIES, ROWS, after=10**6)


def files_of(storage: MemoryStorage) -> dict[str, bytes]:
    return {info.path: storage.get(info.path) for info in storage.list()}


@pytest.mark.parametrize(
    "name", ["a/b", "/../files", "..", "a,b", "a\nb", "a b", " ", "a:b", "ü", "x" * 101, "a\\b", ""]
)
def test_a_name_that_is_not_one_word_is_refused_and_changes_nothing(storage: MemoryStorage, name: str) -> None:
    before = files_of(storage)
    for call in (table(storage).indexing.run, table(storage).indexing.plan):
        with pytest.raises(InvalidRequest) as refused:
            call(partitions=(f"secondary_index_{name}=city",))
        assert "partition" in refused.value.what or "cannot be named" in refused.value.what
    assert files_of(storage) == before


def test_names_that_differ_by_a_hyphen_are_two_indexes(storage: MemoryStorage) -> None:
    """File ids have hyphens for underscores; they lie in folders of their own."""
    names = ("secondary_index_A-b", "secondary_index_A_b")
    table(storage).indexing.run(partitions=(f"{names[0]}=city", f"{names[1]}=value", "record_index"))
    assert {*names} <= {*load_config(storage).metadata_partitions}
    table(storage).ingest(of_schema(CITIES.schema, [("k1", "a", 7, 2, None, "Paris")]))
    assert verify_table(storage, index=True).errors == ()
    assert table(storage).read(["id"], where="city = 'Paris'").to_pylist() == [{"id": "k1"}]
    assert table(storage).read(["id"], where="value = 7").to_pylist() == [{"id": "k1"}]


def test_two_columns_for_one_index_are_refused(storage: MemoryStorage) -> None:
    before = files_of(storage)
    with pytest.raises(InvalidRequest, match="is named with two columns"):
        table(storage).indexing.run(partitions=(f"{INDEX}=city", f"{INDEX}=value"))
    assert files_of(storage) == before


def test_an_index_of_another_column_is_not_taken_for_the_one_that_is_asked_for(storage: MemoryStorage) -> None:
    table(storage).indexing.run(partitions=(f"{INDEX}=city",))
    assert table(storage).indexing.run(partitions=(f"{INDEX}=city",)).instant is None
    before = files_of(storage)
    for call in (table(storage).indexing.run, table(storage).indexing.plan):
        with pytest.raises(InvalidRequest, match="secondary_index_x is an index of column city") as refused:
            call(partitions=(f"{INDEX}=value",))
        assert f"--rebuild {INDEX}=value" in refused.value.next_step
    assert files_of(storage) == before
    table(storage).indexing.run(partitions=(f"{INDEX}=value",), rebuild=True)
    assert load_index_definitions(storage)[INDEX].source_fields == ("value",)
    assert verify_table(storage, index=True).errors == ()


def test_a_rebuild_builds_a_new_index_with_its_column(storage: MemoryStorage) -> None:
    table(storage).indexing.run(partitions=(f"{INDEX}=city",), rebuild=True)
    assert INDEX in load_config(storage).metadata_partitions
    assert load_index_definitions(storage)[INDEX].source_fields == ("city",)


def test_a_plan_to_rebuild_takes_the_column_that_is_asked_for(storage: MemoryStorage) -> None:
    table(storage).indexing.run(partitions=(f"{INDEX}=city",))
    before = files_of(storage)
    with pytest.raises(InvalidRequest, match="has no column nosuch"):
        table(storage).indexing.plan(partitions=(f"{INDEX}=nosuch",), rebuild=True)
    assert files_of(storage) == before
    table(storage).indexing.plan(partitions=("bloom_filters",))
    before = files_of(storage)
    with pytest.raises(InvalidRequest, match="has no column nosuch"):
        table(storage).indexing.plan(partitions=(f"{INDEX}=nosuch",), rebuild=True)
    assert files_of(storage) == before, "no pending build is cancelled for it"
    planned = table(storage).indexing.plan(partitions=(f"{INDEX}=value",), rebuild=True)
    assert planned.instant is not None
    shown = {one.name: (one.state, one.plan) for one in table(storage).indexing.show()}
    assert shown[INDEX] == ("planned", planned.instant)
    table(storage).indexing.execute()
    assert load_index_definitions(storage)[INDEX].source_fields == ("value",)
    assert verify_table(storage, index=True).errors == ()


@pytest.mark.parametrize(
    ("name", "why"),
    [(f"{INDEX}=city", ""), (f"{INDEX}=nosuch", "has no column nosuch"), (f"{INDEX}=_hoodie_is_deleted", "type bool")],
)
def test_explain_looks_at_the_column(storage: MemoryStorage, name: str, why: str) -> None:
    (cost,) = table(storage).indexing.costs([name])
    assert cost.is_supported == (not why)
    assert why in cost.why


@pytest.mark.parametrize("call", ["run", "plan"])
def test_damaged_definitions_are_found_before_a_rebuild_drops_anything(storage: MemoryStorage, call: str) -> None:
    table(storage).indexing.run(partitions=(f"{INDEX}=city",))
    storage.put(INDEX_DEFINITIONS_PATH, storage.get(INDEX_DEFINITIONS_PATH)[:-20])
    before = files_of(storage)
    with pytest.raises(Corrupt):
        getattr(table(storage).indexing, call)(partitions=("record_index",), rebuild=True)
    assert files_of(storage) == before


def test_a_drop_of_an_index_that_is_only_planned_cancels_the_plan(storage: MemoryStorage) -> None:
    planned = table(storage).indexing.plan(partitions=(f"{INDEX}=city",)).instant
    shown = {one.name: one.state for one in table(storage).indexing.show()}
    assert shown[INDEX] == "planned"
    done = table(storage).indexing.drop([INDEX])
    assert done.ended_builds == (planned,)
    assert table(storage).plans() == []
    assert INDEX not in load_index_definitions(storage)
    with pytest.raises(InvalidRequest, match=f"has no partition {INDEX}"):
        table(storage).indexing.drop([INDEX])
    assert verify_table(storage, index=True).errors == ()


def test_a_plan_is_refused_if_another_planner_changed_the_column(storage: MemoryStorage) -> None:
    """Method: the other one defines the index for another column right before the slot of the plan."""
    others: list[str] = []

    class Defines:
        def fault_at(self, number: int, point: str) -> None:
            if point.startswith("get:.hoodie/.index_defs") and number > 10 and not others:
                held = load_index_definitions(storage)
                if INDEX in held:
                    others.append(point)
                    changed = secondary_definition(INDEX, "value", 9)
                    storage.put(INDEX_DEFINITIONS_PATH, encode_index_definitions({**held, INDEX: changed}))

    faulty = FaultyStorage(storage, Defines())
    with pytest.raises(Conflict, match=f"the definition of {INDEX} was changed while its build was planned"):
        table(faulty).indexing.plan(partitions=(f"{INDEX}=city",))
    assert others
    assert table(storage).plans() == []
