"""The harness proves itself: Apache Hudi answers every command, and its errors come back.

Goal: a failing interop test must point at our tables. What Apache Hudi reads from its own is recorded: test_recorded_reads.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.interop.apache_hudi import HudiPeer, HudiPeerError, MissingInteropEnvironment, interop_environment
from tests.interop.compare import assert_same_rows
from tests.interop.expected import (
    COPY_ON_WRITE,
    FIXTURES,
    MERGE_ON_READ,
    load_expected,
    parse_type,
)

HudiFixtures = Callable[[str], Path]
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int32()), ("ts", pa.int64())])
CREATE = {
    "hoodie.table.name": "peer",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}


def rows(first: int, last: int, value: int, ts: int) -> pa.Table:
    """Rows `k<first>` to `k<last - 1>`."""
    return pa.Table.from_pylist(
        [{"id": f"k{n}", "p": "ab"[n % 2], "v": value, "ts": ts} for n in range(first, last)], schema=SCHEMA
    )


@pytest.mark.quick
def test_every_fixture_is_listed() -> None:
    assert {file.name.removesuffix(".expected.json") for file in FIXTURES.glob("*.expected.json")} == {
        *COPY_ON_WRITE,
        *MERGE_ON_READ,
    }


def test_a_read_does_not_touch_the_table(apache_hudi: HudiPeer, hudi_fixtures: HudiFixtures) -> None:
    table = hudi_fixtures("v9_txns_simple_meta_mor")
    before = {file: file.stat().st_mtime_ns for file in table.rglob("*")}
    assert_same_rows(apache_hudi.read(table), load_expected("v9_txns_simple_meta_mor"), with_meta=True)
    assert {file: file.stat().st_mtime_ns for file in table.rglob("*")} == before


def test_the_peer_writes_a_table_and_everything_it_tells_about_it_agrees(
    apache_hudi: HudiPeer, hudi_rs: Callable[..., pa.Table], tmp_path: Path
) -> None:
    table = tmp_path / "peer"
    apache_hudi.write(table, rows(0, 6, 1, 1), mode="overwrite", buckets=2, options=CREATE)
    apache_hudi.write(table, rows(4, 8, 2, 2), buckets=2)
    apache_hudi.write(table, rows(0, 1, 0, 3), "delete", buckets=2)

    expected = pa.concat_tables([rows(1, 4, 1, 1), rows(4, 8, 2, 2)])
    assert_same_rows(apache_hudi.read(table), expected)
    assert_same_rows(hudi_rs(table), expected)

    told = apache_hudi.timeline(table)
    assert told["version"] == 9
    commits = [instant for instant in told["instants"] if instant["action"] == "commit"]
    assert [instant["state"] for instant in commits] == ["COMPLETED"] * 3
    assert_same_rows(apache_hudi.read(table, commits[0]["time"]), rows(0, 6, 1, 1))
    assert_same_rows(
        apache_hudi.incremental(table, commits[0]["completed_at"], commits[1]["completed_at"]), rows(4, 8, 2, 2)
    )
    assert_same_rows(apache_hudi.read(table, columns=["id", "p", "v", "ts"], where="id = 'k3'"), rows(3, 4, 1, 1))

    counted = apache_hudi.sql("SELECT count(*) AS n, sum(v) AS total FROM peer", tables={"peer": table})
    assert counted.to_pylist() == [{"n": 7, "total": 11}]
    assert not (table / ".hoodie" / "metadata").exists(), "no call of the peer may build a metadata table unasked"


def test_an_empty_result_keeps_its_columns(
    apache_hudi: HudiPeer, hudi_rs: Callable[..., pa.Table], tmp_path: Path
) -> None:
    table = tmp_path / "peer"
    apache_hudi.write(table, rows(0, 2, 1, 1), mode="overwrite", buckets=1, options=CREATE)
    apache_hudi.write(table, rows(0, 2, 1, 1), "delete", buckets=1)
    assert_same_rows(apache_hudi.read(table), SCHEMA.empty_table())
    assert_same_rows(hudi_rs(table), SCHEMA.empty_table())


def test_errors_of_the_jvm_come_back_and_the_peer_lives_on(apache_hudi: HudiPeer, tmp_path: Path) -> None:
    with pytest.raises(HudiPeerError, match="FileNotFoundException"):
        apache_hudi.read(tmp_path / "nothing")
    with pytest.raises(HudiPeerError, match="PARSE_SYNTAX_ERROR"):
        apache_hudi.sql("SELEC 1")
    with pytest.raises(HudiPeerError, match="do_fly"):
        apache_hudi.call("fly")
    assert apache_hudi.call("ping")["spark"] == "3.5.7"


def test_bucket_hash_vectors(apache_hudi: HudiPeer) -> None:
    keys = ["TXN-001", "abc", "polygenelubricants", "日本", "id:7", "id:7,8"]
    assert apache_hudi.bucket_ids(keys, "id", 8) == [5, 1, 7, 6, 7, 2]
    assert apache_hudi.bucket_ids(["a:1,b:2"], "a,b", 8) == [2]


@pytest.mark.quick
def test_a_missing_environment_names_the_command_that_makes_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HUDI_OPS_INTEROP", str(tmp_path))
    with pytest.raises(MissingInteropEnvironment, match="bin/bootstrap --interop"):
        interop_environment()


@pytest.mark.quick
def test_expected_types_parse_to_what_prints_as_them() -> None:
    text = "map<string, struct<a: list<element: decimal128(10, 2)>, b: map<string, int32>, c: timestamp[us, tz=UTC]>>"
    assert parse_type(text) == pa.map_(
        pa.string(),
        pa.struct([
            ("a", pa.list_(pa.decimal128(10, 2))),
            ("b", pa.map_(pa.string(), pa.int32())),
            ("c", pa.timestamp("us", "UTC")),
        ]),
    )
