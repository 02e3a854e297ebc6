"""A partition of the metadata table whose kind only tests have: writes and cleans keep it as they keep those of the library."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.files.names import parse_data_file
from hudi_ops.metadata.reader.table import MetadataTable, open_metadata
from hudi_ops.metadata.records.partitions import FOLDER
from hudi_ops.metadata.writer.begin import Beginning, begin_partition
from hudi_ops.read.plan import Opened
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from tests.definitions import Definition
from tests.protocol.crash_table import FIRST, SECOND
from tests.protocol.foreign_table import set_properties
from tests.protocol.metadata_table import LATER, THIRD, faults_of, make_table, table_of
from tests.tables import LOGGED_WITH_METADATA, NOW_MS, WITH_METADATA, by_key
from tests.unit.metadata.counts_kind import COUNTS, decoded_counts

INIT = "00000000000000099"


def opened(storage: MemoryStorage) -> MetadataTable:
    table = Opened.of(storage)
    found = open_metadata(storage, table.config, table.timeline)
    assert found is not None
    return found


def rows_of_files(storage: MemoryStorage) -> dict[str, int | None]:
    """The number of rows by path of each data file; None for log files."""
    paths = [info.path for info in storage.list() if info.path.startswith("part=") and parse_data_file(info.name)]
    return {
        path: pq.read_metadata(pa.BufferReader(storage.get(path))).num_rows if path.endswith(".parquet") else None
        for path in paths
    }


def assert_counted(storage: MemoryStorage) -> None:
    """The partition has a record of each data file, and of no other, with the rows of base files."""
    found, expected = decoded_counts(opened(storage).read(COUNTS.name)), rows_of_files(storage)
    assert found.keys() == expected.keys()
    assert {path: found[path] for path, count in expected.items() if count is not None} == {
        path: count for path, count in expected.items() if count is not None
    }


@pytest.mark.parametrize("definition", [WITH_METADATA, LOGGED_WITH_METADATA], ids=["copy on write", "merge on read"])
def test_writes_and_cleans_keep_the_records_of_a_registered_kind(definition: Definition) -> None:
    storage = make_table(definition, batches=())
    begin_partition(storage, 9, Beginning(COUNTS.name, INIT, INIT, COUNTS.groups(0)), NOW_MS)
    set_properties(storage, {"hoodie.table.metadata.partitions": "column_stats,counts,files,partition_stats"})
    clock = ManualClock(NOW_MS, tick_ms=1000)
    table = table_of(storage, clock, "writer")
    for batch in (FIRST, SECOND, THIRD, LATER):
        table.ingest(batch)
        assert_counted(storage)
    if definition is LOGGED_WITH_METADATA:
        table.compaction.run()
        assert_counted(storage)
    before = len(rows_of_files(storage))
    table.clean.run(policy="versions", retain=1)
    assert len(rows_of_files(storage)) < before
    assert_counted(storage)
    table.metadata.compact()
    assert [info for info in storage.list(f"{FOLDER}/{COUNTS.name}") if info.name.endswith(".hfile")]
    assert_counted(storage)
    assert by_key(table_of(storage, clock, "reader")) == by_key(table_of(storage, clock, "reader"), listing="storage")
    assert faults_of(storage, clock) == []
