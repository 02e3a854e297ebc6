"""Whole tables verify: ours, everything that Apache Hudi wrote, and its metadata tables. Nothing is found that is not true."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.errors import InvalidRequest
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.open import open_storage
from hudi_ops.table.table import Table
from hudi_ops.verify import verify_table
from tests.unit.verify import breaking


@pytest.mark.parametrize("deep", [False, True])
def test_every_fixture_is_whole(hudi_fixtures, hudi_fixture_names, deep):
    for name in hudi_fixture_names:
        report = verify_table(open_storage(str(hudi_fixtures(name))), deep=deep)
        assert report.findings == (), f"{name}: {report.findings[0]}"
        assert report.checks["instants"] > 0
        assert report.checks["named files"] > 0, name


@pytest.mark.parametrize("deep", [False, True])
def test_every_metadata_table_is_whole(hudi_fixtures, hudi_fixture_names, deep):
    looked = 0
    for name in hudi_fixture_names:
        root = hudi_fixtures(name) / ".hoodie" / "metadata"
        if root.is_dir():
            report = verify_table(open_storage(str(root)), deep=deep)
            assert report.findings == (), f"{name}: {report.findings[0]}"
            looked += report.checks["named files"]
    assert looked > 300


def test_our_table_is_whole_and_was_looked_at(ours):
    report = verify_table(ours, deep=True)
    assert report.findings == ()
    assert report.ok
    # 60 keys were written, 5 deleted; slots: properties, first commit, 4 writes, a cancel, a rollback.
    assert report.checks["record keys"] == 55
    assert report.checks["commit log slots"] == 8
    assert report.checks["ledgers"] == 1
    assert report.checks["base file footers"] == report.checks["base files read"] == 4


def test_a_plain_run_reads_a_sample_of_keys_and_all_footers(ours):
    report = verify_table(ours)
    assert report.checks["base file footers"] == 4
    assert "partitions compared" not in report.checks


def test_report_as_plain_values(ours):
    ours.put("p=x/notes.txt", b"hello")
    report = verify_table(ours)
    plain = json.loads(json.dumps(report.as_dict()))
    assert plain["ok"] is True
    assert plain["table"] == "verified"
    assert [one["invariant"] for one in plain["findings"]] == ["stray-file"]
    assert plain["findings"][0]["where"] == "p=x/notes.txt"
    assert str(report.findings[0]).startswith("info stray-file: ")


def test_findings_come_worst_first(ours):
    ours.put("p=x/notes.txt", b"hello")
    ours.put("p=x/notes.parquet", b"hello")
    assert [one.severity for one in verify_table(ours).findings] == ["error", "info"]


def test_verify_changes_nothing(ours):
    before = {info.path: ours.get(info.path) for info in ours.list()}
    verify_table(ours, deep=True)
    assert {info.path: ours.get(info.path) for info in ours.list()} == before


def test_a_path_that_is_no_table_is_refused():
    with pytest.raises(InvalidRequest):
        verify_table(MemoryStorage("empty"))


def test_the_breaking_helpers_change_nothing_else(ours):
    """Rewriting a base file with its own rows is no damage: what the other tests find is what they broke."""
    breaking.rewrite_base(ours)
    assert breaking.found(ours) == []


@pytest.mark.parametrize(
    ("kind", "end"),
    [
        (pa.date32(), 2**31 - 1),
        (pa.date32(), -(2**31)),
        (pa.timestamp("us", "UTC"), 2**63 - 1),
        (pa.timestamp("ms", "UTC"), 2**62),
    ],
)
def test_dates_and_times_beyond_those_of_python_are_verified(tmp_path: Path, kind: pa.DataType, end: int) -> None:
    number = pa.int32() if pa.types.is_date(kind) else pa.int64()
    rows = pa.table({"id": ["a", "b", "c"], "at": pa.array([end, 0, None], number).cast(kind)})
    table = Table.create(tmp_path / "t", name="t", record_key="id", schema=rows.schema)
    table.ingest(rows)
    assert table.verify(deep=True).findings == ()
