"""Which tables of Apache Hudi can be adopted, asked of every fixture; and what is told of those that need more to be said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.clock import SystemClock
from hudi_ops.config.table import IndexKind, TableConfig
from hudi_ops.errors import Corrupt, HudiOpsError, InvalidRequest, Unsupported
from hudi_ops.index.ring import INITIAL, RING_MOST
from hudi_ops.index.ring_files import ring_path
from hudi_ops.services.create.adoption import AdoptionOptions
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.open import open_storage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.log.commit_log import read_slot
from hudi_ops.timeline.names import instant_of_ms
from hudi_ops.timeline.settings.properties_file import read_properties
from hudi_ops.verify import verify_table
from tests.protocol.foreign_table import make_foreign, set_properties, snapshot
from tests.tables import table_of

ANSWERS: dict[str, tuple[type[HudiOpsError], str]] = {
    "v6_nonpartitioned_mor": (Unsupported, "version is 6"),
    "v6_trips_8i1u_mor": (Unsupported, "version is 6"),
    "v8_all_types_metadata_cow": (InvalidRequest, "bloom, simple, record_index or a global one"),
    "v8_simplekeygen_nonhivestyle_cow": (InvalidRequest, "bloom, simple, record_index or a global one"),
    "v8_trips_8i3u1d_mor": (InvalidRequest, "the existing record index does not say which"),
    "v9_all_types_metadata_mor": (InvalidRequest, "the existing record index does not say which"),
    "v9_async_index": (InvalidRequest, "the existing record index does not say which"),
    "v9_bucket_consistent_pending_resize": (InvalidRequest, "local time of its writers"),
    "v9_bucket_consistent_resized": (InvalidRequest, "local time of its writers"),
    "v9_bucket_simple": (InvalidRequest, "20 keys in 4 files, which fit 4 buckets"),
    "v9_cow_clean_savepoint_rollback_archive": (InvalidRequest, "bloom, simple, record_index or a global one"),
    "v9_mor_parquet_log": (InvalidRequest, "bloom, simple, record_index or a global one"),
    "v9_mor_pending_compaction_clustering": (InvalidRequest, "bloom, simple, record_index or a global one"),
    "v9_record_index_bloom_filters": (InvalidRequest, "the existing record index does not say which"),
    "v9_txns_nonpart_nometa_mor": (InvalidRequest, "bloom, simple, record_index or a global one"),
    "v9_txns_simple_meta_cow": (Unsupported, "txn_date is of type date32"),
    "v9_txns_simple_meta_mor": (Unsupported, "txn_date is of type date32"),
}
SCHEMA = pa.schema([("id", pa.string()), ("site", pa.string()), ("shop", pa.string()), ("ts", pa.int64())])


def copy_of(root: Path) -> MemoryStorage:
    storage, source = MemoryStorage(root.name, SystemClock()), open_storage(str(root))
    for info in source.list():
        storage.put(info.path, source.get(info.path))
    return storage


def opened(storage: MemoryStorage, terms: AdoptionOptions) -> Table:
    return table_of(storage, SystemClock(), "writer", terms)


@pytest.fixture
def theirs(tmp_path: Path) -> MemoryStorage:
    """Two partition fields and one key, as a table of Apache Hudi."""
    table = Table.create(
        str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA, partition_by=["site", "shop"], buckets=3
    )
    rows = {"id": [f"k{n}" for n in range(60)], "site": ["a", "b"] * 30, "shop": ["x"] * 60, "ts": [1] * 60}
    table.ingest(pa.table(rows, schema=SCHEMA))
    return make_foreign(copy_of(tmp_path / "t"))


def test_every_fixture_has_its_answer(hudi_fixture_names: list[str]) -> None:
    assert sorted(ANSWERS) == hudi_fixture_names


@pytest.mark.parametrize("name", ANSWERS)
def test_what_adopting_a_fixture_answers(name: str, hudi_fixtures: Callable[[str], Path]) -> None:
    kind, said = ANSWERS[name]
    storage = copy_of(hudi_fixtures(name))
    before = snapshot(storage)
    with pytest.raises(kind) as caught:
        opened(storage, AdoptionOptions()).adopt()
    assert said in str(caught.value)
    assert snapshot(storage) == before


LOCATED = (
    "v9_cow_clean_savepoint_rollback_archive",
    "v9_mor_parquet_log",
    "v9_mor_pending_compaction_clustering",
    "v9_txns_nonpart_nometa_mor",
)


@pytest.mark.parametrize("index", ["bloom", "simple"])
@pytest.mark.parametrize("name", LOCATED)
def test_a_table_whose_index_is_asked_takes_rows_once_the_index_is_named(
    name: str, index: IndexKind, hudi_fixtures: Callable[[str], Path]
) -> None:
    storage = copy_of(hudi_fixtures(name))
    is_local = TableConfig.from_properties(read_properties(storage)).is_in_local_time
    table = opened(storage, AdoptionOptions(index=index, timezone="UTC" if is_local else None))
    adoption = table.adopt()
    assert (adoption.index, adoption.buckets) == (index, 0)
    assert adoption.checked_keys > 0
    before = table.read()
    rows = before.select(table.schema.names).slice(0, 3)
    result = table.ingest(rows)
    assert (result.inserted, result.updated + result.logged) == (0, 3)
    again = table.read()
    assert again.num_rows == before.num_rows
    assert (
        again
        .select(table.schema.names)
        .sort_by([(key, "ascending") for key in table.config.record_key_fields])
        .equals(
            before.select(table.schema.names).sort_by([(key, "ascending") for key in table.config.record_key_fields])
        )
    )
    with pytest.raises(InvalidRequest, match=f"says index {index}, the call says simple_bucket"):
        opened(storage, AdoptionOptions(index="simple_bucket", buckets=4)).adopt()


@pytest.mark.parametrize("index", ["simple", "record_index"])
def test_a_table_with_a_record_index_has_the_index_that_is_named(
    index: IndexKind, hudi_fixtures: Callable[[str], Path]
) -> None:
    storage = copy_of(hudi_fixtures("v9_record_index_bloom_filters"))
    with pytest.raises(InvalidRequest, match="does not store its index") as caught:
        opened(storage, AdoptionOptions(timezone="UTC")).adopt()
    assert "--index simple" in caught.value.next_step
    assert "record_index" in caught.value.next_step
    assert opened(storage, AdoptionOptions(index=index, timezone="UTC")).adopt().index == index


def test_the_index_must_be_one_that_the_files_can_have(hudi_fixtures: Callable[[str], Path]) -> None:
    bucketed = copy_of(hudi_fixtures("v9_bucket_simple"))
    with pytest.raises(InvalidRequest, match="named for buckets: its index is not bloom"):
        opened(bucketed, AdoptionOptions(index="bloom", timezone="UTC")).adopt()
    other = copy_of(hudi_fixtures("v9_txns_nonpart_nometa_mor"))
    with pytest.raises(Unsupported, match="of another index"):
        opened(other, AdoptionOptions(index="simple_bucket", buckets=4, timezone="UTC")).adopt()
    with pytest.raises(InvalidRequest, match="has neither buckets nor hash fields"):
        opened(other, AdoptionOptions(index="bloom", buckets=4, timezone="UTC")).adopt()


def test_a_table_in_local_time_keeps_its_zone(hudi_fixtures: Callable[[str], Path]) -> None:
    storage = copy_of(hudi_fixtures("v9_bucket_simple"))
    with pytest.raises(InvalidRequest, match="do not name the zone"):
        opened(storage, AdoptionOptions(buckets=4)).adopt()
    for zone in ("Nowhere", ""):
        with pytest.raises(InvalidRequest, match="not a time zone"):
            opened(storage, AdoptionOptions(buckets=4, timezone=zone)).adopt()
    assert opened(storage, AdoptionOptions(buckets=4, timezone="Asia/Tokyo")).adopt().timezone == "Asia/Tokyo"
    first = read_slot(storage, 0)
    assert first is not None
    assert first.facts.timezone == "Asia/Tokyo"  # type: ignore[union-attr]
    assert not opened(storage, AdoptionOptions()).adopt().adopted
    with pytest.raises(InvalidRequest, match="says timezone Asia/Tokyo, the call says UTC"):
        opened(storage, AdoptionOptions(timezone="UTC")).adopt()


def test_instants_of_ours_are_in_the_tables_zone(theirs: MemoryStorage) -> None:
    set_properties(theirs, {"hoodie.table.timeline.timezone": "LOCAL"})
    clock = ManualClock(SystemClock().now_ms() + 3_600_000)
    table = table_of(theirs, clock, "writer", AdoptionOptions(buckets=3, timezone="Asia/Kolkata"))
    rows = pa.table({"id": ["new"], "site": ["a"], "shop": ["x"], "ts": [2]}, schema=SCHEMA)
    result = table.ingest(rows)
    assert result.instant is not None
    assert instant_of_ms(clock.now_ms(), "Asia/Kolkata")[:12] == result.instant[:12]
    assert result.instant < str(result.completion_time)
    # An ISO time is a moment: the table's own zone is found in its log.
    reader = table_of(theirs, clock, "reader")
    for ms, count in ((clock.now_ms() - 1_000, 60), (clock.now_ms() + 1_000, 61)):
        at = instant_of_ms(ms)
        iso = f"{at[:4]}-{at[4:6]}-{at[6:8]}T{at[8:10]}:{at[10:12]}:{at[12:14]}.{at[14:]}Z"
        assert reader.read(as_of=iso).num_rows == count


def test_keys_without_their_field_s_name_are_recognised(theirs: MemoryStorage) -> None:
    """Of one field the complex generator of version 9 writes `id:k1`, that of release 1.0 the bare value."""
    set_properties(theirs, {"hoodie.table.version": "8", "hoodie.table.precombine.field": "ts"})
    done = opened(theirs, AdoptionOptions(buckets=3)).adopt()
    assert done.checked_keys == 60
    assert read_slot(theirs, 0).facts.encodes_key_names is True  # type: ignore[union-attr]
    rows = pa.table({"id": ["k0", "new"], "site": ["a", "a"], "shop": ["x", "x"], "ts": [2, 2]}, schema=SCHEMA)
    result = opened(theirs, AdoptionOptions()).ingest(rows)
    assert (result.updated, result.inserted) == (1, 1)


def test_partition_paths_that_are_made_otherwise_are_refused(theirs: MemoryStorage) -> None:
    set_properties(theirs, {"hoodie.datasource.write.hive_style_partitioning": "false"})
    with pytest.raises(Unsupported, match="partition path that this library would write otherwise"):
        opened(theirs, AdoptionOptions(buckets=3)).adopt()


def test_two_groups_of_one_bucket_are_refused(theirs: MemoryStorage) -> None:
    path = next(info.path for info in theirs.list() if info.path.endswith(".parquet"))
    digits, _, rest = path.rpartition("/")[2].partition("-")
    twin = f"{path.rpartition('/')[0]}/{digits}-{'8' if rest[0] == '9' else '9'}{rest[1:]}"
    theirs.put(twin, theirs.get(path))
    commit = max(info.path for info in theirs.list(".hoodie/timeline") if info.path.endswith(".commit"))
    from hudi_ops.timeline.content.commit_metadata import CommitMetadata

    metadata = CommitMetadata.from_bytes(theirs.get(commit), commit)
    named = next(stat for stat in metadata.stats if stat.path == path)
    stats = (*metadata.stats, replace(named, path=twin, file_id=twin.rpartition("/")[2].partition("_")[0]))
    theirs.put(commit, replace(metadata, stats=stats).to_bytes())
    with pytest.raises(Corrupt, match="bucket index"):
        opened(theirs, AdoptionOptions(buckets=3)).adopt()


RINGED = ("v9_bucket_consistent_resized", "v9_bucket_consistent_pending_resize")


@pytest.mark.parametrize("name", RINGED)
def test_a_table_with_hash_rings_tells_its_index_and_buckets(name: str, hudi_fixtures: Callable[[str], Path]) -> None:
    storage = copy_of(hudi_fixtures(name))
    adoption = opened(storage, AdoptionOptions(timezone="UTC")).adopt()
    assert (adoption.index, adoption.buckets, adoption.checked_keys) == ("consistent_bucket", 2, 205)
    facts = read_slot(storage, 0).facts  # type: ignore[union-attr]
    assert (facts.buckets_min, facts.buckets_max) == (1, RING_MOST)
    stated = AdoptionOptions(index="simple_bucket", bucket_engine="consistent", buckets=2)
    assert not opened(storage, stated).adopt().adopted
    with pytest.raises(InvalidRequest, match="says index consistent_bucket, the call says extendible_bucket"):
        opened(storage, AdoptionOptions(bucket_engine="extendible")).adopt()


def test_rows_follow_the_rings_that_apache_hudi_resized(hudi_fixtures: Callable[[str], Path]) -> None:
    storage = copy_of(hudi_fixtures(RINGED[0]))
    table = opened(storage, AdoptionOptions(timezone="UTC"))
    table.adopt()
    before = table.read().select(table.schema.names)
    table.ingest(before)
    assert table.read(table.schema.names).sort_by("id").equals(before.sort_by("id"))
    errors = [one for one in verify_table(storage, deep=True).findings if one.severity == "error"]
    assert errors == []


def test_a_write_beside_a_pending_resize_is_put_into_its_new_buckets_too(
    hudi_fixtures: Callable[[str], Path],
) -> None:
    storage = copy_of(hudi_fixtures(RINGED[1]))
    table = opened(storage, AdoptionOptions(timezone="UTC"))
    table.adopt()
    rows = table.read().select(table.schema.names)
    before = [child.log_files for ring in table.ring() for child in ring.pending]
    table.ingest(rows.slice(0, 1))
    after = [child.log_files for ring in table.ring() for child in ring.pending]
    assert sum(after) == sum(before) + 1
    assert table.read().num_rows == rows.num_rows
    assert [one for one in verify_table(storage, deep=True).findings if one.severity == "error"] == []


@pytest.mark.parametrize(
    ("terms", "kind", "said"),
    [
        (AdoptionOptions(index="bloom"), InvalidRequest, "its index is not bloom"),
        (AdoptionOptions(bucket_engine="simple"), InvalidRequest, "its index is not simple_bucket"),
        (AdoptionOptions(hash_fields=("p",)), InvalidRequest, "hash field p is not a field of the record key"),
        (AdoptionOptions(buckets=2, buckets_min=3), InvalidRequest, "cannot stay between 3 and "),
        (AdoptionOptions(bucket_engine="extendible", buckets=3), InvalidRequest, "cannot begin with 3 buckets"),
    ],
    ids=str,
)
def test_facts_that_contradict_hash_rings_are_refused(
    terms: AdoptionOptions, kind: type[HudiOpsError], said: str, hudi_fixtures: Callable[[str], Path]
) -> None:
    storage = copy_of(hudi_fixtures(RINGED[0]))
    before = snapshot(storage)
    with pytest.raises(kind, match=said):
        opened(storage, replace(terms, timezone="UTC")).adopt()
    assert snapshot(storage) == before


def test_keys_outside_their_nodes_stop_an_adoption(hudi_fixtures: Callable[[str], Path]) -> None:
    storage = copy_of(hudi_fixtures(RINGED[1]))
    path = ring_path("p=a", INITIAL)
    body = storage.get(path)
    storage.put(path, body.replace(b"1073741824", b"1173741824"))
    with pytest.raises(InvalidRequest, match="in another file group than the hash ring by id gives"):
        opened(storage, AdoptionOptions(timezone="UTC")).adopt()
    storage.put(path, body.replace(b'"fileIdPrefix" : "2', b'"fileIdPrefix" : "3'))
    with pytest.raises(Unsupported, match="belongs to no node of the hash ring"):
        opened(storage, AdoptionOptions(timezone="UTC")).adopt()
    storage.put(path, body[:30])
    with pytest.raises(Corrupt, match="cannot be read"):
        opened(storage, AdoptionOptions(timezone="UTC")).adopt()
