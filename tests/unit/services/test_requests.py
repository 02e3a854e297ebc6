"""Goal: requests that cannot mean what they say are refused: names alike but for case, no columns, a source by two names."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.errors import InvalidRequest
from hudi_ops.table.table import Table

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA, partition_by=["p"])


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ([("id", pa.string()), ("ID", pa.string())], "ID"),
        ([("id", pa.string()), ("s", pa.list_(pa.struct([("a", pa.int32()), ("A", pa.int32())])))], "A"),
        ([("id", pa.string()), ("_HOODIE_RECORD_KEY", pa.string())], "_HOODIE_RECORD_KEY"),
    ],
)
def test_names_that_differ_only_in_case_are_refused(tmp_path: Path, columns: list[object], named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        Table.create(str(tmp_path / "new"), name="t", record_key=["id"], schema=pa.schema(columns))
    assert not (tmp_path / "new").exists()


def test_no_columns_do_not_mean_all(table: Table) -> None:
    with pytest.raises(InvalidRequest, match="no columns"):
        table.read(columns=[])


def test_what_is_no_arrow_data_is_refused(table: Table) -> None:
    with pytest.raises(InvalidRequest, match="not Arrow data"):
        table.ingest(5)


def test_a_partition_too_long_for_a_folder_leaves_nothing_behind(table: Table) -> None:
    before = [info.path for info in table.context.storage.list()]
    with pytest.raises(InvalidRequest, match="too long"):
        table.ingest(pa.table({"id": ["a", "b"], "p": ["fine", "x" * 300]}))
    assert [info.path for info in table.context.storage.list()] == before
    assert table.ingest(pa.table({"id": ["a"], "p": ["fine"]})).inserted == 1


def test_a_source_reached_by_a_link_is_the_same_source(table: Table, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,p\na,x\n", encoding="utf-8")
    (tmp_path / "link").symlink_to("in")
    assert table.ingest_folder(str(tmp_path / "in")).instant is not None
    assert table.ingest_folder(str(tmp_path / "link")).instant is None


def landing(tmp_path: Path, count: int) -> Path:
    (tmp_path / "in").mkdir()
    for n in range(count):
        (tmp_path / "in" / f"{n}.csv").write_text(f"id,p\n{n},x\n", encoding="utf-8")
    return tmp_path / "in"


@pytest.mark.parametrize(
    ("bounds", "taken"),
    [
        ({}, [5]),
        ({"max_files": 2}, [2, 2, 1]),
        ({"max_files": 9, "max_bytes": 10**9}, [5]),
        ({"max_bytes": 20}, [2, 2, 1]),
        ({"max_bytes": 1}, [1] * 5),
        ({"max_files": 1, "max_bytes": 20}, [1] * 5),
    ],
)
def test_a_commit_takes_no_more_than_its_bounds(
    table: Table, tmp_path: Path, bounds: dict[str, int], taken: list[int]
) -> None:
    folder = str(landing(tmp_path, 5))
    assert {len((tmp_path / "in" / f"{n}.csv").read_bytes()) for n in range(5)} == {9}
    for number, count in enumerate(taken):
        offer = table.preview_folder(folder, **bounds)
        assert [info.name for info in offer.files] == [f"{sum(taken[:number]) + n}.csv" for n in range(count)]
        result = table.ingest_folder(folder, **bounds)
        left = 5 - sum(taken[: number + 1])
        assert (result.files, len(offer.left)) == (count, left)
        assert (f"{left} file" in result.note) == (left > 0)
    assert table.ingest_folder(folder, **bounds).instant is None
    assert table.read(["id"])["id"].to_pylist() == [str(n) for n in range(5)]


@pytest.mark.parametrize("bounds", [{"max_files": 0}, {"max_bytes": -1}])
def test_a_bound_below_one_is_refused(table: Table, tmp_path: Path, bounds: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest, match="below 1"):
        table.ingest_folder(str(landing(tmp_path, 1)), **bounds)


@pytest.mark.parametrize("bounds", [{"max_files": 2}, {"max_bytes": 10}])
def test_a_table_is_not_overwritten_part_by_part(table: Table, tmp_path: Path, bounds: dict[str, int]) -> None:
    folder = str(landing(tmp_path, 3))
    with pytest.raises(InvalidRequest, match=f"insert_overwrite_table cannot be bounded by {next(iter(bounds))}"):
        table.ingest_folder(folder, "insert_overwrite_table", **bounds)
    assert table.ingest_folder(folder, "insert_overwrite_table").files == 3
