"""Goal: what each operation leaves in the table, on the timeline and in its counts; and which calls are refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.config.definition import IndexName
from hudi_ops.errors import Busy, InvalidRequest
from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline.timeline_schemas import REQUESTED_REPLACE_METADATA
from hudi_ops.services.write.operations import INGESTING, Replaces, parse_operation
from hudi_ops.table.table import Table
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.verify import verify_table
from tests.tables import of_schema, table_of

SCHEMA = pa.schema([
    ("id", pa.string()), ("p", pa.string()), ("v", pa.int64()), ("ts", pa.int64()), ("_hoodie_is_deleted", pa.bool_()),
])  # fmt: skip
Shown = list[tuple[str, str, int]]


def rows(*values: tuple[object, ...]) -> pa.Table:
    padded = [(*one, *(1, None)[len(one) - 3 :]) for one in values]
    return of_schema(SCHEMA, padded)


FIRST = rows(*[(f"k{n}", f"p{n % 3}", n) for n in range(12)])


def shown(table: Table, as_of: str | None = None) -> Shown:
    found = table.read(["id", "p", "v"], as_of=as_of).to_pylist()
    return sorted((one["id"], one["p"], one["v"]) for one in found)


def of(data: pa.Table, *partitions: str) -> Shown:
    return sorted((one["id"], one["p"], one["v"]) for one in data.to_pylist() if one["p"] in partitions)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(
        str(tmp_path / "t"),
        name="t",
        record_key=["id"],
        schema=SCHEMA,
        partition_by=["p"],
        ordering="ts",
        buckets=2,
    )
    made.ingest(FIRST)
    return made


def newest(table: Table, kind: str = "replacecommit") -> CommitMetadata:
    storage = table.context.storage
    info = max((one for one in storage.list(".hoodie/timeline") if one.name.endswith(f".{kind}")), key=lambda f: f.name)
    return CommitMetadata.from_bytes(storage.get(info.path), info.path)


def healthy(table: Table) -> None:
    assert verify_table(table.context.storage, deep=True).findings == ()


def test_bulk_insert_adds_rows_without_looking_keys_up(table: Table) -> None:
    result = table.ingest(rows(("n1", "p0", 1), ("k0", "p0", 100), ("n2", "p9", 2), ("n2", "p9", 3)), "bulk_insert")
    assert (result.operation, result.inserted, result.updated, result.replaced) == ("bulk_insert", 4, 0, 0)
    added = [("n1", "p0", 1), ("k0", "p0", 100), ("n2", "p9", 2), ("n2", "p9", 3)]
    assert shown(table) == sorted([*of(FIRST, "p0", "p1", "p2"), *added])
    written = newest(table, "commit")
    assert (written.operation, written.replaced) == ("BULK_INSERT", None)
    assert sum(stat.num_inserts for stat in written.stats) == 4
    assert all(stat.num_update_writes == 0 for stat in written.stats)
    # Doubled keys are said by a verification, and healed by the next upsert of them.
    assert {(one.severity, one.invariant) for one in verify_table(table.context.storage, deep=True).findings} == {
        ("warning", "duplicate-key")
    }
    table.ingest(rows(("k0", "p0", 101), ("n2", "p9", 4)))
    assert ("k0", "p0", 101) in shown(table)
    assert [one for one in shown(table) if one[0] in {"k0", "n2"}] == [("k0", "p0", 101), ("n2", "p9", 4)]
    healthy(table)


@pytest.mark.parametrize(
    ("index", "upserted", "deleted"),
    [("bucket", [3], []), ("simple", [3, 3], []), ("bloom", [3, 3], []), ("record_index", [1, 3], [1])],
)
def test_a_doubled_key_is_made_one_by_the_bucket_index_alone(
    tmp_path: Path, index: IndexName, upserted: list[int], deleted: list[int]
) -> None:
    """As docs/tables.md says under "Write rows"."""
    table = Table.create(str(tmp_path / "t"), name="t", record_key="id", schema="id string, n int", index=index)
    for number, operation in ((1, "bulk_insert"), (2, "bulk_insert"), (3, "upsert")):
        table.ingest(pa.table({"id": ["a"], "n": pa.array([number], pa.int32())}), operation)
    assert sorted(table.read(["n"])["n"].to_pylist()) == upserted
    table.ingest(pa.table({"id": ["a"]}), "delete")
    assert table.read(["n"])["n"].to_pylist() == deleted


def test_bulk_insert_of_rows_that_delete_writes_nothing(table: Table) -> None:
    result = table.ingest(rows(("k0", "p0", 0, 9, True)), "bulk_insert")
    assert (result.inserted, result.deleted, result.file_groups) == (0, 0, 0)
    assert shown(table) == of(FIRST, "p0", "p1", "p2")


def test_insert_overwrite_replaces_the_partitions_that_the_rows_touch(table: Table) -> None:
    before = table.ingest(rows(("k0", "p0", 50, 2))).instant
    result = table.ingest(
        rows(("k0", "p0", 7, 1), ("x", "p0", 1, 2), ("x", "p0", 2, 1), ("y", "p9", 9)), "insert_overwrite"
    )
    now = sorted([("k0", "p0", 7), ("x", "p0", 1), ("y", "p9", 9), *of(FIRST, "p1", "p2")])
    assert shown(table) == now, "the largest ordering value of the batch wins, and nothing of before counts"
    assert (result.inserted, result.updated, result.ignored, result.replaced) == (3, 0, 0, 2)
    assert shown(table, before) != now
    assert ("k0", "p0", 50) in shown(table, before)
    said = newest(table)
    assert said.operation == "INSERT_OVERWRITE"
    assert said.replaced is not None
    assert {path: len(ids) for path, ids in said.replaced.items()} == {"p=p0": 2, "p=p9": 0}
    hidden = {group for ids in said.replaced.values() for group in ids}
    assert not hidden & {stat.file_id for stat in said.stats}, "what replaces has file groups of its own"
    assert all(stat.prev_commit == "null" for stat in said.stats)
    healthy(table)
    table.ingest(rows(("k0", "p0", 8, 0), ("x", "p0", 0, 9, True), ("k1", "p1", 10, 2)))
    assert [one for one in shown(table) if one[1] == "p0"] == [("k0", "p0", 7)]
    assert ("k1", "p1", 10) in shown(table)
    healthy(table)


def test_insert_overwrite_table_replaces_everything(table: Table) -> None:
    before = shown(table)
    instant = table.ingest(rows(("late", "p0", 0))).instant
    result = table.ingest(rows(("k1", "p1", 5), ("z", "p7", 6)), "insert_overwrite_table")
    assert shown(table) == [("k1", "p1", 5), ("z", "p7", 6)]
    assert shown(table, instant) == sorted([*before, ("late", "p0", 0)])
    said = newest(table)
    assert (said.operation, result.replaced) == ("INSERT_OVERWRITE_TABLE", 6)
    assert {path: len(ids) for path, ids in (said.replaced or {}).items()} == {
        "p=p0": 2,
        "p=p1": 2,
        "p=p2": 2,
        "p=p7": 0,
    }
    healthy(table)


def test_an_overwrite_of_rows_that_all_delete_leaves_the_partition_empty(table: Table) -> None:
    table.ingest(rows(("k0", "p0", 0, 1, True)), "insert_overwrite")
    assert shown(table) == of(FIRST, "p1", "p2")
    with pytest.raises(InvalidRequest, match="p=p0"):
        table.delete_partition(["p=p0"])
    healthy(table)


def test_no_rows_never_empty_a_table(table: Table, tmp_path: Path) -> None:
    empty = FIRST.slice(0, 0)
    before = [info.path for info in table.context.storage.list()]
    assert table.ingest(empty, "insert_overwrite").instant is None
    (tmp_path / "in").mkdir()
    pq.write_table(empty, tmp_path / "in" / "empty.parquet")
    for call in (table.ingest, lambda _, how: table.ingest_folder(str(tmp_path / "in"), how)):
        with pytest.raises(InvalidRequest, match="would empty the table"):
            call(empty, "insert_overwrite_table")
    assert [info.path for info in table.context.storage.list()] == before


def test_new_files_of_a_folder_overwrite(table: Table, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    for number in range(3):
        pq.write_table(rows((f"f{number}", "p0", number)), landing / f"{number}.parquet")
        result = table.ingest_folder(str(landing), "insert_overwrite")
        assert (result.files, result.rows_in) == (1, 1)
        assert [one for one in shown(table) if one[1] == "p0"] == [(f"f{number}", "p0", number)]
    assert table.ingest_folder(str(landing), "insert_overwrite").instant is None
    table.truncate()
    assert table.ingest_folder(str(landing)).instant is None, "a truncated table keeps its record of what was taken"
    healthy(table)


def test_delete_partition(table: Table) -> None:
    planned = table.delete_partition(["p=p1", "p=p[2]"], dry_run=True)
    assert (planned.instant, planned.dry_run, planned.rows, planned.file_groups) == (None, True, 8, 4)
    assert [(one.path, one.file_groups, one.rows) for one in planned.partitions] == [("p=p1", 2, 4), ("p=p2", 2, 4)]
    assert shown(table) == of(FIRST, "p0", "p1", "p2")
    before = max(i.name[:17] for i in table.context.storage.list(".hoodie/timeline") if i.name.endswith(".commit"))
    result = table.delete_partition(["p=p1", "/p=p2/"])
    assert result.as_dict() | {"instant": None, "completion_time": None, "seconds": 0, "dry_run": True} == (
        planned.as_dict() | {"instant": None, "completion_time": None, "seconds": 0, "dry_run": True}
    )
    assert shown(table) == of(FIRST, "p0")
    assert shown(table, before) == of(FIRST, "p0", "p1", "p2")
    said = newest(table)
    assert (said.operation, said.stats) == ("DELETE_PARTITION", ())
    assert {path: len(ids) for path, ids in (said.replaced or {}).items()} == {"p=p1": 2, "p=p2": 2}
    healthy(table)
    # It comes back with rows, in file groups of its own.
    table.ingest(rows(("k1", "p1", 77)))
    assert shown(table) == sorted([*of(FIRST, "p0"), ("k1", "p1", 77)])
    healthy(table)


def test_names_alone_do_not_list_the_table(table: Table) -> None:
    storage = FaultyStorage(table.context.storage)
    table = table_of(storage, table.context.clock, "counted")
    assert table.delete_partition(["p=p1"]).rows == 4
    listed = {point for point in storage.history if point.startswith("list_folder:p=")}
    assert listed == {"list_folder:p=p1"}


@pytest.mark.parametrize("pattern", ["p=p*", "p=??", "*"])
def test_partitions_by_pattern(table: Table, pattern: str) -> None:
    assert len(table.delete_partition([pattern, "p=p0"]).partitions) == 3
    assert shown(table) == []


@pytest.mark.parametrize(
    "wanted",
    [["p=p7"], ["p=p0", "p7"], ["q*"], ["p"], [""], ["/"], [], ["../t/p=p0"], [".hoodie/timeline"], ["p=p0/."]],
)
def test_a_partition_that_is_not_there_changes_nothing(table: Table, wanted: list[str]) -> None:
    before = [info.path for info in table.context.storage.list()]
    for dry_run in (True, False):
        with pytest.raises(InvalidRequest, match="p=p0, p=p1, p=p2"):
            table.delete_partition(wanted, dry_run=dry_run)
    assert [info.path for info in table.context.storage.list()] == before


def test_truncate(table: Table) -> None:
    before = shown(table)
    instant = table.ingest(rows(("k0", "p0", 100, 2))).instant
    assert table.truncate(dry_run=True).rows == 12
    result = table.truncate()
    assert (result.rows, result.file_groups, len(result.partitions)) == (12, 6, 3)
    assert shown(table) == []
    assert len(shown(table, instant)) == len(before)
    assert newest(table).operation == "INSERT_OVERWRITE_TABLE"
    again = table.truncate()
    assert (again.instant, again.note) == (None, "nothing to remove")
    assert table.schema == SCHEMA
    table.ingest(FIRST, "insert")
    assert shown(table) == before
    healthy(table)


def test_a_table_without_partitions(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA, buckets=3)
    with pytest.raises(InvalidRequest, match="no partitions"):
        table.delete_partition(["*"])
    assert table.truncate().instant is None
    table.ingest(FIRST)
    table.ingest(rows(("a", "p0", 1)), "insert_overwrite")
    assert shown(table) == [("a", "p0", 1)]
    assert list((newest(table).replaced or {}).keys()) == [""]
    table.ingest(rows(("b", "p0", 1)), "insert_overwrite_table")
    assert shown(table) == [("b", "p0", 1)]
    assert table.truncate().rows == 1
    assert shown(table) == []
    healthy(table)


def test_pending_services_of_hudi_on_replaced_groups_are_waited_for(table: Table) -> None:
    storage = table.context.storage
    one = next(i for i in storage.list("p=p0") if i.name.endswith(".parquet"))
    theirs = {
        "dataFilePath": one.name,
        "deltaFilePaths": [],
        "fileId": one.name.partition("_")[0],
        "partitionPath": "p=p0",
    }
    from hudi_ops.formats.timeline.timeline_schemas import COMPACTION_PLAN

    plan = avro.write_one(COMPACTION_PLAN, {"operations": [{**theirs, "baseInstantTime": "1"}], "version": 2})
    storage.put(".hoodie/timeline/20200101000000000.compaction.requested", plan)
    for call in (
        lambda: table.truncate(),
        lambda: table.delete_partition(["p=p0"]),
        lambda: table.ingest(rows(("k0", "p0", 1)), "insert_overwrite"),
    ):
        with pytest.raises(Busy, match="compaction"):
            call()
    assert shown(table) == of(FIRST, "p0", "p1", "p2")
    table.delete_partition(["p=p1"])
    assert shown(table) == of(FIRST, "p0", "p2")


def test_requested_and_inflight_say_what_apache_hudi_says(table: Table) -> None:
    storage = table.context.storage
    table.ingest(rows(("k0", "p0", 1)), "insert_overwrite")
    table.delete_partition(["p=p1"])
    table.truncate()
    said = []
    for info in sorted(storage.list(".hoodie/timeline"), key=lambda one: one.name):
        if info.name.endswith(".replacecommit.requested"):
            record = avro.read_one(storage.get(info.path))
            inflight = avro.read_one(storage.get(info.path.replace("requested", "inflight")))
            assert record.keys() == {"operationType", "clusteringPlan", "extraMetadata", "version"}
            said.append((record["operationType"], record["version"], inflight["operationType"]))
    assert said == [
        (None, None, "INSERT_OVERWRITE"),
        ("DELETE_PARTITION", 1, "DELETE_PARTITION"),
        (None, None, "INSERT_OVERWRITE_TABLE"),
    ]
    assert (
        avro.write_one(REQUESTED_REPLACE_METADATA, {"version": None}) == parse_operation("insert_overwrite").requested()
    )


@pytest.mark.parametrize("name", ["merge", "delete_partition", "TRUNCATE", ""])
def test_an_unknown_operation_names_the_known_ones(table: Table, name: str) -> None:
    with pytest.raises(InvalidRequest, match="insert_overwrite_table"):
        table.ingest(FIRST, name)


def test_operations_know_what_they_do() -> None:
    assert [name for name, one in INGESTING.items() if one.replaces is not Replaces.NOTHING] == [
        "insert_overwrite",
        "insert_overwrite_table",
    ]
    assert all(one.hudi_name == name.upper() for name, one in INGESTING.items())
    assert parse_operation("Insert_Overwrite") is INGESTING["insert_overwrite"]
