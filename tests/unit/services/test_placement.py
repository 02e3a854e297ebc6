"""Where rows go in tables whose index is asked: known keys to their group, new ones into small groups, then into new ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.config.write_settings import FileSizes
from hudi_ops.engine import memory
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.services.base.slices import live_slices
from hudi_ops.services.write.routing import locators, lookup as placement
from hudi_ops.view.slices import Slice
from tests.tables import PLAIN_SCHEMA as SCHEMA


def rows(keys: Sequence[Any], part: str = "p", value: int = 0) -> pa.Table:
    names = [str(key) for key in keys]
    return pa.table({"id": names, "part": [part] * len(names), "value": [value] * len(names)}, schema=SCHEMA)


def make(path: Path, kind: str = "cow", index: str = "simple", **settings: Any) -> Table:
    sizes = FileSizes(**settings)
    return Table.create(
        str(path / "t"), name="t", record_key=["id"], partition_by=["part"], schema=SCHEMA, table_type=kind, index=index,
        file_sizes=sizes,
    )  # type: ignore[arg-type]  # fmt: skip


def groups(table: Table) -> dict[str, Slice]:
    session = table._session
    return {one.file_id: one for one in live_slices(session, session.loader.load())}


def holders(table: Table) -> dict[str, str]:
    """File id of each row's group, by key."""
    found = table.read(["_hoodie_record_key", "_hoodie_file_name"]).to_pylist()
    assert len({one["_hoodie_record_key"] for one in found}) == len(found)
    return {one["_hoodie_record_key"]: one["_hoodie_file_name"].lstrip(".").partition("_")[0] for one in found}


def test_known_keys_stay_and_new_ones_fill_a_small_group(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.ingest(rows(range(100)))
    result = table.ingest(rows(range(50, 200), value=1))
    assert (result.updated, result.inserted, result.file_groups) == (50, 100, 1)
    assert len(set(holders(table).values())) == 1


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_group_that_is_large_enough_takes_no_new_keys(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind, small_bytes=0)
    table.ingest(rows(range(100)))
    before = holders(table)
    result = table.ingest(rows(range(50, 200), value=1))
    after = holders(table)
    assert {key: after[key] for key in before} == before
    assert {after[str(n)] for n in range(100, 200)}.isdisjoint(before.values())
    assert (result.inserted, result.file_groups) == (100, 2)


def test_new_groups_are_of_about_the_target_size(tmp_path: Path) -> None:
    table = make(tmp_path, target_bytes=2_000, small_bytes=0)
    result = table.ingest(rows(range(1_000)))
    sizes = [base.num_rows for base in (table.read(where=f"id = '{n}'") for n in range(3))]
    assert sizes == [1, 1, 1]
    assert 5 <= result.file_groups <= 15
    counts: dict[str, int] = {}
    for file_id in holders(table).values():
        counts[file_id] = counts.get(file_id, 0) + 1
    assert max(counts.values()) < 3 * min(counts.values())


def test_in_copy_on_write_tables_groups_that_are_rewritten_anyway_take_new_keys_first(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.ingest(rows(range(10)), "bulk_insert")
    table.ingest(rows(range(10, 13)), "bulk_insert")
    touched = holders(table)["0"]
    table.ingest(rows([0, "new"], value=1))
    assert holders(table)["new"] == touched
    table.ingest(rows(["newer"], value=1))
    assert holders(table)["newer"] == holders(table)["10"], "else the smallest does"


def test_in_merge_on_read_tables_a_group_gets_a_base_file_or_a_log_file_in_one_write(tmp_path: Path) -> None:
    table = make(tmp_path, "mor")
    table.ingest(rows(range(10)))
    # No log file yet: the group takes the new key, and the update with it.
    result = table.ingest(rows([0, "new"], value=1))
    assert (result.inserted, result.updated, result.logged, result.file_groups) == (1, 1, 0, 1)
    assert table.ingest(rows([1], value=2)).logged == 1
    (first,) = groups(table).values()
    # Now it has one, and a new key begins another group.
    result = table.ingest(rows([2, "newer"], value=3))
    assert (result.inserted, result.logged, result.file_groups) == (1, 1, 2)
    assert holders(table)["newer"] != first.file_id
    assert {len(one.logs) for one in groups(table).values()} == {0, 2}
    result = table.ingest(rows([3, "newest"], value=3))
    assert holders(table)["newest"] == holders(table)["newer"]


def test_deletes_of_keys_that_are_nowhere_write_nothing(tmp_path: Path) -> None:
    table = make(tmp_path, "mor")
    table.ingest(rows(range(3)))
    assert table.ingest(rows(["x"]), "delete").file_groups == 0
    assert table.ingest(rows(["x", 1]), "delete").logged == 1
    assert sorted(holders(table)) == ["0", "2"]


def test_bulk_inserts_and_overwrites_look_nothing_up(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.ingest(rows(range(3)))
    first = set(groups(table))
    assert table.ingest(rows(range(2)), "bulk_insert").inserted == 2
    assert table.read().num_rows == 5
    assert first < set(groups(table))
    # Both copies of a doubled key are updated, as by Apache Hudi.
    assert table.ingest(rows([0], value=7)).updated == 2
    assert table.read(where="value = 7").num_rows == 2
    assert table.ingest(rows([9]), "insert_overwrite").replaced == 2
    assert list(holders(table)) == ["9"]


def test_keys_are_looked_up_round_by_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "ROUND_ROWS", 7)
    monkeypatch.setattr(memory, "RUN_BYTES_MIN", 1)
    table = make(tmp_path, target_bytes=500, small_bytes=0)
    table.ingest(pa.concat_tables([rows(range(100)), rows(range(100), "q")]))
    before = holders_by_part(table)
    batch = pa.concat_tables([rows(range(150), value=1), rows(range(0, 150, 3), "q", value=1)])
    engine = LocalEngine(2, memory_bytes=1_000, spill_folder=str(tmp_path))
    result = Table(table.context.__class__(table.context.storage, table.context.locks, engine=engine)).ingest(batch)
    assert (result.updated, result.inserted) == (134, 66)
    after = holders_by_part(table)
    assert {name: after[name] for name in before} == before
    assert len(after) == 150 + 100 + 16


def holders_by_part(table: Table) -> dict[tuple[str, str], str]:
    found = table.read(["id", "part", "_hoodie_file_name"]).to_pylist()
    assert len({(one["id"], one["part"]) for one in found}) == len(found)
    return {(one["id"], one["part"]): one["_hoodie_file_name"].partition("_")[0] for one in found}


def test_an_insert_names_the_key_that_is_there_or_comes_twice(tmp_path: Path) -> None:
    table = make(tmp_path, small_bytes=0)
    table.ingest(rows(range(3)))
    for keys, twice in (([7, 1], "1"), ([7, 8, 7], "7")):
        with pytest.raises(InvalidRequest, match=f"would write key {twice} twice"):
            table.ingest(rows(keys), "insert")
    assert table.ingest(rows([7, 1], "q"), "insert").inserted == 2


def test_keys_must_be_in_a_column_to_be_looked_up(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="without meta columns cannot have the index bloom"):
        Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA, index="bloom", meta_fields=False)


@pytest.mark.parametrize("name", ["GLOBAL_BLOOM", "consistent_hashing", ""])
def test_other_indexes_are_no_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidRequest, match="unknown index"):
        Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA, index=name)  # type: ignore[arg-type]


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table with the record index, which is played by the table's own rows."""
    table = make(tmp_path, index="record_index", small_bytes=0)

    def lookup(keys: pa.Array) -> pa.Table:
        found = table.read(["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]).to_pylist()
        held = [one for one in found if one["_hoodie_record_key"] in set(keys.to_pylist())]
        columns = {
            "key": [one["_hoodie_record_key"] for one in held],
            "partition_path": [one["_hoodie_partition_path"] for one in held],
            "file_id": [one["_hoodie_file_name"].partition("_")[0] for one in held],
        }
        return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})

    monkeypatch.setattr(locators, "record_lookup_of", lambda session, state: lookup)
    return table


