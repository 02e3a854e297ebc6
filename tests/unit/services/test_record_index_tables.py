"""Tables with a record index in their own metadata table, made and written by us: as their index, and beside another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.config.table import IndexName
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.metadata.prune.key_places import groups_of_keys
from hudi_ops.metadata.reader.table import open_metadata
from hudi_ops.read.plan import Opened
from hudi_ops.services.indexing.drop import drop_metadata
from hudi_ops.verify import verify_table
from tests.tables import PLAIN_SCHEMA as SCHEMA, plain_rows as rows


def made(path: Path, kind: Literal["cow", "mor"], index: IndexName = "record_index") -> Table:
    table = Table.create(
        str(path), name="t", record_key=["id"], schema=SCHEMA, partition_by=["part"], table_type=kind, index=index
    )
    table.ingest(rows(*[(f"k{n}", f"p{n % 2}", n) for n in range(10)]))
    return table


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_key_is_one_row_whatever_partition_it_comes_in(tmp_path: Path, kind: Literal["cow", "mor"]) -> None:
    table = made(tmp_path / "t", kind)
    table.ingest(rows(("k1", "p0", 100), ("k2", "p0", 200), ("new", "p2", 1)))
    table.ingest(rows(("k3", "p1", 0)), "delete")
    table.ingest(rows(("k4", "p0", 400)), "insert_overwrite")
    found = table.read(["id", "value"])
    held = dict(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True))
    assert len(held) == found.num_rows
    assert held == {"k1": 100, "k5": 5, "k7": 7, "k9": 9, "new": 1, "k4": 400}
    assert verify_table(table.context.storage, deep=True, index=True).findings == ()


def test_a_table_without_partitions_has_no_statistics_of_them(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA, index="record_index")
    with pytest.raises(InvalidRequest, match="no statistics of them") as refused:
        table.indexing.run(partitions=["partition_stats"])
    assert "column_stats" in refused.value.next_step


@pytest.mark.parametrize("wrong", [{"table_type": "log"}, {"log_format": "csv"}, {"metadata_compact_after": 0}])
def test_what_cannot_be_is_refused_with_what_can(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA, **wrong)
    assert refused.value.next_step


def test_its_record_index_cannot_be_dropped(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "cow")
    for names in (["record_index"], None):
        with pytest.raises(InvalidRequest, match="is this table's index"):
            table.indexing.drop(names, dry_run=True)
        with pytest.raises(InvalidRequest, match="is this table's index") as refused:
            table.indexing.drop(names)
        assert "index TABLE run record_index --rebuild" in refused.value.next_step
    table.ingest(rows(("k1", "p1", 7)))
    assert table.read().num_rows == 10


def partitions_named(table: Table, *keys: str) -> set[str]:
    """Where the record index says that keys are."""
    opened = Opened.of(table.context.storage)
    metadata = open_metadata(table.context.storage, opened.config, opened.timeline)
    assert metadata is not None
    return {path.removeprefix("part=") for path, _ in groups_of_keys(metadata, keys)}


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", ["bucket", "bloom", "simple"])
def test_a_delete_of_what_is_nowhere_leaves_the_record_of_its_key(tmp_path: Path, kind, index: IndexName) -> None:
    table = made(tmp_path / "t", kind, index)
    table.indexing.run(partitions=["record_index"])
    table.ingest(rows(("k1", "p1", 100)))
    table.ingest(rows(("k1", "p0", 0), ("k0", "p1", 0)), "delete")
    assert (table.read().num_rows, partitions_named(table, "k0"), partitions_named(table, "k1")) == (10, {"p0"}, {"p1"})
    assert verify_table(table.context.storage, deep=True, index=True).findings == ()


@pytest.mark.parametrize("index", ["bucket", "simple"])
def test_a_delete_of_where_a_key_was_before_leaves_its_record(tmp_path: Path, index: IndexName) -> None:
    table = made(tmp_path / "t", "mor", index)
    table.indexing.run(partitions=["record_index"])
    table.ingest(rows(("k0", "p0", 0)), "delete")
    table.ingest(rows(("k0", "p1", 1)))
    table.ingest(rows(("k0", "p0", 0)), "delete")
    assert (table.read(["id"], "id = 'k0'").num_rows, partitions_named(table, "k0")) == (1, {"p1"})
    assert verify_table(table.context.storage, deep=True, index=True).findings == ()


def test_a_record_of_a_key_that_a_log_file_deleted_is_no_fault_beside_another_index(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "mor", "bucket")
    table.indexing.run(partitions=["record_index"])
    table.ingest(rows(("k0", "p0", 0)), "delete")
    assert partitions_named(table, "k0") == {"p0"}
    assert {one.severity for one in verify_table(table.context.storage, deep=True, index=True).findings} == {"info"}
    table.delete_partition(["part=p0"])
    table.ingest(rows(("k0", "p1", 7)))
    assert (table.read(["id"], "id = 'k0'").num_rows, partitions_named(table, "k0")) == (1, {"p1"})
    assert verify_table(table.context.storage, deep=True, index=True).findings == ()


def test_a_delete_removes_the_record_of_its_key_where_that_led_to_it(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "mor")
    table.ingest(rows(("k0", "p0", 0)), "delete")
    assert partitions_named(table, "k0") == set()
    assert verify_table(table.context.storage, deep=True, index=True).findings == ()


@pytest.mark.parametrize("names", [None, "record_index"])
def test_its_record_index_is_built_anew(tmp_path: Path, names: str | None) -> None:
    table = made(tmp_path / "t", "cow")
    for file in (tmp_path / "t/.hoodie/metadata/record_index").iterdir():
        file.unlink()
    with pytest.raises(Unsupported, match="which locates the rows of this table, cannot be read") as refused:
        table.ingest(rows(("k1", "p1", 7)))
    assert "index TABLE run record_index --rebuild" in refused.value.next_step
    assert table.indexing.run(partitions=["record_index"]).instant is None
    assert "record_index" in table.indexing.run(partitions=names, rebuild=True).partitions
    table.ingest(rows(("k1", "p1", 7)))
    assert table.read().num_rows == 10
    assert verify_table(table.context.storage, deep=True, index=True).findings == ()


def test_a_build_without_names_has_the_record_index(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "cow")
    lost = [one for one in table.config.metadata_partitions if one != "record_index"]
    drop_metadata(table._session, ["record_index"], to_build=["record_index"])
    assert list(table.config.metadata_partitions) == lost
    assert table.indexing.run().partitions == ("record_index",)


@pytest.mark.parametrize("compacts", [False, True])
def test_a_record_that_outlives_its_file_group_is_in_nobodys_way(tmp_path: Path, compacts: bool) -> None:
    """A delete by event time leaves the record, since a row elsewhere may win; then the group is replaced."""
    schema = pa.schema([*SCHEMA, ("_hoodie_is_deleted", pa.bool_())])

    def flagged(key: str, part: str, value: int, gone: bool) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(schema.names, (key, part, value, gone), strict=True))], schema=schema)

    table = Table.create(
        str(tmp_path / "t"),
        name="t",
        record_key=["id"],
        schema=schema,
        partition_by=["part"],
        ordering="value",
        table_type="mor",
        index="record_index",
    )
    table.ingest(pa.concat_tables([flagged("k0", "p0", 1, False), flagged("k1", "p0", 1, False)]))
    table.ingest(flagged("k0", "p0", 2, True))
    if compacts:
        table.compaction.run()
    table.ingest(flagged("k1", "p0", 2, False), "insert_overwrite")
    assert partitions_named(table, "k0") == {"p0"}
    assert table.ingest(flagged("k0", "p1", 3, False)).inserted == 1
    assert partitions_named(table, "k0") == {"p1"}
    assert table.read(["id", "part"]).to_pydict() == {"id": ["k1", "k0"], "part": ["p0", "p1"]}
    assert verify_table(table.context.storage, deep=True, index=True).findings == ()
