"""Log files as a whole: what real ones hold, what ours hold, which rows are refused, and how little is read of large ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.config.columns import META_COLUMNS
from hudi_ops.errors import Corrupt, Internal, InvalidRequest, NotFound, Unavailable, Unsupported
from hudi_ops.files.base.base_file import WriterSettings, stored_avro_schema
from hudi_ops.files.log.log_file import WHOLE_BYTES, LogBlock, LogFileReader, encode_log_file
from hudi_ops.formats.log.blocks import BlockKind, HeaderKey, encode_block
from hudi_ops.formats.log.deletes import Deletes
from hudi_ops.kernels.meta_columns import add_meta_columns
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage

INSTANT = "20261121021717365"
PATH = f"p=a/.f-0_{INSTANT}.log.1_0-0-0"
Format = Literal["parquet", "avro"]
FORMATS: Sequence[Format] = ("parquet", "avro")
KINDS = {"parquet": BlockKind.PARQUET_DATA, "avro": BlockKind.AVRO_DATA}
SCHEMA = pa.schema([
    ("id", pa.string()),
    ("v", pa.int32()),
    ("d", pa.decimal128(10, 2)),
    ("ts", pa.timestamp("us", "UTC")),
    ("tags", pa.list_(pa.field("element", pa.string()))),
    ("at", pa.struct([("x", pa.float64()), ("y", pa.date32())])),
    ("more", pa.map_(pa.string(), pa.int64())),
])


def data_rows(count: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([f"k{n}" for n in range(count)]),
            "v": pa.array([None if n % 4 == 0 else n for n in range(count)], pa.int32()),
            "d": pa.array(np.arange(count)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(10, 2), safe=False),
            "ts": pa.array(np.arange(count) * 1_000_003).cast(pa.timestamp("us", "UTC")),
            "tags": pa.array(
                [["a", None][: n % 3] if n % 5 else None for n in range(count)], SCHEMA.field("tags").type
            ),
            "at": pa.array([{"x": n / 7, "y": None} if n % 3 else None for n in range(count)], SCHEMA.field("at").type),
            "more": pa.array([[("a", n)] if n % 2 else [] for n in range(count)], SCHEMA.field("more").type),
        },
        schema=SCHEMA,
    )


def our_rows(count: int) -> pa.Table:
    data = data_rows(count)
    return add_meta_columns(
        data,
        keys=data.column("id").combine_chunks(),
        partition_path="p=a",
        instant=INSTANT,
        file_name="f-0",
        seqno_prefix=f"{INSTANT}_0_",
    )


def encode(rows: pa.Table | None, data_format: Format, deletes: Sequence[Deletes] = ()) -> pa.Buffer:
    return encode_log_file(
        rows,
        deletes,
        instant=INSTANT,
        partition_path="p=a",
        avro_schema=stored_avro_schema(SCHEMA, "t", meta_fields=True),
        data_format=data_format,
        settings=WriterSettings(),
    )


def reader_of(body: Any) -> LogFileReader:
    storage = MemoryStorage()
    storage.put(PATH, body)
    return LogFileReader(storage, PATH)


def plain(rows: pa.Table) -> pa.Table:
    return rows.cast(pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *SCHEMA]))


@pytest.mark.parametrize("data_format", FORMATS)
def test_rows_then_deletes_are_read_as_written(data_format: Format):
    rows = our_rows(100)
    deletes = [
        Deletes(pa.array(["k1"]), None),
        Deletes(pa.array([], pa.string()), None),
        Deletes(pa.array(["k2"]), pa.array([5])),
    ]
    reader = reader_of(encode(rows, data_format, deletes))
    assert [block.kind for block in reader.blocks] == [KINDS[data_format], BlockKind.DELETE, BlockKind.DELETE]
    assert [(block.number, block.instant) for block in reader.blocks] == [(0, INSTANT), (1, INSTANT), (2, INSTANT)]
    assert all(set(block.headers) == {HeaderKey.INSTANT_TIME, HeaderKey.SCHEMA} for block in reader.blocks)
    assert reader.corrupt_blocks == 0
    data = reader.blocks[0]
    assert reader.rows(data).combine_chunks() == plain(rows).combine_chunks()
    assert reader.schema(data).equals(plain(rows).schema)
    assert [one.keys.to_pylist() for block in reader.blocks[1:] for one in reader.deletes(block)] == [["k1"], ["k2"]]


@pytest.mark.parametrize("data_format", FORMATS)
def test_equal_input_gives_equal_bytes(data_format: Format):
    deletes = [Deletes(pa.array(["k1"]), pa.array([5]))]
    first = encode(our_rows(50), data_format, deletes)
    again = our_rows(50)
    assert encode(again.select(list(reversed(again.column_names))), data_format, deletes) == first


@pytest.mark.parametrize("data_format", FORMATS)
def test_wanted_columns_come_in_the_order_asked(data_format: Format):
    reader = reader_of(encode(our_rows(10), data_format))
    (block,) = reader.blocks
    wanted = ["more", "another", "_hoodie_record_key", "at"]
    found = reader.rows(block, wanted)
    assert found.column_names == ["more", "_hoodie_record_key", "at"]
    assert found.combine_chunks() == plain(our_rows(10)).select(found.column_names).combine_chunks()
    assert pa.Table.from_batches(reader.batches(block, wanted)).combine_chunks() == found.combine_chunks()
    assert reader.rows(block, []).num_columns == 0


@pytest.mark.parametrize("data_format", FORMATS)
def test_rows_come_in_batches(data_format: Format):
    rows = our_rows(150_000).select([*META_COLUMNS, "id", "v"])
    body = encode_log_file(
        rows,
        [],
        instant=INSTANT,
        partition_path="p=a",
        avro_schema=stored_avro_schema(pa.schema([SCHEMA.field("id"), SCHEMA.field("v")]), "t", meta_fields=True),
        data_format=data_format,
        settings=WriterSettings(),
    )
    reader = reader_of(body)
    batches = list(reader.batches(reader.blocks[0], ["id", "v"]))
    assert len(batches) >= 3
    assert pa.Table.from_batches(batches).combine_chunks() == rows.select(["id", "v"]).combine_chunks()


def test_parquet_blocks_are_whole_files_with_checksums_and_without_arrows_schema():
    reader = reader_of(encode(our_rows(1000), "parquet"))
    (block,) = reader.blocks
    body = encode(our_rows(1000), "parquet")
    file = pq.ParquetFile(pa.BufferReader(body.slice(block.content_offset, block.content_bytes)))
    assert set(file.metadata.metadata) == {b"org.apache.spark.version"}
    assert file.schema_arrow.names == [*META_COLUMNS, *SCHEMA.names]
    group = file.metadata.row_group(0)
    assert {group.column(place).compression for place in range(group.num_columns)} == {"ZSTD"}
    for place in range(0, block.content_bytes - 4000, 997):  # pages only: the footer has no checksum
        broken = bytearray(body)
        broken[block.content_offset + place] ^= 0x10
        with suppress(Corrupt):
            assert reader_of(bytes(broken)).rows(block) == reader.rows(block)


def test_columns_that_the_header_lacks_are_damage():
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": ["a"], "w": [1]}), sink)
    headers = {HeaderKey.INSTANT_TIME: INSTANT, HeaderKey.SCHEMA: stored_avro_schema(SCHEMA, "t", meta_fields=True)}
    reader = reader_of(encode_block(BlockKind.PARQUET_DATA, headers, sink.getvalue()))
    with pytest.raises(Corrupt, match=PATH) as caught:
        reader.rows(reader.blocks[0])
    assert caught.value.found == "other columns: w"


def test_parquet_needs_no_schema_in_the_header_and_avro_does():
    rows = our_rows(5)
    parquet, avro = encode(rows, "parquet"), encode(rows, "avro")
    for body, kind in ((parquet, BlockKind.PARQUET_DATA), (avro, BlockKind.AVRO_DATA)):
        (block,) = reader_of(body).blocks
        content = body.slice(block.content_offset, block.content_bytes)
        reader = reader_of(encode_block(kind, {HeaderKey.INSTANT_TIME: INSTANT}, content))
        if kind is BlockKind.PARQUET_DATA:
            assert reader.rows(reader.blocks[0]).num_rows == 5
        else:
            with pytest.raises(Corrupt, match=PATH):
                reader.rows(reader.blocks[0])


REFUSED: list[tuple[BlockKind, dict[HeaderKey, str]]] = [
    (BlockKind.HFILE_DATA, {}),
    (BlockKind.CDC_DATA, {}),
    (BlockKind.PARQUET_DATA, {HeaderKey.IS_PARTIAL: "true"}),
    (BlockKind.AVRO_DATA, {HeaderKey.IS_PARTIAL: "true"}),
]


@pytest.mark.parametrize(("kind", "headers"), REFUSED)
def test_rows_that_are_not_read_are_refused_when_asked_for(kind: BlockKind, headers: dict[HeaderKey, str]):
    reader = reader_of(encode_block(kind, {HeaderKey.INSTANT_TIME: INSTANT, **headers}, b"x"))
    (block,) = reader.blocks
    asks: list[Callable[[LogBlock], Any]] = [reader.rows, reader.schema, lambda one: list(reader.batches(one))]
    for ask in asks:
        with pytest.raises(Unsupported, match=PATH):
            ask(block)


def test_a_block_that_says_it_is_not_partial_is_read():
    (block,) = reader_of(body := encode(our_rows(2), "avro")).blocks
    headers = {
        **block.headers,
        HeaderKey.IS_PARTIAL: "false",
        HeaderKey.RECORD_POSITIONS: "x",
        HeaderKey.BLOCK_IDENTIFIER: "1,0",
    }
    reader = reader_of(encode_block(block.kind, headers, body.slice(block.content_offset, block.content_bytes)))
    assert reader.rows(reader.blocks[0]).num_rows == 2
    assert dict(reader.blocks[0].headers) == headers


def test_other_questions_than_a_block_can_answer_are_faults():
    reader = reader_of(encode(our_rows(2), "avro", [Deletes(pa.array(["a"]), None)]))
    with pytest.raises(Internal):
        reader.rows(reader.blocks[1])
    with pytest.raises(Internal):
        reader.deletes(reader.blocks[0])


@pytest.mark.parametrize("data_format", FORMATS)
def test_rows_with_other_columns_than_the_schema_are_refused(data_format: Format):
    for rows in (our_rows(2).drop_columns(["v"]), data_rows(2), our_rows(2).append_column("w", [[1, 2]])):
        with pytest.raises(InvalidRequest, match="columns"):
            encode(rows, data_format)


def test_no_rows_and_no_deletes_give_no_blocks():
    assert (
        len(encode(None, "parquet"))
        == len(encode(our_rows(0), "avro", [Deletes(pa.array([], pa.string()), None)]))
        == 0
    )
    assert reader_of(b"").blocks == ()


def test_half_a_block_is_counted_and_passed_over():
    body = encode(our_rows(2), "avro").to_pybytes()
    reader = reader_of(body + body[:-1] + body)
    assert [block.number for block in reader.blocks] == [0, 1]
    assert reader.corrupt_blocks == 1
    (damage,) = reader.damage
    assert (damage.offset, damage.size_bytes) == (len(body), len(body) - 1)


def test_a_missing_file_is_told():
    with pytest.raises(NotFound):
        LogFileReader(MemoryStorage(), PATH)


class CountingStorage(MemoryStorage):
    """Counts what is read; `fails` makes reads fail as a broken disk does."""

    def __init__(self) -> None:
        super().__init__()
        self.read_bytes, self.fails = 0, False

    def open_input(self, path: str) -> pa.NativeFile:
        storage, inner = self, super().open_input(path)

        class Source:
            closed = False

            def __getattr__(self, name: str) -> Any:
                return getattr(inner, name)

            def read(self, size: int = -1) -> bytes:
                if storage.fails:
                    raise OSError(5, "Input/output error")
                body = inner.read(size)
                storage.read_bytes += len(body)
                return body

        return pa.PythonFile(Source(), mode="r")


def large_file(storage: MemoryStorage) -> int:
    count = 60_000
    blobs = pa.array([bytes(row) for row in np.random.default_rng(3).integers(0, 256, (count, 400), np.uint8)])
    rows = pa.table({"id": pa.array([f"k{n}" for n in range(count)]), "blob": blobs})
    record = stored_avro_schema(rows.schema, "t", meta_fields=False)
    settings = WriterSettings(plain_columns=("id", "blob"))
    body = encode_log_file(
        rows, [], instant=INSTANT, partition_path="", avro_schema=record, data_format="parquet", settings=settings
    )
    storage.put(PATH, body.to_pybytes() * 2)
    return len(body) * 2


def test_of_a_large_file_only_wanted_columns_are_read():
    storage = CountingStorage()
    size_bytes = large_file(storage)
    assert size_bytes > 2 * WHOLE_BYTES
    reader = LogFileReader(storage, PATH)
    assert len(reader.blocks) == 2
    assert storage.read_bytes < 100_000
    for block in reader.blocks:
        assert reader.rows(block, ["id"]).column("id")[-1].as_py() == "k59999"
    assert storage.read_bytes < size_bytes // 10
    assert sum(batch.num_rows for batch in reader.batches(reader.blocks[1])) == 60_000


def test_a_failing_disk_is_no_damage():
    storage = CountingStorage()
    large_file(storage)
    reader = LogFileReader(storage, PATH)
    storage.fails = True
    with pytest.raises(Unavailable, match=PATH):
        reader.rows(reader.blocks[0])
    with pytest.raises(Unavailable, match=PATH):
        LogFileReader(storage, PATH)


def test_real_parquet_blocks(hudi_fixtures: Callable[[str], Path]):
    counts = {}
    for name in ("v6_nonpartitioned_mor", "v9_mor_parquet_log"):
        storage = LocalStorage(hudi_fixtures(name))
        paths = [info.path for info in storage.list() if ".log." in info.name and not info.path.startswith(".hoodie/")]
        readers = [LogFileReader(storage, path) for path in paths if not path.endswith(".crc")]
        blocks = [
            (reader, block) for reader in readers for block in reader.blocks if block.kind is BlockKind.PARQUET_DATA
        ]
        for reader, block in blocks:
            found = reader.rows(block)
            found.validate(full=True)
            assert tuple(found.column_names[:5]) == META_COLUMNS
            assert set(found.column("_hoodie_commit_time").to_pylist()) == {block.instant}
        counts[name] = [reader.rows(block).num_rows for reader, block in blocks]
    assert counts == {"v6_nonpartitioned_mor": [1], "v9_mor_parquet_log": [25, 3, 5]}
