"""Goal: requests that cannot mean what they say are refused: names alike but for case, no columns, a source by two names."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.errors import InvalidRequest
from hudi_ops.table import Table

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
    with pytest.raises(InvalidRequest, match="no Arrow data"):
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
