"""A value above a limit is found in any page that Arrow writes, with its row, and a value of exactly the limit is not."""

from __future__ import annotations

import itertools
from pathlib import Path

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


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "brotli", "none"])
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
