"""Metadata tables that Apache Hudi wrote, and hand-made ones: merged reads, lookups, and when they are not believed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_ops.errors import Corrupt, Unavailable
from hudi_ops.metadata.reader.table import MetadataTable, open_metadata
from hudi_ops.metadata.records.partitions import FOLDER, TIMELINE_FOLDER, MetadataPartition
from hudi_ops.metadata.records.record_index import decoded_locations
from hudi_ops.metadata.records.records import Records
from hudi_ops.read.plan import Opened
from hudi_ops.storage.local import LocalStorage
from hudi_ops.timeline.active import Timeline
from hudi_ops.view.columns.slices import visible_slices
from hudi_ops.view.listing import StorageListing
from hudi_ops.view.slices import is_partitioned
from tests.unit.metadata.fixture_metadata import TABLES

RECORD_INDEX = MetadataPartition.RECORD_INDEX


@pytest.fixture
def copied(hudi_fixtures: Callable[[str], Path], tmp_path: Path) -> Callable[[str], LocalStorage]:
    """A fixture's table, to be changed."""

    def copy(name: str) -> LocalStorage:
        shutil.copytree(hudi_fixtures(name), tmp_path / name)
        return LocalStorage(str(tmp_path / name))

    return copy


def opened_metadata(storage: LocalStorage) -> MetadataTable:
    opened = Opened.of(storage)
    found = open_metadata(storage, opened.config, opened.timeline)
    assert found is not None
    return found


@pytest.mark.parametrize("name", TABLES)
def test_every_partition_that_the_properties_name_is_read(hudi_fixtures: Callable[[str], Path], name: str):
    metadata = opened_metadata(LocalStorage(str(hudi_fixtures(name))))
    for partition in MetadataPartition:
        if not metadata.holds(partition):
            continue
        records = metadata.read(partition)
        assert len(records.keys) > 0
        assert not len(records.deletes)
        assert records.keys.equals(records.keys.take(pc.sort_indices(records.keys.cast(pa.binary()))))


@pytest.mark.parametrize("name", TABLES)
def test_a_lookup_gives_what_a_whole_read_has_under_these_keys(hudi_fixtures: Callable[[str], Path], name: str):
    metadata = opened_metadata(LocalStorage(str(hudi_fixtures(name))))
    for partition in MetadataPartition:
        if not metadata.holds(partition):
            continue
        records = metadata.read(partition)
        wanted = records.keys.take(pa.array(range(0, len(records.keys), 2)))
        found = metadata.lookup(partition, [*reversed(wanted.to_pylist()), "nobody", wanted[0].as_py()])
        assert found.keys.equals(wanted)
        assert found.values.equals(records.values.take(pa.array(range(0, len(records.keys), 2))))
        assert not metadata.lookup(partition, ["nobody"])
        assert not metadata.lookup(partition, [])


def entries(parts: list[list[Records]]) -> list[tuple[str, bytes]]:
    """Keys and values, in the order of groups and files."""
    held = [one for of_group in parts for one in of_group]
    return [pair for one in held for pair in zip(one.keys.to_pylist(), one.values.to_pylist(), strict=True)]


@pytest.mark.parametrize("name", TABLES)
def test_prefixes_give_what_a_whole_read_has_under_them(hudi_fixtures: Callable[[str], Path], name: str):
    metadata = opened_metadata(LocalStorage(str(hudi_fixtures(name))))
    whole = entries(metadata.parts(MetadataPartition.COLUMN_STATS))
    prefixes = sorted({key[:12] for key, _ in whole})[::2]
    found = entries(metadata.parts(MetadataPartition.COLUMN_STATS, prefixes=prefixes))
    assert found == [(key, value) for key, value in whole if key[:12] in prefixes]


@pytest.mark.parametrize("name", TABLES)
def test_the_record_index_names_the_group_of_every_key(hudi_fixtures: Callable[[str], Path], name: str):
    storage = LocalStorage(str(hudi_fixtures(name)))
    opened = Opened.of(storage)
    listed = StorageListing(storage, is_partitioned=is_partitioned(opened.config)).walk().files
    slices = visible_slices(opened.config, opened.timeline, opened.commits, listed)
    found = decoded_locations(opened_metadata(storage).read(RECORD_INDEX), "record_index")
    named = zip(found["partition_path"].to_pylist(), found["file_id"].to_pylist(), strict=True)
    assert set(named) <= {(one.partition_path, one.file_id) for one in slices}


