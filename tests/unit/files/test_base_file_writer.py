"""A base file written batch by batch is the one written at once: rows, filter, key range; equal batches give equal bytes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.errors import Unavailable
from hudi_ops.files.base import writer as base_file_writer
from hudi_ops.files.base.base_file import BaseFileReader, WriterSettings, encode_base_file, stored_schema
from hudi_ops.files.base.writer import BaseFileWriter, ReplacedFile
from hudi_ops.formats.parquet.bloom import BloomFilter
from hudi_ops.kernels.meta_columns import add_meta_columns
from hudi_ops.storage.memory import MemoryStorage

SCHEMA = pa.schema([("id", pa.string()), ("value", pa.int64()), ("city", pa.string())])
NAME = "00000000-0000-0000-0000-000000000000-0_0-1-0_20300101000000000.parquet"


def rows(first: int, count: int, *, meta_fields: bool = True) -> pa.Table:
    ids = [f"k{at:07d}" for at in range(first, first + count)]
    table = pa.table(
        {"id": ids, "value": range(first, first + count), "city": [f"c{at % 3}" for at in range(count)]}, schema=SCHEMA
    )
    if not meta_fields:
        return table
    instant = "20300101000000000"
    return add_meta_columns(
        table,
        keys=pa.array(ids),
        partition_path="p",
        instant=instant,
        file_name=NAME,
        seqno_prefix=f"{instant}_{first}_",
    )


def written(batches: list[pa.Table], *, meta_fields: bool = True, **settings) -> bytes:
    total = sum(one.num_rows for one in batches)
    with BaseFileWriter(stored_schema(SCHEMA, meta_fields), "t", WriterSettings(), keys=total, **settings) as writer:
        for one in batches:
            writer.write(one)
        body = writer.finish().to_pybytes()
        assert writer.rows == total
    return body


def opened(body: bytes) -> BaseFileReader:
    storage = MemoryStorage("t")
    storage.put(NAME, body)
    return BaseFileReader(storage, NAME)


def test_the_same_rows_filter_and_range_as_at_once() -> None:
    batches = [rows(0, 700), rows(700, 1), rows(701, 800)]
    whole = pa.concat_tables([one.unify_dictionaries() for one in batches], promote_options="none")
    once = opened(encode_base_file(whole, "t", WriterSettings()).to_pybytes())
    mine = opened(written(batches))
    assert mine.read().equals(once.read())
    assert (mine.footer.min_key, mine.footer.max_key) == ("k0000000", "k0001500")
    assert mine.footer.avro_schema == once.footer.avro_schema
    assert mine.footer.bloom == once.footer.bloom
    assert mine.schema.equals(once.schema)
    assert set(mine.parquet.metadata) == set(once.parquet.metadata)


def test_row_groups_end_where_they_are_full_whatever_pieces_the_rows_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_file_writer, "ROW_GROUP_ROWS", 400)
    one = [rows(0, 1_000)]
    pieces = [rows(0, 1_000).slice(at, 90) for at in range(0, 1_000, 90)]
    whole, cut = (opened(written(batches)).parquet for batches in (one, pieces))
    assert [whole.row_group(at).num_rows for at in range(3)] == [400, 400, 200]
    assert [cut.row_group(at).num_rows for at in range(3)] == [400, 400, 200]
    assert written(one) == written(pieces) == written(pieces)


def test_a_row_group_takes_no_more_memory_than_is_said() -> None:
    file = opened(written([rows(at * 500, 500) for at in range(20)], row_group_bytes=100_000)).parquet
    assert file.num_rows == 10_000
    assert file.num_row_groups > 4


def test_a_carried_filter_is_added_to_and_a_small_one_made_anew() -> None:
    old = BloomFilter.build(pa.array([f"k{at:07d}" for at in range(1_000)]), capacity=2_000)
    batches = [rows(0, 900), rows(900, 200)]
    carried = opened(written(batches, replaced=ReplacedFile(old, 1_000))).footer.bloom
    assert carried is not None
    assert carried.bits == old.bits
    assert carried == old.with_keys(pa.array([f"k{at:07d}" for at in range(1_000, 1_100)]))
    small = BloomFilter.build(pa.array(["k0000000"]), capacity=16)
    anew = opened(written(batches, replaced=ReplacedFile(small, 1_000))).footer.bloom
    assert anew is not None
    assert anew.might_contain(pa.array([f"k{at:07d}" for at in range(1_100)])).all()


@pytest.mark.parametrize("meta_fields", [True, False])
def test_a_file_without_rows_is_a_file(meta_fields: bool) -> None:
    reader = opened(written([], meta_fields=meta_fields))
    assert reader.rows == 0
    assert reader.schema.names == stored_schema(SCHEMA, meta_fields).names
    assert reader.footer.min_key is None


def test_without_meta_columns_there_is_neither_filter_nor_range() -> None:
    reader = opened(written([rows(0, 10, meta_fields=False)], meta_fields=False))
    assert reader.read().equals(rows(0, 10, meta_fields=False))
    assert (reader.footer.bloom, reader.footer.min_key, reader.footer.max_key) == (None, None, None)


def test_what_lay_on_disk_is_gone_afterwards(tmp_path: Path) -> None:
    body = written([rows(0, 5_000)], folder=str(tmp_path))
    assert pq.read_metadata(pa.BufferReader(body)).num_rows == 5_000
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="nowhere") as failed:
        written([rows(0, 10)], folder=str(tmp_path / "nowhere"))
    assert "TMPDIR" in failed.value.next_step
