"""Broken settings, one at a time."""

from __future__ import annotations

from hudi_ops.config.table import BACKUP_PATH, PROPERTIES_PATH
from tests.unit.verify.breaking import edit_properties, errors, found, infos, warnings


def test_backup_left_over(foreign):
    foreign.put(BACKUP_PATH, foreign.get(PROPERTIES_PATH))
    assert found(foreign) == warnings("properties-backup")


def test_only_the_backup_is_there(foreign):
    foreign.put(BACKUP_PATH, foreign.get(PROPERTIES_PATH))
    foreign.delete(PROPERTIES_PATH)
    assert found(foreign) == errors("properties-missing") + warnings("properties-backup")


def test_broken_file_beside_a_good_backup(foreign):
    foreign.put(BACKUP_PATH, foreign.get(PROPERTIES_PATH))
    foreign.put(PROPERTIES_PATH, b"\0\0\0\0")
    assert found(foreign) == errors("properties-broken") + warnings("properties-backup")


def test_broken_file_without_a_backup(foreign):
    foreign.put(PROPERTIES_PATH, b"\0\0\0\0")
    assert found(foreign) == errors("properties-broken")


def test_wrong_checksum_beside_a_good_backup(foreign):
    foreign.put(BACKUP_PATH, foreign.get(PROPERTIES_PATH))
    edit_properties(foreign, table_checksum="1")
    assert found(foreign) == errors("properties-checksum") + warnings("properties-backup")


def test_missing_required_key(foreign):
    edit_properties(foreign, table_type=None)
    assert found(foreign) == errors("properties-key")


def test_missing_merge_mode_of_a_merge_on_read_table(in_memory):
    storage = in_memory("v9_bucket_simple")
    edit_properties(storage, record_merge_mode=None)
    assert found(storage) == errors("properties-key")


def test_layout_that_does_not_go_with_the_version(foreign):
    edit_properties(foreign, timeline_layout_version="1")
    # The timeline is then looked for in another folder, where there is none: nothing vouches for the files.
    assert found(foreign) == errors("properties-layout") + warnings("leftover-unknown")


def test_key_field_that_is_no_column(foreign):
    edit_properties(foreign, table_recordkey_fields="nobody")
    assert found(foreign) == errors("properties-field")


def test_schema_of_a_type_that_cannot_be_read(ours, monkeypatch):
    from hudi_ops.errors import Unsupported
    from hudi_ops.verify.timeline import properties

    def refuse(*_: object) -> None:
        raise Unsupported("a type of the future")

    monkeypatch.setattr(properties, "table_schema", refuse)
    assert found(ours) == infos("schema-unreadable")


def test_index_build_given_up(in_memory):
    storage = in_memory("v9_async_index")
    edit_properties(storage, table_metadata_partitions_inflight="bloom_filters")
    assert found(storage) == infos("metadata-inflight")


def test_metadata_partition_gone(in_memory):
    storage = in_memory("v9_async_index")
    for info in storage.list(".hoodie/metadata/record_index"):
        storage.delete(info.path)
    assert found(storage) == errors("metadata-missing")


def test_metadata_table_lacks_a_write(in_memory):
    storage = in_memory("v9_txns_simple_meta_cow")
    (path,) = [i.path for i in storage.list(".hoodie/metadata/.hoodie/timeline") if "/20260307162452329_" in i.path]
    storage.delete(path)
    assert found(storage) == errors("metadata-behind")
