"""Broken base files, one respect at a time; sizes and counts around them are kept true."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from hudi_ops.clock import SystemClock
from hudi_ops.commit.session import Session
from hudi_ops.config.columns import FILE_NAME, PARTITION_PATH, RECORD_KEY
from hudi_ops.formats.parquet.bloom import BloomFilter
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.verify import verify_table
from tests.definitions import Definition, create_table
from tests.unit.verify.breaking import (
    errors,
    found,
    infos,
    live,
    rewrite_base,
    rewrite_commit,
    rewrite_stat,
    set_column,
    warnings,
)
from tests.unit.verify.conftest import SCHEMA, context, rows_of


def without_range(footer):
    return replace(footer, min_key=None, max_key=None)


def test_other_number_of_rows_than_counted(ours):
    instant, stat = live(ours)
    rewrite_stat(ours, instant, stat.path, num_writes=stat.num_writes + 1)
    assert found(ours, deep=False) == errors("row-count")


def test_no_bloom_filter(ours):
    rewrite_base(ours, footer=lambda footer: replace(footer, bloom=None))
    assert found(ours, deep=False) == warnings("bloom-missing")


def test_bloom_filter_that_denies_a_key(ours):
    def fewer(footer):
        return replace(footer, bloom=BloomFilter.build(pa.array([footer.min_key]), capacity=1000, fpp=1e-9))

    rewrite_base(ours, footer=fewer)
    assert found(ours, deep=False) == errors("bloom-key")


def test_broken_bloom_filter(ours):
    class Damaged:
        def encode(self):
            return "SIMPLE", "AAAA"

    rewrite_base(ours, footer=lambda footer: replace(footer, bloom=Damaged()))
    assert found(ours) == errors("base-file-broken")


def test_key_range_that_leaves_keys_out(ours):
    rewrite_base(ours, footer=lambda footer: replace(footer, max_key=footer.min_key))
    assert found(ours) == errors("key-range")


def test_key_range_wider_than_the_keys_costs_time_only(ours):
    rewrite_base(ours, footer=lambda footer: replace(footer, max_key="z"))
    assert found(ours) == infos("key-range")


def test_no_record_key_column(ours):
    rewrite_base(ours, lambda rows: rows.drop_columns([RECORD_KEY]))
    assert found(ours) == errors("meta-columns")


def test_row_without_a_key(ours):
    rewrite_base(ours, lambda rows: set_column(rows, RECORD_KEY, lambda keys: [None, *keys[1:]]))
    assert found(ours) == errors("record-key-null")


def test_row_that_names_another_file(ours):
    rewrite_base(ours, lambda rows: set_column(rows, FILE_NAME, lambda names: ["other", *names[1:]]))
    assert found(ours) == errors("file-name-column")


def test_row_without_a_file_name(ours):
    rewrite_base(ours, lambda rows: set_column(rows, FILE_NAME, lambda names: [None, *names[1:]]))
    assert found(ours) == errors("file-name-column")


def test_row_that_names_another_partition(ours):
    rewrite_base(ours, lambda rows: set_column(rows, PARTITION_PATH, lambda paths: ["p=z", *paths[1:]]))
    assert found(ours) == errors("partition-path-column")


def test_key_twice_in_one_file(ours):
    rewrite_base(ours, lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]))
    assert found(ours) == errors("duplicate-key")


def test_key_twice_in_one_file_of_apache_hudi_may_be_meant(foreign):
    rewrite_base(foreign, lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]))
    assert found(foreign) == warnings("duplicate-key")


def test_key_in_the_wrong_bucket(ours):
    def changed(keys):
        return [f"other{number}" for number in range(len(keys))]

    rewrite_base(
        ours, lambda rows: set_column(rows, RECORD_KEY, changed), lambda f: replace(without_range(f), bloom=None)
    )
    assert found(ours) == errors("bucket-wrong") + warnings("bloom-missing")


def twin(storage, file_id: str) -> None:
    """A second file group with the rows of a live file, named by the same write."""
    instant, stat = live(storage)
    rows = storage.get(stat.path)
    path = stat.path.replace(stat.file_id, file_id)
    storage.put(path, rows)

    def also(metadata: CommitMetadata) -> CommitMetadata:
        return replace(metadata, stats=(*metadata.stats, replace(stat, file_id=file_id, path=path)))

    rewrite_commit(storage, instant, also)


def test_two_live_groups_of_one_bucket(ours):
    twin(ours, live(ours)[1].file_id[:8] + "-1111-2222-3333-444444444444-0")
    assert found(ours, deep=False) == errors("bucket-twice", "file-name-column")
    assert found(ours) == errors("bucket-twice", "file-name-column", "key-in-two-groups")


def test_group_outside_the_buckets(ours):
    twin(ours, "00000009-1111-2222-3333-444444444444-0")
    assert ("error", "bucket-unknown") in found(ours, deep=False)
    assert ("error", "bucket-wrong") in found(ours, deep=False)


def test_key_in_two_groups_of_apache_hudi_may_be_meant(foreign):
    twin(foreign, "00000009-1111-2222-3333-444444444444-0")
    assert ("warning", "key-in-two-groups") in found(foreign)
    assert ("warning", "key-in-two-groups") not in found(foreign, deep=False)


def test_a_key_that_a_log_file_deleted_may_be_in_another_group() -> None:
    storage = MemoryStorage("located", SystemClock())
    definition = Definition(
        "located", SCHEMA, ("id",), ("p",), "ts", "MERGE_ON_READ", metadata=True, index="record_index"
    )
    create_table(Session(context(storage)), definition)
    table = Table(context(storage))
    table.ingest(rows_of(0, 10, 1))
    table.ingest(rows_of(4, 5, 2), "delete")
    table.ingest(rows_of(4, 5, 3))
    assert sum(one.name.endswith(".parquet") and ".log" not in one.name for one in storage.list("p=x")) > 1
    assert found(storage) == []
    # Rows of bulk inserts may double keys: the file group whose log file deleted the key is not among those that hold it.
    table.ingest(rows_of(4, 5, 4), "bulk_insert")
    (finding,) = [one for one in verify_table(storage, deep=True).findings if one.invariant == "key-in-two-groups"]
    assert (finding.severity, finding.what.count(".parquet")) == ("warning", 2)


@pytest.fixture
def without_meta() -> MemoryStorage:
    """A small table without meta columns."""
    storage = MemoryStorage("plain", SystemClock())
    create_table(
        Session(context(storage)), Definition("plain", SCHEMA, ("id",), ("p",), "ts", buckets=2, meta_fields=False)
    )
    Table(context(storage)).ingest(rows_of(0, 40, 1))
    return storage


def test_keys_without_meta_columns_are_made_anew(without_meta):
    rewrite_base(without_meta, lambda rows: set_column(rows, "id", lambda ids: [*ids[1:], ids[1]]))
    assert found(without_meta) == errors("duplicate-key")


def test_buckets_without_meta_columns(without_meta):
    rewrite_base(without_meta, lambda rows: set_column(rows, "id", lambda ids: [f"{one}1" for one in ids]))
    assert found(without_meta) == errors("bucket-wrong")


def test_no_key_column_in_a_file_without_meta_columns(without_meta):
    rewrite_base(without_meta, lambda rows: rows.drop_columns(["id"]))
    assert found(without_meta) == errors("key-column")