def stored(table: Table) -> dict[str, tuple[str, str, int]]:
    """Folder, value of the partition column, and value of each key."""
    names = ["_hoodie_record_key", "_hoodie_partition_path", "part", "value"]
    found = [tuple(one.values()) for one in table.read(names).to_pylist()]
    assert len({key for key, *_ in found}) == len(found)
    return {key: (path, part, value) for key, path, part, value in found}


def test_with_the_record_index_a_row_stays_in_its_keys_partition(recorded: Table) -> None:
    recorded.ingest(rows([1, 2], "p"))
    recorded.ingest(rows([1, 3], "q", value=5))
    # The folder is the old one, the column what the row says, as Apache Hudi has it.
    assert stored(recorded) == {"1": ("part=p", "q", 5), "2": ("part=p", "p", 0), "3": ("part=q", "q", 5)}
    with pytest.raises(InvalidRequest, match="would write key 2 twice"):
        recorded.ingest(rows([2], "z"), "insert")
    assert recorded.ingest(rows([2], "z"), "delete").deleted == 1
    assert sorted(stored(recorded)) == ["1", "3"]


def test_with_the_record_index_a_new_key_is_one_row_whatever_partitions_it_comes_in(recorded: Table) -> None:
    batch = pa.concat_tables([rows(range(20), "a", 1), rows(range(10), "c", 2), rows(range(5), "b", 3)])
    recorded.ingest(batch)
    found = stored(recorded)
    assert {found[str(n)][0] for n in range(10)} == {"part=c"}
    assert {found[str(n)][0] for n in range(10, 20)} == {"part=a"}
    with pytest.raises(InvalidRequest, match="in several partitions"):
        recorded.ingest(pa.concat_tables([rows(["new"], "a"), rows(["new"], "b")]), "insert")


def test_with_the_record_index_the_newest_row_by_its_ordering_value_chooses_the_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = pa.table({name: pa.array([], pa.string()) for name in ("key", "partition_path", "file_id")})
    monkeypatch.setattr(locators, "record_lookup_of", lambda session, state: lambda keys: nothing)
    table = Table.create(
        str(tmp_path / "t"), name="t", record_key=["id"], partition_by=["part"], ordering="value", schema=SCHEMA,
        index="record_index",
    )  # fmt: skip
    table.ingest(pa.concat_tables([rows([1], "a", 9), rows([1], "b", 3), rows([1], "a", 2)]))
    assert stored(table) == {"1": ("part=a", "a", 9)}
