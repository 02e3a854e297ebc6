"""Metadata tables whose records take more than one Arrow array holds, by a limit that is lowered; deltas that cannot be made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from hudi_ops.config.requests import IndexRequest
from hudi_ops.errors import Unsupported
from hudi_ops.files.statistics.statistics import FileStatistics
from hudi_ops.formats import large_arrays
from hudi_ops.formats.large_arrays import data_bytes, decoded, in_pieces, joined, narrowed, piece, to_text
from hudi_ops.metadata.reader.slice_files import WantedRecords, read_records
from hudi_ops.metadata.records import record_index
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.record_index import record_index_records
from hudi_ops.metadata.writer.delta import log_files
from hudi_ops.services.indexing.run import build_indexes
from hudi_ops.services.metadata_table.compact import compact_metadata
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.view.file_group import DataFile
from tests.protocol.crash_table import FIRST
from tests.protocol.log_actors import timeline_of
from tests.protocol.metadata_table import LATER, THIRD, faults_of, make_table, read_rows, table_of
from tests.tables import DEFINITION, LOGGED_WITH_METADATA, NOW_MS, rows

TIME = "20301122100000000"
SMALL = 300
EVERY = tuple(MetadataPartition)
INDEX = MetadataPartition.RECORD_INDEX
INDEXED = replace(DEFINITION, metadata=True, index="record_index")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_arrays, "ARRAY_BYTES_MAX", SMALL)


def fact(number: int, keys: list[str], removed: list[str]) -> FileStatistics:
    file_id = f"00000000-0000-4000-8000-{number:012d}-0"
    path = f"part=p{number}/{file_id}_0-0-0_{TIME}.parquet"
    added, gone = pa.array(keys, pa.string()), pa.array(removed, pa.string())
    return FileStatistics(path, f"part=p{number}", file_id, 1, False, added=added, removed=gone)


def read_back(files: list[tuple[str, bytes, object]]) -> tuple[dict[str, bytes], set[str], int]:
    """Records and deletes of log files, and in how many blocks they lie."""
    storage, held, gone, blocks = MemoryStorage(), {}, set(), 0
    for path, body, _ in files:
        storage.put(path, body)
        file = DataFile(str(INDEX), path, "", TIME, len(body), is_log=True)
        for part in read_records(storage, INDEX, file, WantedRecords(), lambda instant: True, 9):
            held.update(zip(part.keys.to_pylist(), part.values.to_pylist(), strict=True))
            gone.update(part.deletes.to_pylist())
            blocks += 1
    return held, gone, blocks


@pytest.mark.parametrize("groups", [1, 10])
def test_a_delta_says_the_same_however_little_an_array_holds(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"key {number:04d} ä" for number in np.random.default_rng(1).permutation(400)]
    facts = [fact(0, keys[:150], keys[350:]), fact(1, keys[100:300], keys[:10])]

    def made() -> tuple[dict[str, bytes], set[str], int]:
        records = record_index_records(facts, 1_700_000_000_000, version=9)
        assert len(records.keys) == 300
        return read_back(log_files(records, groups, instant=TIME, log_version=1, token="0-1-0"))

    held, gone, blocks = made()
    assert blocks <= 2 * groups
    monkeypatch.setattr(large_arrays, "ARRAY_BYTES_MAX", SMALL)
    again = made()
    assert again[:2] == (held, gone)
    assert again[2] > 5 * groups, "what takes more than an array goes to several blocks"


def test_a_record_index_is_compacted_and_read_however_little_an_array_holds(small: None) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = make_table(INDEXED, batches=(FIRST,)).copy(clock)
    table = table_of(storage, clock, "first")
    for number in range(2):
        long = [f"{number} a long key, of which an array holds few {at}" for at in range(20)]
        table.ingest(rows(*[(key, "p0", 1, 9, None) for key in long]))
        compact_metadata(table._session)
    table.ingest(rows((long[0], "p0", 2, 10, None)))
    assert faults_of(storage, clock) == []
    assert len(read_rows(storage, clock)) == 8 + 40


def test_all_partitions_are_built_and_compacted_however_little_an_array_holds(small: None) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = make_table(LOGGED_WITH_METADATA, batches=(FIRST, THIRD)).copy(clock)
    before = read_rows(storage, clock)
    build_indexes(table_of(storage, clock, "builder")._session, IndexRequest(partitions=EVERY))
    table_of(storage, clock, "second").ingest(LATER)
    assert compact_metadata(table_of(storage, clock, "third")._session).instant is not None
    assert faults_of(storage, clock) == []
    assert read_rows(storage, clock) == {**before, "k6": 66, "n4": 4}


def test_arrays_are_large_only_where_they_have_to_be(small: None) -> None:
    text = pa.array(["x" * 100, "ä", "", "y" * 99])
    assert joined([text.slice(1), text.slice(0, 1)], pa.string()).type == pa.string()
    large = joined([text, pa.chunked_array([text])], pa.string())
    assert large.type == pa.large_string()
    assert large.to_pylist() == text.to_pylist() * 2
    assert data_bytes(large.slice(4)) == 201
    assert narrowed(large.slice(4)).equals(text)
    assert narrowed(large) is large
    assert piece(large, 5, 3).equals(text.slice(1))
    parts = in_pieces(large, 100)
    assert [len(part) for part in parts] == [1, 2, 1, 1, 2, 1]
    assert pa.concat_arrays(parts).to_pylist() == large.to_pylist()
    of_bytes = pa.DictionaryArray.from_arrays(np.array([1, 0, 1], np.int32), pa.array([b"a" * 200, b"b"]))
    assert decoded(of_bytes).type == pa.binary()
    assert to_text(decoded(of_bytes.take(pa.array([1, 1])))).to_pylist() == ["a" * 200] * 2
    assert decoded(of_bytes.take(pa.array([1, 1]))).type == pa.large_binary()


def test_a_delta_that_cannot_be_made_leaves_nothing_of_its_write(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = make_table(INDEXED, batches=(FIRST,)).copy(clock)
    before = read_rows(storage, clock)

    def fails(*args, **named):
        raise pa.ArrowInvalid("Take operation overflowed binary array capacity")

    monkeypatch.setattr(record_index, "sorted_records", fails)
    with pytest.raises(Unsupported, match="overflowed") as failed:
        table_of(storage, clock, "first").ingest(rows(("z", "p0", 1, 9, None)), "bulk_insert")
    assert "fewer rows" in failed.value.next_step
    monkeypatch.undo()
    assert list(timeline_of(storage).pending) == []
    assert storage.list(".hoodie/.heartbeat") == []
    assert read_rows(storage, clock) == before
    assert faults_of(storage, clock) == []