def test_a_table_without_a_metadata_table_has_none(hudi_fixtures: Callable[[str], Path]):
    storage = LocalStorage(str(hudi_fixtures("v9_bucket_simple")))
    opened = Opened.of(storage)
    assert open_metadata(storage, opened.config, opened.timeline) is None


def test_one_that_is_named_but_gone_is_not_believed(copied: Callable[[str], LocalStorage]):
    storage = copied("v9_async_index")
    storage.delete_all([info.path for info in storage.list(FOLDER)])
    opened = Opened.of(storage)
    assert open_metadata(storage, opened.config, opened.timeline) is None


def test_one_that_lacks_a_completed_write_is_not_believed(copied: Callable[[str], LocalStorage]):
    storage = copied("v9_record_index_bloom_filters")
    opened = Opened.of(storage)
    newest = opened.timeline.completed_writes[-1].time
    storage.delete_all([info.path for info in storage.list(TIMELINE_FOLDER) if f"/{newest}_" in info.path])
    assert open_metadata(storage, opened.config, opened.timeline) is None


def test_a_partition_that_is_being_filled_is_not_held(copied: Callable[[str], LocalStorage]):
    storage = copied("v9_record_index_bloom_filters")
    opened = Opened.of(storage)
    filling = opened.config.model_copy(
        update={"metadata_partitions": ("files",), "metadata_partitions_inflight": ("record_index",)}
    )
    metadata = open_metadata(storage, filling, opened.timeline)
    assert metadata is not None
    assert [one for one in MetadataPartition if metadata.holds(one)] == [MetadataPartition.FILES]
    with pytest.raises(Corrupt, match="record_index"):
        metadata.lookup(RECORD_INDEX, ["a"])


def test_the_metadata_of_a_write_that_the_timeline_does_not_show_yet_is_about_a_later_moment(
    copied: Callable[[str], LocalStorage],
):
    storage = copied("v9_record_index_bloom_filters")
    opened = Opened.of(storage)
    newest = opened.timeline.completed_writes[-1].time
    before = Timeline(opened.timeline.folder, 2, tuple(one for one in opened.timeline.instants if one.time < newest))
    ahead = open_metadata(storage, opened.config, before)
    assert ahead is not None
    assert not ahead.is_current
    assert opened_metadata(storage).is_current


def test_an_instant_that_only_the_metadata_table_has_does_not_make_it_later(copied: Callable[[str], LocalStorage]):
    storage = copied("v9_record_index_bloom_filters")
    newest = Opened.of(storage).timeline.completed_writes[-1]
    time, completion = (str(int(newest.completion_time) + later) for later in (1, 2))
    for name in (f"{time}.deltacommit.requested", f"{time}_{completion}.deltacommit"):
        storage.put(f"{TIMELINE_FOLDER}/{name}", b"")
    metadata = opened_metadata(storage)
    assert metadata.instants.unseen == (time,)
    assert metadata.is_current


def test_what_lies_above_a_delta_does_not_make_it_later(copied: Callable[[str], LocalStorage]):
    storage = copied("v9_record_index_bloom_filters")
    time = str(int(Opened.of(storage).timeline.completed_writes[-1].completion_time) + 1)
    for name in (f"{time}.deltacommit.requested", f"{time}_{time}.deltacommit"):
        storage.put(f"{TIMELINE_FOLDER}/{name}", b"")
    assert opened_metadata(storage).instants.unseen == ()


def test_a_file_that_is_gone_is_unavailable(copied: Callable[[str], LocalStorage]):
    storage = copied("v9_record_index_bloom_filters")
    metadata = opened_metadata(storage)
    slices = metadata.slices(MetadataPartition.FILES)
    storage.delete(slices[0].logs[-1].path)
    with pytest.raises(Unavailable, match="metadata table"):
        metadata.read(MetadataPartition.FILES)
