"""What verify says of log files: each test breaks one in exactly one respect."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hudi_ops.clock import SystemClock
from hudi_ops.commit.session import Session
from hudi_ops.files.base.base_file import WriterSettings
from hudi_ops.files.log.log_file import BlockKind, LogFileReader, encode_log_file
from hudi_ops.formats.log.blocks import HeaderKey
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from tests.definitions import Definition, create_table
from tests.unit.verify.breaking import errors, found, infos, metadata_of, rewrite_stat, writes
from tests.unit.verify.conftest import SCHEMA, context, rows_of


@pytest.fixture
def logged() -> MemoryStorage:
    """A merge-on-read table of ours: base files, then a log file with rows and one with deletes."""
    storage = MemoryStorage("logged", SystemClock())
    create_table(
        Session(context(storage)), Definition("logged", SCHEMA, ("id",), ("p",), "ts", "MERGE_ON_READ", buckets=2)
    )
    table = Table(context(storage))
    table.ingest(rows_of(0, 40, 1))
    table.ingest(rows_of(0, 10, 2))
    table.ingest(rows_of(0, 3, 3).select(["id", "p"]), "delete")
    return storage


def of_logs(storage: MemoryStorage) -> list[tuple[str, str]]:
    return [one for one in found(storage) if one[1].startswith("log-")]


def rewrite(storage: MemoryStorage, change=lambda rows: rows, instant: str | None = None, tail: bytes = b"") -> None:
    """Write the first log file of rows anew, with its statistic's sizes."""
    write = writes(storage)[1]
    stat = metadata_of(storage, write).stats[0]
    reader = LogFileReader(storage, stat.path)
    (block,) = reader.blocks
    assert block.kind is BlockKind.PARQUET_DATA
    rows = change(reader.rows(block))
    body = encode_log_file(
        rows,
        [],
        instant=instant or block.instant,
        partition_path=stat.partition_path,
        avro_schema=block.headers[HeaderKey.SCHEMA],
        data_format="parquet",
        settings=WriterSettings(),
    )
    whole = body.to_pybytes() + tail
    storage.put(stat.path, whole)
    sizes = {"file_size_in_bytes": len(whole), "total_write_bytes": len(whole)}
    rewrite_stat(storage, write, stat.path, **sizes, num_writes=rows.num_rows)


def with_keys(rows: pa.Table, keys: list[str | None]) -> pa.Table:
    place = rows.schema.get_field_index("_hoodie_record_key")
    return rows.set_column(place, rows.schema.field(place), pa.array(keys, pa.string()))


def test_log_files_of_ours_are_whole(logged: MemoryStorage):
    assert found(logged) == []
    rewrite(logged)
    assert found(logged) == []


def test_half_a_block(logged: MemoryStorage):
    rewrite(logged, tail=b"#HUDI#" + bytes(20))
    assert of_logs(logged) == errors("log-block-broken")


def test_blocks_of_another_instant(logged: MemoryStorage):
    rewrite(logged, instant="20200101000000000")
    assert of_logs(logged) == errors("log-block-instant")


def test_other_counts_than_the_statistic_says(logged: MemoryStorage):
    write = writes(logged)[2]
    stat = metadata_of(logged, write).stats[0]
    rewrite_stat(logged, write, stat.path, num_deletes=stat.num_deletes + 1)
    assert of_logs(logged) == errors("log-entry-count")


def test_rows_without_a_key(logged: MemoryStorage):
    rewrite(logged, lambda rows: with_keys(rows, [None] * rows.num_rows))
    assert of_logs(logged) == errors("log-key-null")


def test_keys_of_another_bucket(logged: MemoryStorage):
    rewrite(logged, lambda rows: with_keys(rows, [f"other{n}" for n in range(rows.num_rows)]))
    assert of_logs(logged) == errors("log-key-bucket")


def test_blocks_of_a_kind_that_is_not_known_are_told_and_no_damage(logged: MemoryStorage):
    stat = metadata_of(logged, writes(logged)[1]).stats[0]
    body = bytearray(logged.get(stat.path))
    body[21] = 9  # the number of the block's type
    logged.put(stat.path, bytes(body))
    assert of_logs(logged) == infos("log-file-unread")


def test_what_cannot_be_read(logged: MemoryStorage):
    stat = metadata_of(logged, writes(logged)[1]).stats[0]
    logged.put(stat.path, bytes(stat.file_size_in_bytes))
    assert of_logs(logged) == errors("log-file-broken")
