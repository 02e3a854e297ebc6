"""Columns of few values stay encoded on a rewrite, and nothing else about the rows changes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_ops.files.base.base_file import BaseFileReader, conform
from hudi_ops.files.base.repeated_columns import concat_rows, decode_columns, plain_type, repeated_columns
from hudi_ops.storage.memory import MemoryStorage

ROWS = 5000
TEXT = pa.dictionary(pa.int32(), pa.string())
TABLE = pa.table({
    "unique": [f"key-{row:05d}" for row in range(ROWS)],
    "few": [None if row % 7 == 0 else f"value-{row % 5}" for row in range(ROWS)],
    "many": [f"value-{row % 2000}" for row in range(ROWS)],
    "number": [row % 3 for row in range(ROWS)],
    "nested": [{"few": "a"}] * ROWS,
    "empty": pa.nulls(ROWS, pa.string()),
})


def written(table: pa.Table, **settings: object) -> MemoryStorage:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, store_schema=False, **settings)
    storage = MemoryStorage()
    storage.put("a.parquet", sink.getvalue())
    return storage


def test_only_top_level_texts_of_few_values_are_repeated():
    storage = written(TABLE, row_group_size=2000)
    assert repeated_columns(pq.ParquetFile(storage.open_input("a.parquet"))) == ["empty", "few"]


def test_a_column_without_dictionary_in_one_row_group_is_not_repeated():
    storage = written(TABLE, use_dictionary=["many"])
    assert repeated_columns(pq.ParquetFile(storage.open_input("a.parquet"))) == []


def test_encoded_rows_equal_plain_ones():
    storage = written(TABLE, row_group_size=2000)
    encoded = BaseFileReader(storage, "a.parquet", keep_encoded=True).read()
    assert encoded.schema.field("few").type == TEXT
    assert decode_columns(encoded, encoded.column_names).equals(
        BaseFileReader(storage, "a.parquet").read().cast(TABLE.schema)
    )


def test_conform_keeps_an_encoded_column_and_casts_one_of_another_type():
    rows = pa.table({"few": TABLE["few"].dictionary_encode()})
    assert conform(rows, pa.schema([("few", pa.string())]), "a").schema.field("few").type == TEXT
    widened = conform(rows, pa.schema([("few", pa.large_string())]), "a")
    assert widened.column("few").to_pylist() == TABLE["few"].to_pylist()
    assert widened.schema.field("few").type == pa.large_string()


def test_concat_gives_every_chunk_one_dictionary():
    carried = pa.table({"few": pa.array(["a", None, "b"]).dictionary_encode(), "n": [1, 2, 3]})
    fresh = pa.table({"few": ["c", "b", None], "n": [4, 5, 6]})
    both = concat_rows(carried, fresh)
    assert decode_columns(both, ["few"]).to_pydict() == {
        "few": ["a", None, "b", "c", "b", None],
        "n": [1, 2, 3, 4, 5, 6],
    }
    first, *others = (chunk.dictionary for chunk in both.column("few").chunks)
    assert others
    assert all(first.equals(other) for other in others)
    assert concat_rows(carried, fresh.slice(0, 0)).num_rows == 3


def test_concat_follows_the_carried_column():
    encoded = pa.table({"few": pa.array(["c"]).dictionary_encode(), "n": [4]})
    plain = pa.table({"few": ["a"], "n": [1]})
    assert concat_rows(plain, encoded).schema.field("few").type == pa.string()
    assert concat_rows(plain, encoded).to_pydict() == {"few": ["a", "c"], "n": [1, 4]}
    small = pa.table({"few": pa.array(["a"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())), "n": [1]})
    assert decode_columns(concat_rows(small, encoded), ["few"]).to_pydict() == {"few": ["a", "c"], "n": [1, 4]}


def test_plain_type_is_that_of_the_values():
    assert plain_type(TEXT) == pa.string()
    assert plain_type(pa.int8()) == pa.int8()
