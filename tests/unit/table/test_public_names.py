"""Goal: public names stay. Method: import each of them, and call the methods of the metadata table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hudi_ops
from hudi_ops.errors import InvalidRequest
from hudi_ops.table.table import Table

ROWS = pa.table({"id": ["a", "b"], "city": ["x", "y"], "ts": [1, 1]})
OLD_METHODS = {
    *("adopt", "build_metadata", "changes", "close", "compact_metadata", "config", "context", "create"),
    *("delete_partition", "drop_metadata", "ingest", "ingest_folder"),
    *("open", "preview_folder", "protect_lock", "read", "recover", "repair_properties", "rollback"),
    *("scan", "schema", "spark_frame", "truncate"),
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A merge-on-read table with one log file."""
    made = Table.create(
        str(tmp_path / "t"),
        name="t",
        record_key=["id"],
        schema=ROWS.schema,
        partition_by=["city"],
        ordering="ts",
        table_type="mor",
        metadata=False,
    )
    made.ingest(ROWS)
    made.ingest(ROWS.slice(0, 1).set_column(2, "ts", pa.array([2])))
    return made


def test_old_names_can_be_imported() -> None:
    assert hudi_ops.Table is Table
    assert issubclass(hudi_ops.HudiOpsError, Exception)
    assert set(dir(Table)) >= OLD_METHODS


def test_old_metadata_methods_do_what_the_new_ones_do(table: Table) -> None:
    assert table.build_metadata(["files"], dry_run=True).partitions == table.metadata.build(dry_run=True).partitions[:1]
    assert table.build_metadata(["files"], engine="local").partitions == ("files",)
    assert table.metadata() == table.metadata.describe()
    assert table.compact_metadata(dry_run=True) == table.metadata.compact(dry_run=True)
    assert table.drop_metadata(dry_run=True) == table.metadata.drop(dry_run=True)
    assert table.drop_metadata(["files"]).dropped == ("files",)


@pytest.mark.parametrize("method", ["run", "execute"])
def test_an_execution_has_no_dry_run(table: Table, method: str) -> None:
    with pytest.raises(InvalidRequest, match="dry_run shows a plan"):
        getattr(table.compaction, method)(dry_run=True)
    assert table.compaction.explain().counts["planned"] == 1


def test_misspelt_keywords_name_the_nearest(table: Table, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="did you mean 'max_bytes'"):
        table.compaction.plan(max_byte=10)
    with pytest.raises(InvalidRequest, match="did you mean 'min_age_s'"):
        table.ingest_folder(str(tmp_path), min_age=5)
    with pytest.raises(InvalidRequest, match="did you mean 'rebuild'"):
        table.build_metadata(rebuidl=True)
    with pytest.raises(InvalidRequest, match="did you mean 'since'"):
        table.spark_frame(sinse="earliest")  # codespell:ignore sinse


def test_a_path_may_be_a_path_object(table: Table, tmp_path: Path) -> None:
    assert Table.open(tmp_path / "t").read().num_rows == table.read().num_rows
