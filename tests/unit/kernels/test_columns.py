"""Meta columns, splitting and statistics."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.config.columns import META_COLUMNS
from hudi_ops.errors import Internal, InvalidRequest
from hudi_ops.kernels.merging.split import split_groups
from hudi_ops.kernels.meta_columns import add_meta_columns, meta_schema, with_file_name
from hudi_ops.kernels.statistics import first_null_row, key_range

DATA = pa.table({"id": ["a", "b"], "n": [1, None]})
META = {
    "partition_path": "p=1",
    "instant": "20240101000000000",
    "file_name": "f.parquet",
    "seqno_prefix": "20240101000000000_3_",
}


def test_meta_columns_come_first_and_read_back_as_strings(tmp_path: object) -> None:
    table = add_meta_columns(DATA, keys=DATA["id"].combine_chunks(), **META)
    assert table.column_names == [*META_COLUMNS, *DATA.column_names]
    assert table.to_pylist()[1] == {
        "_hoodie_commit_time": "20240101000000000",
        "_hoodie_commit_seqno": "20240101000000000_3_1",
        "_hoodie_record_key": "b",
        "_hoodie_partition_path": "p=1",
        "_hoodie_file_name": "f.parquet",
        "id": "b",
        "n": None,
    }
    pq.write_table(table, f"{tmp_path}/x.parquet", store_schema=False)
    plain = pa.schema([*meta_schema(), *DATA.schema])
    assert pq.read_table(f"{tmp_path}/x.parquet") == table.cast(plain)


def test_file_name_is_replaced_and_the_rest_shared() -> None:
    table = add_meta_columns(DATA, keys=DATA["id"].combine_chunks(), **META)
    moved = with_file_name(table, "g.parquet")
    assert moved["_hoodie_file_name"].to_pylist() == ["g.parquet"] * 2
    assert moved.drop_columns("_hoodie_file_name") == table.drop_columns("_hoodie_file_name")
    assert moved.column_names[:5] == list(META_COLUMNS)
    assert moved.schema.field("_hoodie_file_name").type == pa.dictionary(pa.int32(), pa.string())
    assert with_file_name(table.slice(0, 0), "g.parquet").num_rows == 0


def test_wrong_inputs_are_refused() -> None:
    table = add_meta_columns(DATA, keys=DATA["id"].combine_chunks(), **META)
    with pytest.raises(InvalidRequest, match="meta columns"):
        add_meta_columns(table, keys=DATA["id"].combine_chunks(), **META)
    with pytest.raises(InvalidRequest, match="meta columns"):
        add_meta_columns(DATA, keys=pa.array(["a"]), **META)
    with pytest.raises(InvalidRequest, match="_hoodie_file_name"):
        with_file_name(DATA, "g.parquet")


def test_groups_ascend_and_keep_the_order_of_rows() -> None:
    groups = split_groups(np.array([1, 0, 1, 0, 1]), np.array([0, 5, 0, 2, 300_000]))
    assert [(g.code, g.bucket, g.rows.tolist()) for g in groups] == [
        (0, 2, [3]),
        (0, 5, [1]),
        (1, 0, [0, 2]),
        (1, 300_000, [4]),
    ]
    assert split_groups(np.array([], np.int32), np.array([], np.int32)) == []
    with pytest.raises(Internal, match="length"):
        split_groups(np.array([1]), np.array([1, 2]))
    with pytest.raises(Internal, match="negative"):
        split_groups(np.array([-1]), np.array([1]))


def test_key_range_is_by_utf8_bytes() -> None:
    # By UTF-16 code units, as Java strings compare, the emoji would come before U+FFEE.
    assert key_range(pa.chunked_array([["\uffee", "z"], ["😀"]])) == ("z", "😀")
    assert key_range(pa.array(["b", "", "a"])) == ("", "b")
    assert key_range(pa.array([], pa.string())) is None


def test_first_null_row() -> None:
    assert first_null_row(pa.chunked_array([[1, 2], [3, None, None]])) == 3
    assert first_null_row(pa.array([None])) == 0
    assert first_null_row(pa.array([1])) is None
