"""Every shape in which a program hands rows over becomes one stream; what has no rows is refused by its type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from hudi_ops.errors import InvalidRequest
from hudi_ops.files.base.dictionary_columns import pays
from hudi_ops.sources.row_stream import open_rows
from hudi_ops.sources.runs import concat_tables, picked, runs_of

ROWS = pa.table({"id": list(range(1_000)), "text": [None if n % 9 == 1 else f"t{n}" for n in range(1_000)]})


class Exported:
    """Nothing but the interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return ROWS.__arrow_c_stream__(requested_schema)


SHAPES = {
    "table": lambda: ROWS,
    "batch": lambda: ROWS.to_batches()[0],
    "reader": ROWS.to_reader,
    "pandas": ROWS.to_pandas,
    "polars": lambda: pl.from_arrow(ROWS),
    "lazy polars": lambda: pl.from_arrow(ROWS).lazy().filter(pl.col("id") >= 0),
    "duckdb": lambda: duckdb.from_arrow(ROWS).order("id"),
    "C stream": Exported,
    "batches": lambda: ROWS.to_batches(max_chunksize=7),
    "generator": lambda: (batch for batch in ROWS.to_batches(max_chunksize=64)),
    "tables": lambda: [ROWS.slice(0, 10), ROWS.slice(10)],
    "frames": lambda: (frame for frame in pl.from_arrow(ROWS).iter_slices(100)),
    "columns": lambda: ROWS.to_pydict(),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_gives_the_same_rows(shape: str) -> None:
    stream = open_rows(SHAPES[shape]())
    assert stream.schema is not None
    assert stream.schema.names == ["id", "text"]
    runs = list(stream.runs(2_000))
    assert [row for _, rows in runs for row in rows.to_pylist()] == ROWS.to_pylist()
    assert [first for first, _ in runs] == [sum(r.num_rows for _, r in runs[:n]) for n in range(len(runs))]
    assert len(runs) > 1 or shape in {"polars", "lazy polars"}  # whose text lies in one buffer for all


@pytest.mark.parametrize("given", [5, None, "text", {"id": [1, "x"]}, pl.Series([1])])
def test_what_is_no_arrow_data_is_refused_by_its_type(given: Any) -> None:
    with pytest.raises(InvalidRequest, match="not Arrow data") as caught:
        open_rows(given)
    assert type(given).__name__ in caught.value.found


def test_rows_as_dicts_are_refused_by_the_item() -> None:
    with pytest.raises(InvalidRequest, match="item 0 of the iterable is dict"):
        open_rows([{"id": "a"}])


def test_batches_of_two_schemas_are_refused_by_the_number_of_the_batch() -> None:
    batches = [pa.record_batch({"a": [1]}), pa.record_batch({"a": [2]}), pa.record_batch({"a": ["x"]})]
    with pytest.raises(InvalidRequest, match="batch 2 ") as caught:
        list(open_rows(batches).runs(1))
    assert (caught.value.expected, caught.value.found) == ("a int64", "a string")


def test_an_iterable_of_nothing_has_no_columns_and_no_rows() -> None:
    stream = open_rows(iter(()))
    assert stream.schema is None
    assert [rows.num_rows for _, rows in stream.runs(1)] == [0]


def test_errors_of_a_generator_come_as_they_are() -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield ROWS.to_batches()[0]
        raise ZeroDivisionError("the caller's own")

    with pytest.raises(ZeroDivisionError, match="the caller's own"):
        list(open_rows(failing()).runs(1 << 20))


def test_a_stream_that_breaks_off_is_refused() -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield ROWS.to_batches()[0]
        raise OSError("the connection is gone")

    reader = pa.RecordBatchReader.from_batches(ROWS.schema, failing())
    with pytest.raises(InvalidRequest, match=r"broke off after 1000 rows: .*the connection is gone"):
        list(open_rows(reader).runs(1 << 20))


def test_runs_join_small_batches_and_cut_large_ones() -> None:
    batches = [pa.record_batch({"n": list(range(start, start + size))}) for start, size in ((0, 3), (3, 0), (3, 997))]
    runs = list(runs_of(batches, batches[0].schema, 800))
    assert all(rows.nbytes <= 800 for _, rows in runs)
    assert len(runs) <= 12
    assert [n for _, rows in runs for n in rows["n"].to_pylist()] == list(range(1_000))
    assert [first for first, _ in runs] == [rows["n"][0].as_py() for _, rows in runs]


def test_the_index_of_a_data_frame_is_a_column_where_it_has_a_name() -> None:
    frame = ROWS.to_pandas()
    some = open_rows(frame[frame.index % 2 == 0].iloc[[0, -1]])
    assert some.schema is not None
    assert some.schema.names == ROWS.column_names  # not `__index_level_0__`
    keyed = open_rows(frame.set_index(ROWS.column_names[0]))
    assert keyed.schema is not None
    assert set(keyed.schema.names) == set(ROWS.column_names)
    frame.index.name = "even"  # a range, which Arrow would leave out
    even = open_rows(frame).table
    assert even is not None
    assert even["even"].to_pylist() == list(range(ROWS.num_rows))


def test_rows_are_picked_from_columns_in_pieces() -> None:
    pieces = pa.concat_tables([ROWS.slice(0, 300), ROWS.slice(300)])
    for rows in (ROWS, pieces):
        assert picked(rows, pa.array([0, 299, 300, 999])).to_pylist() == ROWS.take([0, 299, 300, 999]).to_pylist()


@pytest.mark.full("moves gigabytes")
def test_text_of_2_gib_stays_in_several_pieces() -> None:
    half = pa.StringArray.from_buffers(
        20, pa.array(range(0, 21 * (55 << 20), 55 << 20), pa.int32()).buffers()[1], pa.py_buffer(bytes(20 * (55 << 20)))
    )
    rows = concat_tables([pa.table({"text": half}), pa.table({"text": half})])
    assert rows.num_rows == 40
    assert rows.column("text").num_chunks == 2
    assert picked(rows, pa.array([0, 39])).num_rows == 2
    assert not pays(pa.chunked_array([half, half]))
