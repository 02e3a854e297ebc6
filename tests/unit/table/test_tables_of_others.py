"""Goal: rows of tables that other writers made are read as Apache Hudi reads them, or refused by name before the first one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops import HudiOpsError, InvalidRequest, Table, Unsupported
from hudi_ops.commit.ledger import carried_keys
from hudi_ops.config.table import (
    INDEX_DEFINITIONS_PATH,
    METADATA_PARTITIONS,
    PARTITION_EXTRACTOR,
    PROPERTIES_PATH,
    SLASH_DATES,
    index_kind,
)
from hudi_ops.files.base.base_file import WriterSettings
from hudi_ops.files.base.widen import widen
from hudi_ops.files.log.log_file import LogFileReader, encode_log_file
from hudi_ops.formats.avro.schema import to_avro
from hudi_ops.formats.log.blocks import HeaderKey
from hudi_ops.metadata.index_definitions import encode_index_definitions
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.services.create.adoption import AdoptionOptions
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Pointer
from hudi_ops.view.columns import slices
from tests.definitions import Definition
from tests.protocol.foreign_table import make_foreign, set_properties
from tests.tables import (
    BY_HAND,
    BY_RECORD_INDEX,
    DEFINITION,
    NOW_MS,
    PLAIN_SCHEMA,
    START_MS,
    by_key,
    made,
    plain_rows,
    rows,
    table_of,
)

MILLIS, MICROS = pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")
TIMED = pa.schema([("id", pa.string()), ("at", MILLIS), ("n", pa.int64())])
START = datetime(2020, 1, 1, tzinfo=UTC)
NUMBER = int(START.timestamp() * 1000)


FOREIGN = {
    "hoodie.table.name": "t",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.table.keygenerator.type": "SIMPLE",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "part",
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
    "hoodie.datasource.write.hive_style_partitioning": "false",
    "hoodie.datasource.write.partitionpath.urlencode": "false",
}
"""Properties of a table that Apache Hudi 1.2.0 made by the data source."""


def foreign(schema: pa.Schema = PLAIN_SCHEMA, **properties: str) -> MemoryStorage:
    """A table of Apache Hudi without a commit."""
    storage = MemoryStorage("t")
    text = {**FOREIGN, "hoodie.table.create.schema": json.dumps(to_avro(schema, "t")), **properties}
    storage.put(PROPERTIES_PATH, "".join(f"{key}={value}\n" for key, value in text.items()).encode())
    return storage


def timed(*values: tuple[str, int, int]) -> pa.Table:
    """Rows of `TIMED`: key, milliseconds after `START`, value."""
    return pa.table([[key for key, _, _ in values], [NUMBER + at for _, at, _ in values], [n for _, _, n in values]],
                    schema=pa.schema([TIMED.field(0), ("at", pa.int64()), TIMED.field(2)])).cast(TIMED)  # fmt: skip


def mislabel(storage: MemoryStorage) -> None:
    """Label milliseconds of all base files as microseconds, with their numbers unchanged."""
    for info in storage.list():
        if info.path.endswith(".parquet") and not info.path.startswith(".hoodie"):
            file = pq.ParquetFile(pa.BufferReader(storage.get(info.path)))
            found, at = file.read(), file.schema_arrow.get_field_index("at")
            column = pa.chunked_array([chunk.view(MICROS) for chunk in found["at"].chunks], MICROS)
            found = found.set_column(at, "at", column)
            sink = pa.BufferOutputStream()
            with pq.ParquetWriter(sink, found.schema, store_schema=False) as writer:
                writer.write_table(found)
                writer.add_key_value_metadata(file.metadata.metadata)
            storage.put(info.path, sink.getvalue())


@pytest.mark.parametrize(
    ("wrap", "value"),
    [
        (lambda kind: kind, NUMBER),
        (lambda kind: pa.struct([("a", kind), ("b", pa.int32())]), {"a": NUMBER, "b": 1}),
        (lambda kind: pa.list_(pa.field("element", kind)), [NUMBER, None]),
        (lambda kind: pa.map_(pa.string(), kind), [("a", NUMBER)]),
    ],
)
def test_milliseconds_labelled_as_microseconds_keep_their_number(
    wrap: Callable[[pa.DataType], pa.DataType], value: Any
) -> None:
    stored = pa.chunked_array([pa.array([value, None], wrap(MICROS)), pa.array([], wrap(MICROS))])
    expected = pa.array([value, None], wrap(pa.int64())).cast(wrap(MILLIS))
    assert widen(stored, wrap(MILLIS)).combine_chunks().equals(expected)


@pytest.mark.parametrize("index", ["simple_bucket", "simple"])
def test_mislabelled_times_are_read_filtered_merged_and_rewritten_right(index: str) -> None:
    definition = Definition("timed", TIMED, ("id",), ordering="at", index=index, buckets=1, metadata=True)
    storage = made(definition, timed(("a", 999, 1), ("b", 2000, 1)))
    mislabel(storage)
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "writer", upkeep=BY_HAND)

    def shown(**query: Any) -> list[tuple[Any, ...]]:
        return sorted((row["id"], row["at"], row["n"]) for row in table.read(**query).to_pylist())

    def of(*values: tuple[str, int, int]) -> list[tuple[Any, ...]]:
        return [(row["id"], row["at"], row["n"]) for row in timed(*values).to_pylist()]

    assert shown() == of(("a", 999, 1), ("b", 2000, 1))
    assert shown(where="at = TIMESTAMP '2020-01-01 00:00:02'") == of(("b", 2000, 1))
    assert shown(where="at < TIMESTAMP '2019-12-31 00:00:00'") == []
    table.ingest(timed(("a", 998, 2), ("b", 2001, 2)))
    merged = of(("a", 999, 1), ("b", 2001, 2))
    assert shown() == merged
    mislabel(storage)
    if index == "simple":
        assert table.clustering.run(sort_by=["at"], rewrite=True).instant
    assert shown() == merged


def test_a_partitioned_record_index_is_refused_by_name_and_never_rebuilt_as_a_global_one() -> None:
    storage = made(BY_RECORD_INDEX, rows(("a", "p", 1, 1, None)))
    definitions = load_index_definitions(storage)
    partitioned = replace(definitions["record_index"], options={"isPartitioned": "true"})
    storage.put(INDEX_DEFINITIONS_PATH, encode_index_definitions({**definitions, "record_index": partitioned}))
    for info in storage.list(".hoodie/metadata/record_index"):
        storage.put(info.path.replace("record-index-", "record-index-p0-"), storage.get(info.path))
        storage.delete(info.path)
    before = {info.path: storage.get(info.path) for info in storage.list()}
    clock = ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "writer", upkeep=BY_HAND)
    calls: list[Callable[[], object]] = [
        lambda: table.ingest(rows(("b", "p", 1, 1, None))),
        lambda: table.indexing.run(partitions=("record_index",), rebuild=True),
        lambda: table.indexing.run(rebuild=True),
    ]
    for call in calls:
        with pytest.raises(Unsupported, match="partitioned record index"):
            call()
    report = table.verify()
    assert [(each.severity, each.invariant) for each in report.findings if "record_index" in each.where] == [
        ("info", "metadata-unread")
    ]
    assert table.read(["id"], where="id = 'a'")["id"].to_pylist() == ["a"]
    assert {info.path: storage.get(info.path) for info in storage.list()} == before

    strange = foreign(**{METADATA_PARTITIONS: "files,record_index"})
    strange.put(INDEX_DEFINITIONS_PATH, storage.get(INDEX_DEFINITIONS_PATH))
    for given in (AdoptionOptions(index="record_index"), AdoptionOptions(services_only=True)):
        with pytest.raises(Unsupported, match="partitioned record index"):
            table_of(strange, clock, "adopter", given).adopt()


SLASHED = [
    {PARTITION_EXTRACTOR: "org.apache.hudi.hive.SlashEncodedDayPartitionValueExtractor"},
    {SLASH_DATES: "true"},
]


@pytest.mark.parametrize("settings", SLASHED)
def test_slash_separated_dates_are_written_to_the_folders_of_apache_hudi(settings: dict[str, str]) -> None:
    storage = foreign(**settings)
    table = table_of(storage, ManualClock(START_MS, tick_ms=1), "w", AdoptionOptions(index="simple"), upkeep=BY_HAND)
    table.ingest(plain_rows(("a", "2024-03-05", 1), ("b", "2018/08/31", 1)))
    done = table.ingest(plain_rows(("a", "2024-03-05", 2), ("b", "2018-08-31", 2)))
    assert (done.inserted, done.updated) == (0, 2)
    folders = {info.path.rpartition("/")[0] for info in storage.list() if info.path.endswith(".parquet")}
    assert {folder for folder in folders if not folder.startswith(".")} == {"2024/03/05", "2018/08/31"}
    assert table.read(["id", "value"], where="part = '2024-03-05'").to_pylist() == [{"id": "a", "value": 2}]
    for strange in ("today", "2024-3-5", "2024-03-05 "):
        with pytest.raises(InvalidRequest, match="not a date") as raised:
            table.ingest(plain_rows(("a", "2024-03-05", 3), ("c", strange, 3)))
        assert raised.value.details["row"] == 1
    assert table.verify(deep=True).errors == ()


@pytest.mark.parametrize("settings", SLASHED)
def test_slash_separated_dates_beside_another_form_of_paths_are_refused(settings: dict[str, str]) -> None:
    hive = "hoodie.datasource.write.hive_style_partitioning"
    table = table_of(foreign(**settings, **{hive: "true"}), ManualClock(NOW_MS), "w", AdoptionOptions(index="simple"))
    with pytest.raises(Unsupported, match="slash-separated dates"):
        table.adopt()


@pytest.mark.parametrize("settings", SLASHED)
def test_a_setting_of_slash_separated_dates_that_comes_later_stops_writes(settings: dict[str, str]) -> None:
    storage = foreign()
    clock = ManualClock(START_MS, tick_ms=1)
    table_of(storage, clock, "w", AdoptionOptions(index="simple"), upkeep=BY_HAND).ingest(
        plain_rows(("a", "2024-03-05", 1))
    )
    set_properties(storage, settings)
    with pytest.raises(HudiOpsError, match=r"slash|extractor"):
        table_of(storage, ManualClock(NOW_MS, tick_ms=1), "v", upkeep=BY_HAND).ingest(
            plain_rows(("a", "2024-03-05", 2))
        )
    # Of a table that has such dates, a writer may add the other name of the setting.
    storage = foreign(**settings)
    table_of(storage, clock, "w", AdoptionOptions(index="simple"), upkeep=BY_HAND).ingest(
        plain_rows(("a", "2024-03-05", 1))
    )
    set_properties(storage, {**SLASHED[0], **SLASHED[1]})
    done = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "v", upkeep=BY_HAND).ingest(
        plain_rows(("a", "2024-03-05", 2))
    )
    assert (done.inserted, done.updated) == (0, 1)


def test_slash_separated_dates_whose_column_no_file_holds_are_refused() -> None:
    storage = foreign(**SLASHED[0], **{"hoodie.datasource.write.drop.partition.columns": "true"})
    with pytest.raises(Unsupported, match="lack the partition column"):
        table_of(storage, ManualClock(NOW_MS), "w", AdoptionOptions(index="simple")).adopt()


def test_slashes_in_partition_values_that_no_setting_announces_are_refused_by_adoption() -> None:
    storage = foreign(**SLASHED[0])
    clock = ManualClock(START_MS, tick_ms=1)
    table_of(storage, clock, "w", AdoptionOptions(index="simple"), upkeep=BY_HAND).ingest(
        plain_rows(("a", "2024/03/05", 1))
    )
    unnamed = foreign()
    for info in storage.list():
        if not info.path.startswith((".hoodie/.commit_log/", PROPERTIES_PATH)):
            body = storage.get(info.path)
            unnamed.put(info.path, body.replace(POINTER_KEY.encode(), b"x" * len(POINTER_KEY)))
    adopter = table_of(unnamed, ManualClock(NOW_MS, tick_ms=1), "v", AdoptionOptions(index="simple"))
    with pytest.raises(Unsupported, match="have slashes") as raised:
        adopter.adopt()
    assert raised.value.details["partition"] == "2024/03/05"
    services = table_of(unnamed, ManualClock(NOW_MS, tick_ms=1), "v", AdoptionOptions(services_only=True))
    assert services.adopt(dry_run=True).index == "other"


def test_adoption_names_what_other_writers_must_set() -> None:
    schema = pa.schema([*PLAIN_SCHEMA, ("at", pa.struct([("a", MILLIS)]))])
    storage = foreign(schema, **{"hoodie.table.version": "8", METADATA_PARTITIONS: "files"})
    advice = table_of(storage, ManualClock(NOW_MS), "a", AdoptionOptions(index="simple")).adopt(dry_run=True).advice
    assert ["hoodie.metadata.auto.delete.partitions=false" in advice[0], "columns at " in advice[1]] == [True, True]
    ringed = table_of(
        foreign(**{"hoodie.table.type": "MERGE_ON_READ"}),
        ManualClock(NOW_MS),
        "a",
        AdoptionOptions(index="consistent_bucket", buckets=2),
    ).adopt()
    assert ["SimpleConcurrentFileWritesConflictResolutionStrategy" in each for each in ringed.advice] == [True]


def test_a_table_of_version_8_holds_times_in_microseconds() -> None:
    storage = made(Definition("timed", pa.schema([*TIMED, ("s", pa.list_(pa.timestamp("s")))]), ("id",), version=8))
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "w", upkeep=BY_HAND)
    table.ingest(timed(("a", 1, 1)).append_column("s", pa.array([[START]], pa.list_(MILLIS))))
    later = (
        timed(("b", 2, 1))
        .append_column("s", pa.array([None], pa.list_(MILLIS)))
        .append_column("t", pa.array([START], MILLIS))
        .append_column("r", pa.array([{"a": 1}], pa.struct([("a", pa.int64())])))
    )
    table.ingest(later, evolve=True)
    record = pa.array([{"a": 1, "t": START}], pa.struct([("a", pa.int64()), ("t", MILLIS)]))
    nested = later.set_column(later.schema.get_field_index("r"), "r", record)
    table.ingest(nested, evolve=True)
    assert table.schema.field("r").type.field("t").type == MICROS
    assert [table.schema.field(name).type for name in ("at", "t")] == [MICROS, MICROS]
    assert table.schema.field("s").type.value_type == MICROS
    assert table.read(["at", "t"], where="id = 'b'").to_pylist() == [
        {"at": START + timedelta(milliseconds=2), "t": START}
    ]


@pytest.mark.parametrize("index", ["simple", "bloom"])
@pytest.mark.parametrize("has_base", [True, False])
def test_keys_that_lie_in_log_files_alone_are_found(index: str, has_base: bool) -> None:
    """As Flink and the Java client write them: a new key in a log file of a group, which may have no base file."""
    logged = replace(DEFINITION, table_type="MERGE_ON_READ", index=index)
    storage = make_foreign(made(logged, rows(("a", "p", 1, 1, None)), rows(("a", "p", 2, 2, None))))
    for info in storage.list(".hoodie/timeline"):
        if info.name.endswith(".deltacommit"):
            metadata = CommitMetadata.from_bytes(storage.get(info.path), info.path)
            extra = {"schema": metadata.extra["schema"]}
            stats = tuple(stat for stat in metadata.stats if has_base or ".log." in stat.path)
            storage.put(info.path, replace(metadata, extra=extra, stats=stats).to_bytes())
    (log,) = (info.path for info in storage.list() if ".log." in info.path and not info.path.startswith("."))
    (base,) = (info.path for info in storage.list() if info.path.endswith(".parquet") and not info.path.startswith("."))
    reader = LogFileReader(storage, log)
    (block,) = reader.blocks
    held = reader.rows(block)
    for name in ("_hoodie_record_key", "id"):
        at = held.schema.get_field_index(name)
        held = held.set_column(at, held.schema.field(name), pa.array(["b"], pa.string()))
    body = encode_log_file(
        held, [], instant=block.instant, partition_path="", avro_schema=block.headers[HeaderKey.SCHEMA], data_format="parquet",
        settings=WriterSettings(),
    )  # fmt: skip
    storage.put(log, body)
    if not has_base:
        storage.delete(base)
    table = table_of(
        storage, ManualClock(NOW_MS, tick_ms=1), "w", AdoptionOptions(index=index_kind(index)), upkeep=BY_HAND
    )
    before = {"a": 1, "b": 2} if has_base else {"b": 2}
    assert by_key(table) == before
    done = table.ingest(rows(("b", "p", 3, 3, None)))
    assert (done.inserted, done.logged) == (0, 1)
    assert by_key(table) == {**before, "b": 3}
    table.ingest(rows(("b", "p", 4, 4, None)), operation="delete")
    assert by_key(table) == {key: value for key, value in before.items() if key != "b"}
    assert table.verify(deep=True).errors == ()


VECTOR = {
    "type": "fixed", "name": "vector_float_3", "size": 12, "logicalType": "vector", "dimension": 3, "elementType": "FLOAT",
    "storageBacking": "FIXED_BYTES",
}  # fmt: skip


@pytest.mark.parametrize("index", ["simple", "bucket"])
def test_vector_columns_keep_their_types_through_every_rewrite(index: str) -> None:
    fields = [
        {"name": "id", "type": ["null", "string"], "default": None},
        {"name": "emb", "type": ["null", VECTOR], "default": None},
        {"name": "other", "type": ["null", "vector_float_3"], "default": None},
    ]
    avro = {"type": "record", "name": "t_record", "namespace": "hoodie.t", "fields": fields}
    properties = {"hoodie.table.type": "MERGE_ON_READ", "hoodie.table.partition.fields": ""}
    storage = foreign(**properties, **{"hoodie.table.create.schema": json.dumps(avro)})
    options = AdoptionOptions(index=index_kind(index), buckets=1 if index == "bucket" else None)
    table = table_of(storage, ManualClock(START_MS, tick_ms=1), "w", options, upkeep=BY_HAND)
    values = pa.array([b"abcdefghijkl", None], pa.binary(12))
    schema = pa.schema([("id", pa.string()), ("emb", pa.binary(12)), ("other", pa.binary(12))])
    table.ingest(pa.table([pa.array(["a", "b"]), values, values], schema=schema))
    table.ingest(pa.table([pa.array(["b", "c"]), values, values], schema=schema))
    table.ingest(pa.table([pa.array(["b"]), values[:1], values[1:]], schema=schema))
    table.indexing.run(partitions=("column_stats",))
    assert table.compaction.run().instant is not None
    if index == "simple":
        assert table.clustering.run(sort_by=["id"], rewrite=True).instant is not None
    for info in storage.list():
        if info.path.endswith(".parquet") and not info.path.startswith("."):
            found = pq.ParquetFile(pa.BufferReader(storage.get(info.path))).metadata.metadata
            assert found[b"hoodie.vector.columns"] == b"emb:VECTOR(3),other:VECTOR(3)"
            kept = json.loads(found[b"parquet.avro.schema"])["fields"]
            assert [field["type"] for field in kept[-2:]] == [["null", VECTOR], ["null", "vector_float_3"]]
    wanted = ("emb = 'abcdefghijkl'", "emb in ('x', 'abcdefghijkl')", "emb = 'x'")
    found = [table.read(["id"], where=where).num_rows for where in wanted]
    assert found == [2, 2, 0]
    assert table.read(["id", "emb"]).sort_by("id")["emb"].to_pylist() == [b"abcdefghijkl", b"abcdefghijkl", None]
    assert table.verify(deep=True).findings == ()
    assert "emb" not in load_index_definitions(storage)["column_stats"].source_fields


def test_table_version_10_is_refused_with_the_setting_that_keeps_a_fleet_at_9() -> None:
    storage = foreign(**{"hoodie.table.version": "10"})
    for call in (lambda table: table.read(), lambda table: table.verify(), lambda table: table.adopt()):
        with pytest.raises(Unsupported, match="version 10 cannot be opened: its log files") as raised:
            call(table_of(storage, ManualClock(NOW_MS), "reader"))
        assert "hoodie.write.auto.upgrade=false" in raised.value.next_step


def test_a_commit_carries_the_extra_metadata_of_a_streaming_job_on() -> None:
    storage = made(DEFINITION, rows(("a", "p", 1, 1, None)))
    written = max(info.path for info in storage.list(".hoodie/timeline") if info.path.endswith(".commit"))
    stored = make_foreign(storage)
    metadata = CommitMetadata.from_bytes(stored.get(written), written)
    extra = {**metadata.extra, "_offset": "7", "_hoodie.spark.sql.merge.into.prepped": "false"}
    stored.put(written, replace(metadata, extra=extra).to_bytes())
    table = table_of(stored, ManualClock(NOW_MS, tick_ms=1), "w", AdoptionOptions(buckets=2), upkeep=BY_HAND)
    for number in range(12):
        table.ingest(rows(("a", "p", number, 2 + number, None)))
    newest = max(info.path for info in stored.list(".hoodie/timeline") if info.path.endswith(".commit"))
    kept = CommitMetadata.from_bytes(stored.get(newest), newest).extra
    assert {key: value for key, value in kept.items() if key.startswith("_")} == {"_offset": "7"}


def test_the_newest_value_of_a_carried_key_counts_and_none_beyond_our_commit_that_repeats() -> None:
    def ours(*, shared: bool) -> dict[str, str]:
        return {POINTER_KEY: Pointer("t", 1, 0, -1, "", None, shared).encode(), "hudi_ops.ledger.s": "y", "schema": "s"}

    def carried(*extras: dict[str, str], pending: tuple[str, ...] = ()) -> dict[str, str]:
        timeline: Any = SimpleNamespace(
            newest_first=tuple(range(len(extras))),
            pending=[SimpleNamespace(is_write=True, time=time) for time in pending],
        )
        commits: Any = SimpleNamespace(metadata=lambda _, at: SimpleNamespace(extra=extras[at]))
        return carried_keys(commits, timeline, "5")

    foreign = [
        {"schema": "new", "_a": "3", "latest_schema": "s"},
        {"_a": "2", "_b": "2", "deltastreamer.checkpoint.key": "1"},
    ]
    last = {"_d": "0"}
    assert carried(*foreign, ours(shared=True) | {"_b": "1", "_c": "1"}, last) == {"_a": "3", "_b": "2", "_c": "1"}
    assert carried(ours(shared=True), *foreign, last) == {"_a": "3", "_b": "2", "_d": "0"}
    assert carried(ours(shared=False), *foreign) == {}
    assert carried(*foreign, pending=("6",)) == {"_a": "3", "_b": "2"}
    assert carried(*foreign, pending=("4",)) == {}


def test_a_skeleton_of_a_bootstrap_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = made(DEFINITION, rows(("a", "p", 1, 1, None)))
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "reader")
    (written,) = (
        info.path for info in storage.list() if info.path.endswith(".parquet") and not info.path.startswith(".")
    )
    monkeypatch.setattr(slices, "METADATA_BOOTSTRAP", written.rpartition("_")[2].removesuffix(".parquet"))
    reads: list[Callable[[Table], object]] = [
        lambda table: table.read(),
        lambda table: table.read(["value"], where="value is not null", query="read_optimized"),
        lambda table: table.scan(),
        lambda table: table.changes(),
    ]
    for read in reads:
        with pytest.raises(Unsupported, match="meta columns alone") as raised:
            read(table)
        assert raised.value.details["file"] == written
