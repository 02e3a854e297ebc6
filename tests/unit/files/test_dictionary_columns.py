"""Dictionaries where they pay, told by the file before or by a sample; and what a footer alone says about keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_ops.files.base.base_file import BaseFileReader, WriterSettings, encode_base_file
from hudi_ops.files.base.dictionary_columns import dictionary_columns, pays
from hudi_ops.kernels.meta_columns import add_meta_columns
from hudi_ops.storage.memory import MemoryStorage

ROWS = 60_000


def chosen(count: int, distinct: int) -> bool:
    values = np.random.default_rng(7).integers(0, distinct, count)
    return pays(pa.chunked_array([pa.array([f"value-{one:07d}" for one in values])]))


def test_a_dictionary_pays_up_to_one_value_for_two_rows():
    assert chosen(ROWS, 5)
    assert chosen(ROWS, 12_000)
    assert not chosen(ROWS, 60_000)
    assert not pays(pa.chunked_array([[f"key-{row}" for row in range(ROWS)]]))
    assert pays(pa.chunked_array([["a", "b"]]))


def test_a_dictionary_beyond_one_page_does_not_pay():
    assert not pays(pa.chunked_array([[f"{row % 20_000:0100d}" for row in range(ROWS)]]))


def test_the_file_before_decides_unless_it_was_of_another_size():
    rows = pa.table({"few": [row % 3 for row in range(100)], "unique": list(range(100))})
    other_way = written(rows, ["unique"])
    assert dictionary_columns(rows, {"key"}) == ["few"]
    assert dictionary_columns(rows, {"key"}, other_way) == ["unique"]
    assert dictionary_columns(rows, {"unique"}, other_way) == []
    assert dictionary_columns(rows.append_column("new", [[1] * 100]), (), other_way) == ["unique", "new"]
    assert dictionary_columns(rows.slice(0, 40), (), other_way) == ["few"]
    assert dictionary_columns(pa.concat_tables([rows] * 3), (), other_way) == ["few", "unique"]


def test_a_footer_says_which_keys_are_surely_absent():
    keys = [f"key-{row:04d}" for row in range(0, 2000, 2)]
    rows = add_meta_columns(
        pa.table({"id": keys}),
        keys=pa.array(keys),
        partition_path="",
        instant="20240101000000000",
        file_name="a.parquet",
        seqno_prefix="20240101000000000_1_",
    )
    storage = MemoryStorage()
    storage.put("a.parquet", encode_base_file(rows, "t", WriterSettings()))
    reader = BaseFileReader(storage, "a.parquet")
    assert reader.might_hold(pa.chunked_array([["key-0001", "key-0002"]]))
    assert not reader.might_hold(pa.chunked_array([["a", "z"]]))
    assert not reader.might_hold(pa.chunked_array([["key-0001"]]))
    assert not reader.might_hold(pa.chunked_array([], pa.string()))


def written(rows: pa.Table, dictionaries: list[str]) -> pq.FileMetaData:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, use_dictionary=dictionaries)
    return pq.ParquetFile(sink.getvalue()).metadata
