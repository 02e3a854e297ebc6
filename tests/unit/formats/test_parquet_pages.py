"""A value above a limit is found with its row in pages that can be read in blocks, and a value of exactly the limit is not.

Of other pages, one above the limit and 8 MiB counts as a value.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.formats.parquet.pages import LargeValue, large_value

ROWS, LARGE_ROW, LARGE_BYTES = 3_000, 2_000, 1_500_000
LONG = "".join(f"{n:07d}" for n in range(LARGE_BYTES))[:LARGE_BYTES]


def found(path: Path, limit_bytes: int) -> LargeValue | None:
    file = pq.ParquetFile(path)
    leaf = file.schema.column(0)
    levels = (leaf.max_definition_level > 0) + (leaf.max_repetition_level > 0)
    with pa.OSFile(str(path), "rb") as source:
        return large_value(source, file.metadata.row_group(0).column(0), limit_bytes, levels)


@pytest.mark.parametrize("codec", ["zstd", "gzip", "brotli", "none"])
@pytest.mark.parametrize("text", [LONG, "z" * LARGE_BYTES], ids=["digits", "equal"])
def test_the_first_value_above_the_limit_is_found_with_its_row(tmp_path: Path, codec: str, text: str) -> None:
    for has_dictionary, version, kind in itertools.product((True, False), ("1.0", "2.0"), ("required", "null", "list")):
        values: list[str | None] = [f"{n:06d}" * 20 for n in range(ROWS)]
        values[LARGE_ROW] = text
        if kind == "null":
            values[5] = None
        texts = pa.array(values, pa.string())
        if kind == "list":
            texts = pa.ListArray.from_arrays(pa.array(range(0, ROWS + 1, 10), pa.int32()), texts)
        schema = pa.schema([pa.field("a", texts.type, nullable=kind != "required")])
        pq.write_table(
            pa.table([texts], schema=schema),
            tmp_path / "a.parquet",
            compression=codec,
            use_dictionary=has_dictionary,
            data_page_version=version,
        )
        case = (has_dictionary, version, kind)
        assert found(tmp_path / "a.parquet", LARGE_BYTES) is None, case
        value = found(tmp_path / "a.parquet", LARGE_BYTES - 1)
        assert value is not None, case
        assert value.size_bytes == LARGE_BYTES, case
        # Behind a null, the value's number is a lower bound of its row; in a list it is none.
        assert value.row == LARGE_ROW - (kind == "null"), case
        assert value.is_exact == (kind == "required" and not has_dictionary), case


@pytest.mark.parametrize("writing", [
    {"compression": "snappy", "use_dictionary": False},
    {"compression": "lz4", "use_dictionary": False},
    {"compression": "lz4", "use_dictionary": True},
    {"compression": "none", "use_dictionary": False, "column_encoding": "DELTA_LENGTH_BYTE_ARRAY"},
    {"compression": "none", "use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"},
])  # fmt: skip
def test_a_page_that_cannot_be_looked_into_counts_from_its_first_row(tmp_path: Path, writing: dict[str, Any]) -> None:
    values = [f"{n:06d}" * 20 for n in range(ROWS)]
    for size_bytes, limit_bytes, is_found in (
        (7 << 20, 1 << 20, False),
        (9 << 20, 1 << 20, True),
        (9 << 20, 10 << 20, False),
    ):
        values[LARGE_ROW] = "z" * size_bytes
        schema = pa.schema([pa.field("a", pa.string(), nullable=False)])
        pq.write_table(pa.table([values], schema=schema), tmp_path / "a.parquet", **writing)
        value = found(tmp_path / "a.parquet", limit_bytes)
        assert (value is not None) == is_found, size_bytes
        if value is not None:
            assert not value.is_exact
            assert value.row <= LARGE_ROW
            assert size_bytes < value.size_bytes < size_bytes + limit_bytes


def test_indices_into_a_dictionary_are_no_lengths(tmp_path: Path) -> None:
    indices = [0, 0, 2, 0] + [n % 256 for n in range(100_000)]
    texts = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), [f"text {n}" for n in range(256)])
    schema = pa.schema([pa.field("a", texts.type, nullable=False)])
    for version in ("1.0", "2.6"):
        pq.write_table(pa.table([texts], schema=schema), tmp_path / "a.parquet", version=version, compression="none")
        assert found(tmp_path / "a.parquet", 10_000) is None


@pytest.mark.parametrize("field", [1, 2, 3])
def test_a_negative_size_in_a_pages_header_is_damage(tmp_path: Path, field: int) -> None:
    writing = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(pa.table({"a": ["z" * 1_000]}), tmp_path / "a.parquet", **writing)
    body = bytearray((tmp_path / "a.parquet").read_bytes())
    # Behind the magic stand kind, whole size, size; then, in the header of a data page, the number of values.
    at = [at for at in range(4, 40) if body[at] == 0x15][field] + 1
    if field == 2:
        length = body.index(b"z") - 14  # minus a header's length: the next page would be this one
        body[at : at + 2] = bytes(((2 * length - 1) | 0x80, 0))
    body[at] |= 1  # the sign
    (tmp_path / "b.parquet").write_bytes(body)
    with pytest.raises(pa.ArrowInvalid, match="negative size"):
        found(tmp_path / "b.parquet", 100)
