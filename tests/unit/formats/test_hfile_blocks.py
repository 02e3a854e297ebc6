"""Log files of the metadata table: what is written is read, in order, by instants that count, past torn stretches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.errors import Corrupt, Internal, Unsupported
from hudi_ops.formats.hfile.reader import HFile, HFileReader
from hudi_ops.formats.log.blocks import BlockKind, HeaderKey, encode_block, scan_blocks
from hudi_ops.formats.log.deletes import Deletes, encode_deletes
from hudi_ops.formats.log.hfile_blocks import (
    encode_empty_init_log,
    encode_metadata_log,
    open_metadata_log,
    read_metadata_log,
)

PATH = ".hoodie/metadata/record_index/.record-index-0000-0_20261121021733647.log.1_0-0-0"
SCHEMA = '{"type":"record","name":"r","fields":[]}'
FIRST, SECOND = "20261121021733647", "20261121021746165"
KEYS, VALUES = pa.array(["a", "b\u00e9", "c"]), pa.array([b"1", b"", b"3"], pa.binary())
NO_KEYS, NO_VALUES = pa.array([], pa.string()), pa.array([], pa.binary())


def plain(found: list[tuple[str, HFile | pa.StringArray]]) -> list[Any]:
    return [
        (instant, dict(zip(held.keys.to_pylist(), held.values.to_pylist(), strict=True)))
        if isinstance(held, HFile)
        else (instant, held.to_pylist())
        for instant, held in found
    ]


def read(data: bytes, *visible: str) -> list[Any]:
    return plain(read_metadata_log(data, PATH, lambda instant: not visible or instant in visible))


BOTH = encode_metadata_log(KEYS, VALUES, ["d", "e"], FIRST, SCHEMA, "record_index")
ENTRIES = {b"a": b"1", b"b\xc3\xa9": b"", b"c": b"3"}


def test_values_come_before_deletes():
    assert read(BOTH) == [(FIRST, ENTRIES), (FIRST, ["d", "e"])]
    blocks = scan_blocks(pa.BufferReader(BOTH), PATH)
    assert [block.kind for block in blocks] == [BlockKind.HFILE_DATA, BlockKind.DELETE]
    assert all(block.headers == {HeaderKey.INSTANT_TIME: FIRST, HeaderKey.SCHEMA: SCHEMA} for block in blocks)


def test_a_block_for_what_there_is():
    assert read(encode_metadata_log(KEYS, VALUES, [], FIRST, SCHEMA, "record_index")) == [(FIRST, ENTRIES)]
    assert read(encode_metadata_log(NO_KEYS, NO_VALUES, pa.array(["d"]), FIRST, SCHEMA, "record_index")) == [
        (FIRST, ["d"])
    ]
    with pytest.raises(Internal, match="empty") as caught:
        encode_metadata_log(NO_KEYS, NO_VALUES, [], FIRST, SCHEMA, "record_index")
    assert caught.value.instant == FIRST


def test_equal_records_make_equal_bytes():
    assert (
        encode_metadata_log(KEYS.cast(pa.binary()), VALUES, pa.array(["d", "e"]), FIRST, SCHEMA, "record_index") == BOTH
    )


def test_an_init_log_has_80_bytes_and_deletes_nothing():
    data = encode_empty_init_log("00000000000000003")
    assert len(data) == 80
    assert read(data) == [("00000000000000003", [])]


def test_only_visible_instants_are_read():
    broken = encode_block(
        BlockKind.HFILE_DATA, {HeaderKey.INSTANT_TIME: "20261121021759999", HeaderKey.SCHEMA: SCHEMA}, b"no HFile"
    )
    data = BOTH + broken + encode_metadata_log(KEYS, VALUES, [], SECOND, SCHEMA, "record_index")
    assert read(data, SECOND) == [(SECOND, ENTRIES)]
    assert read(data, FIRST) == [(FIRST, ENTRIES), (FIRST, ["d", "e"])]
    with pytest.raises(Corrupt, match=r"record-index-0000-0"):
        read(data)


def test_torn_blocks_are_passed_over():
    ends = [block.offset + block.size_bytes for block in scan_blocks(pa.BufferReader(BOTH), PATH)]
    second = encode_metadata_log(NO_KEYS, NO_VALUES, ["x"], SECOND, SCHEMA, "record_index")
    for cut in (10, ends[0] - 1, ends[0] + 20, ends[1] - 1):
        whole = [(FIRST, ENTRIES)] if cut > ends[0] else []
        assert read(BOTH[:cut]) == whole
        assert read(BOTH[:cut] + second) == [*whole, (SECOND, ["x"])]
    assert read(b"") == []


def test_hfiles_can_be_opened_for_lookups():
    data = encode_empty_init_log(FIRST) + BOTH
    init, opened, deleted = open_metadata_log(pa.BufferReader(data), PATH, lambda _: True)
    entries = opened.held
    assert isinstance(init.held, pa.Array)
    assert isinstance(deleted.held, pa.Array)
    assert (init.held.to_pylist(), deleted.held.to_pylist(), opened.instant) == ([], ["d", "e"], FIRST)
    assert isinstance(entries, HFileReader)
    assert entries.entries == 3
    assert entries.lookup(pa.array(["c", "d"])).values.to_pylist() == [b"3"]


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (BlockKind.AVRO_DATA, {}),
        (BlockKind.PARQUET_DATA, {}),
        (BlockKind.COMMAND, {HeaderKey.COMMAND_BLOCK_TYPE: "0"}),
        (BlockKind.HFILE_DATA, {HeaderKey.COMPACTED_BLOCK_TIMES: f"{FIRST},{SECOND}"}),
    ],
)
def test_blocks_that_no_metadata_table_of_ours_can_have_are_refused(kind: BlockKind, more: dict[HeaderKey, str]):
    data = BOTH + encode_block(kind, {HeaderKey.INSTANT_TIME: SECOND, **more}, b"")
    with pytest.raises(Unsupported) as caught:
        read(data)
    assert PATH in caught.value.what
    assert caught.value.details["offset"] == len(BOTH)
    assert read(data, FIRST) == read(BOTH)


def test_deletes_with_ordering_values_delete_too():
    content = encode_deletes(Deletes(pa.array(["a", "b"]), pa.array([5, None], pa.int64())), "record_index")
    assert read(encode_block(BlockKind.DELETE, {HeaderKey.INSTANT_TIME: FIRST}, content)) == [(FIRST, ["a", "b"])]
