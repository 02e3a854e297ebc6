"""A footer whose bloom filter Arrow never holds: the file has the bytes that Arrow would have written."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.formats.parquet.bloom import BloomFilter
from hudi_ops.formats.parquet.footer import BLOOM, BaseFileFooter, encode_footer
from hudi_ops.formats.parquet.large_footer import LargeFooter, add_filter

ROWS = pa.table({"id": [BLOOM, "b"], "n": [1, 2]})
SMALL, LARGE = 16, 800_000


def written(values: dict[str, str]) -> bytes:
    body = io.BytesIO()
    with pq.ParquetWriter(body, ROWS.schema, store_schema=False) as writer:
        writer.write_table(ROWS)
        writer.add_key_value_metadata(values)
    return body.getvalue()


def footer(capacity: int) -> BaseFileFooter:
    return BaseFileFooter(BloomFilter.build(ROWS.column("id"), capacity=capacity), "a", "b", '{"type": "record"}')


@pytest.mark.parametrize("capacity", [SMALL, LARGE])
def test_a_filter_that_is_added_gives_the_bytes_of_arrow(capacity: int) -> None:
    values = encode_footer(footer(capacity))
    file = io.BytesIO(written(values | {BLOOM: ""}))
    add_filter(file, values[BLOOM])
    assert file.getvalue() == written(values)


@pytest.mark.parametrize("capacity", [SMALL, LARGE])
def test_a_large_filter_is_read_apart_and_a_small_one_with_the_footer(capacity: int) -> None:
    expected = footer(capacity)
    values = encode_footer(expected)
    found = LargeFooter(pa.BufferReader(written(values)), "f.parquet")
    held = {key.decode(): text.decode() for key, text in found.parquet.metadata.items()}
    assert held == values | ({BLOOM: ""} if capacity == LARGE else {})
    assert found.bloom() == expected.bloom
    source = pa.BufferReader(written(values))
    assert pq.ParquetFile(source, metadata=found.parquet).read() == ROWS


def test_a_file_without_a_filter_and_a_damaged_one_are_left_to_arrow() -> None:
    assert LargeFooter(pa.BufferReader(written({"a": "b"})), "f.parquet").bloom() is None
    for damaged in (b"", written({})[:-5], b"PAR1" + b"\xff" * 8 + b"PAR1"):
        with pytest.raises(pa.ArrowInvalid):
            LargeFooter(pa.BufferReader(damaged), "f.parquet")
