"""Changes equal Apache Hudi's incremental query, and the `hudi` package's: between completion times of our tables and of fixtures.

Ends lie at completion times and between them. Where a reader does less than we do, that is named here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiQueryType, HudiReadOptions, HudiTableBuilder

from hudi_ops import Table
from hudi_ops.errors import Unsupported
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.content.archived import load_history
from hudi_ops.timeline.instant import Instant
from tests.interop.apache_hudi import HudiPeer, HudiPeerError
from tests.interop.compare import assert_same_rows, found_or_refused
from tests.interop.expected import CLEANED, COPY_ON_WRITE, MERGE_ON_READ, some
from tests.protocol.crash_table import make_base
from tests.protocol.overtaken_writers import WORKING, overtaken

HudiFixtures = Callable[[str], Path]
Reader = Callable[[Path, str, str | None], pa.Table]

LONG_AGO = "20000101000000000"
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.int64()), ("ts", pa.int64())])
ARCHIVED = "v9_cow_clean_savepoint_rollback_archive"


def incremental_by_hudi_rs(path: Path, begin: str, end: str | None) -> pa.Table:
    table = HudiTableBuilder.from_base_uri(str(path)).build()
    options = HudiReadOptions().with_query_type(HudiQueryType.Incremental).with_start_timestamp(begin)
    batches = table.read(options.with_end_timestamp(end) if end is not None else options)
    return pa.Table.from_batches(batches) if batches else table.get_schema_with_meta_fields().empty_table()


def writes(path: Path) -> list[Instant]:
    """Completed writes, by completion."""
    table = Table.open(str(path))
    return sorted(
        load_timeline(table.context.storage, table.config).completed_writes, key=lambda one: one.completion_time
    )


def intervals(path: Path, *, every: bool = False) -> list[tuple[str, str | None]]:
    """All pairs of completion times; or each write alone, from the beginning to each, and from each to the end."""
    times = [LONG_AGO, *(one.completion_time for one in writes(path))]
    if every:
        return [*itertools.combinations(times, 2)]
    pairs = {*itertools.pairwise(times), *((LONG_AGO, one) for one in times[1:]), *((one, None) for one in times[:-1])}
    return sorted(pairs, key=str)


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
    assert max(assert_equal(ours, incremental_by_hudi_rs, intervals(ours, every=True))) > 40


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
    for read in (apache_hudi.incremental, incremental_by_hudi_rs):
        assert len([*assert_equal(path, read, pairs)]) == len(pairs) > 10


def test_overlapping_writers_equal(overlapping: Path, apache_hudi: HudiPeer) -> None:
    pairs = intervals(overlapping, every=True)
    assert max(assert_equal(overlapping, apache_hudi.incremental, pairs)) == 8
    # The `hudi` package chooses file slices by request time: where an interval ends while a write is under way, it sees its
    # file, none of whose rows completed in the interval, and loses those below it.
    whole = [
        (begin, end)
        for begin, end in pairs
        if end is None or not any(one.time <= end < one.completion_time for one in writes(overlapping))
    ]
    assert 0 < len(pairs) - len(whole) < len(pairs) / 2
    assert max(assert_equal(overlapping, incremental_by_hudi_rs, whole)) == 8


@pytest.mark.parametrize("name", [name for name in COPY_ON_WRITE if name not in {ARCHIVED, *CLEANED}])
def test_copy_on_write_fixtures_equal(name: str, apache_hudi: HudiPeer, hudi_fixtures: HudiFixtures) -> None:
    path = hudi_fixtures(name)
    assert max(assert_equal(path, incremental_by_hudi_rs, intervals(path))) > 0
    assert max(assert_equal(path, apache_hudi.incremental, some(intervals(path), COPY_ON_WRITE.index(name)))) > 0


@pytest.mark.parametrize("name", [name for name in MERGE_ON_READ if name not in CLEANED])
def test_merge_on_read_fixtures_equal(name: str, hudi_fixtures: HudiFixtures) -> None:
    path = hudi_fixtures(name)
    table = Table.open(str(path))
    if not table.config.populate_meta_fields:
        with pytest.raises(Unsupported, match="which write each row is from"):
            table.changes(meta_columns=True)
        return
    for begin, end in intervals(path, every=True):
        found, theirs = (
            table.changes(begin, end, meta_columns=True).to_arrow(),
            incremental_by_hudi_rs(path, begin, end),
        )
        if name == "v9_bucket_consistent_resized":
            # Up to an end before the resize, the `hudi` package takes the same rows from the groups that it made.
            of_files = ["_hoodie_file_name", "_hoodie_commit_seqno"]
            found, theirs = found.drop_columns(of_files), theirs.drop_columns(of_files)
        assert_same_rows(found, theirs, with_meta=True)


def test_archived_writes_and_cleaned_files(apache_hudi: HudiPeer, hudi_fixtures: HudiFixtures) -> None:
    """Up to now all is equal. Up to an earlier end, Apache Hudi reads the newest snapshot and loses what changed after that end."""
    path = hudi_fixtures(ARCHIVED)
    table = Table.open(str(path))
    archived = [one.completion_time for one in load_history(table.context.storage, table.config).instants]
    outcomes = {"equal": 0, "cleaned": 0, "archived": 0}
    for begin, end in [*intervals(path), (archived[0], None), (archived[-1], None)]:
        found, theirs = found_or_refused(table, begin, end), apache_hudi.incremental(path, begin, end)
        if isinstance(found, str):
            assert "cleaned away" in found
            assert end is not None
            outcomes["cleaned"] += 1
        elif end is None or not any(begin < one <= end for one in archived):
            assert_same_rows(found, theirs, with_meta=True)
            outcomes["equal"] += 1
        else:
            assert states(theirs) <= states(found)
            outcomes["archived"] += 1
    assert min(outcomes.values()) > 0
    # The `hudi` package does not read the archived timeline, and says nothing about it.
    assert incremental_by_hudi_rs(path, LONG_AGO, None).num_rows < table.changes(meta_columns=True).count_rows()


def states(found: pa.Table) -> set[tuple[str, str]]:
    """Which rows, and of which writes."""
    return set(zip(found["_hoodie_record_key"].to_pylist(), found["_hoodie_commit_time"].to_pylist(), strict=True))


def test_without_meta_columns_all_refuse(tmp_path: Path, apache_hudi: HudiPeer) -> None:
    path = tmp_path / "t"
    table = Table.create(str(path), name="t", record_key=["id"], schema=SCHEMA, meta_fields=False, metadata=False)
    table.ingest(rows(range(4), 0))
    with pytest.raises(HudiPeerError, match="not supported when meta fields are disabled"):
        apache_hudi.incremental(path, LONG_AGO)
    with pytest.raises(Unsupported):
        table.changes(meta_columns=True)
