"""Changes equal Apache Hudi's incremental query, and the `hudi` package's: between completion times of our tables.

Ends lie at completion times and between them. Where a reader does less than we do, that is named here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.errors import Unsupported
from tests.interop.answers import LONG_AGO, intervals, intervals_between_all, writes
from tests.interop.apache_hudi import HudiPeer, HudiPeerError
from tests.interop.compare import assert_same_rows
from tests.interop.conftest import changes_by_hudi_rs
from tests.interop.expected import some
from tests.protocol.crash_table import make_base
from tests.protocol.overtaken_writers import WORKING, overtaken

Reader = Callable[[Path, str, str | None], pa.Table]

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.int64()), ("ts", pa.int64())])


def rows(ids: range, value: int, ts: int = 1) -> pa.Table:
    return pa.table([list(ids), [f"p{i % 4}" for i in ids], [value] * len(ids), [ts] * len(ids)], schema=SCHEMA)


def play(table: Table) -> None:
    """Every operation, and rows that lose by their ordering column."""
    table.ingest(rows(range(40), 0))
    table.ingest(rows(range(8), 1))
    table.ingest(rows(range(4), 0), "delete")
    table.ingest(rows(range(38, 48), 2), "upsert")
    table.ingest(rows(range(48, 52), 3), "bulk_insert")
    table.ingest(rows(range(0, 16, 4), 4), "insert_overwrite")
    table.ingest(rows(range(8, 16), 5, ts=0))
    if table.config.partition_fields:
        table.delete_partition(["part=p1"])
    table.ingest(rows(range(2, 6), 6))


TABLES = {
    "partitioned": {"partition_by": ["part"], "buckets": 2, "ordering": "ts"},
    "one folder, version 8": {"version": 8, "buckets": 3},
    "merge-on-read with base files": {"partition_by": ["part"], "table_type": "mor"},
}


@pytest.fixture(scope="module", params=TABLES, ids=lambda name: name.split(",")[0].replace(" ", "-"))
def ours(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ours") / "t"
    table = Table.create(str(path), name="t", record_key=["id"], schema=SCHEMA, metadata=False, **TABLES[request.param])
    play(table)
    return path


@pytest.fixture(scope="module")
def overlapping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table where a write that was requested first completed last."""
    storage, *_ = overtaken(make_base(tmp_path_factory.mktemp("source"), None), WORKING)
    path = storage.dump(tmp_path_factory.mktemp("overlapping") / "t")
    requested = [one.time for one in writes(path)]
    assert requested != sorted(requested)
    return path


def assert_equal(path: Path, read: Reader, pairs: Sequence[tuple[str, str | None]]) -> Iterator[int]:
    table = Table.open(str(path))
    for begin, end in pairs:
        found = table.changes(begin, end, meta_columns=True).to_arrow()
        try:
            assert_same_rows(found, read(path, begin, end), with_meta=True)
        except AssertionError as error:
            raise AssertionError(f"({begin}, {end}]: {error}") from error
        yield found.num_rows


def test_ours_equal_the_hudi_package(ours: Path) -> None:
    assert max(assert_equal(ours, changes_by_hudi_rs, intervals_between_all(ours))) > 40


def test_ours_equal_apache_hudi(ours: Path, apache_hudi: HudiPeer, request: pytest.FixtureRequest) -> None:
    number = list(TABLES).index(request.node.callspec.params["ours"])
    pairs = some(intervals(ours), number)
    assert len(pairs) > 3
    assert max(assert_equal(ours, apache_hudi.incremental, pairs)) > 30


def test_after_writes_of_apache_hudi_they_equal(tmp_path: Path, apache_hudi: HudiPeer) -> None:
    path = tmp_path / "t"
    table = Table.create(
        str(path),
        name="t",
        record_key=["id"],
        schema=SCHEMA,
        partition_by=["part"],
        buckets=2,
        ordering="ts",
        metadata=False,
    )
    table.ingest(rows(range(40), 0))
    apache_hudi.write(path, rows(range(30, 50), 1), buckets=2)
    apache_hudi.write(path, rows(range(30, 34), 1), "delete", buckets=2)
    table.ingest(rows(range(36, 44), 2))
    apache_hudi.write(path, rows(range(0, 8, 4), 3), "insert_overwrite", buckets=2)
    table.ingest(rows(range(4), 4))
    pairs = intervals(path)
    for read in (apache_hudi.incremental, changes_by_hudi_rs):
        assert len([*assert_equal(path, read, pairs)]) == len(pairs) > 10


def test_overlapping_writers_equal(overlapping: Path, apache_hudi: HudiPeer) -> None:
    pairs = intervals_between_all(overlapping)
    assert max(assert_equal(overlapping, apache_hudi.incremental, pairs)) == 8
    # The `hudi` package chooses file slices by request time: where an interval ends while a write is under way, it sees its
    # file, none of whose rows completed in the interval, and loses those below it.
    whole = [
        (begin, end)
        for begin, end in pairs
        if end is None or not any(one.time <= end < one.completion_time for one in writes(overlapping))
    ]
    assert 0 < len(pairs) - len(whole) < len(pairs) / 2
    assert max(assert_equal(overlapping, changes_by_hudi_rs, whole)) == 8


def test_without_meta_columns_all_refuse(tmp_path: Path, apache_hudi: HudiPeer) -> None:
    path = tmp_path / "t"
    table = Table.create(str(path), name="t", record_key=["id"], schema=SCHEMA, meta_fields=False, metadata=False)
    table.ingest(rows(range(4), 0))
    with pytest.raises(HudiPeerError, match="not supported when meta fields are disabled"):
        apache_hudi.incremental(path, LONG_AGO)
    with pytest.raises(Unsupported):
        table.changes(meta_columns=True)
