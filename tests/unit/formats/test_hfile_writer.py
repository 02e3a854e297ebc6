"""Written HFiles: the bytes that other readers rely on, what is read back, and what is not written."""

from __future__ import annotations

import gzip
import hashlib
import struct
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from hudi_ops.errors import Internal, InvalidRequest
from hudi_ops.formats.hfile.reader import HFileReader, read_hfile, write_hfile
from hudi_ops.formats.hfile.trailer import Trailer, decode_trailer

PATH = "f-0.hfile"
SCHEMA = '{"type":"record","name":"r","fields":[]}'


class Frame(NamedTuple):
    offset: int
    magic: bytes
    previous: int
    payload: bytes
    packed: bytes


def frames(data: bytes) -> list[Frame]:
    """The blocks of a file, which lie without gaps between its beginning and the trailer."""
    found, at = [], 0
    while at < len(data) - 4096:
        magic, on_disk, unpacked, previous, checksum, chunk, size = struct.unpack_from(">8siiqBii", data, at)
        packed = data[at + 33 : at + size]
        payload = gzip.decompress(packed)
        assert (len(payload), checksum, chunk) == (unpacked, 0, 16384)
        assert data[at + size : at + 33 + on_disk] == bytes(4 * -(-size // 16384))
        found.append(Frame(at, magic, previous, payload, packed))
        at += 33 + on_disk
    assert at == len(data) - 4096
    return found


def trailer_of(data: bytes) -> Trailer:
    return decode_trailer(memoryview(data)[-4096:], len(data) - 4096, PATH)


def arrays(rows: dict[str, bytes]) -> tuple[pa.Array, pa.Array]:
    keys = sorted(rows, key=str.encode)
    return pa.array(keys, pa.string()), pa.array([rows[key] for key in keys], pa.binary())


def numbered(count: int, value_bytes: int = 64) -> tuple[pa.Array, pa.Array]:
    """Values of random bytes, so that blocks stay large."""
    values = [(hashlib.sha512(b"%d" % number).digest() * 20)[:value_bytes] for number in range(count)]
    return pa.array([f"key-{number:07d}" for number in range(count)]), pa.array(values, pa.binary())


@pytest.mark.parametrize(
    "rows",
    [
        {},
        {"a": b"1"},
        {"": b""},
        {"\u00e9\U0001f600": b"\x00", "\uffff": b"", "z" * 200: b"x" * 200, "a\x00b": b"\xff" * 9},
        {f"{number:05d}" + "k" * 300: b"v" * number for number in range(1500)},
        {"big": b"b" * 1_000_000, "bigger": b"c" * 2_000_000, "small": b"", "smaller": b"1"},
        {f"p{number}": b"" for number in range(10_000)},
    ],
    ids=["none", "one", "empty key", "unicode", "long keys", "large values", "no values"],
)
@pytest.mark.parametrize("block_bytes", [1, 300, 1 << 16])
def test_what_is_written_is_read(rows: dict[str, bytes], block_bytes: int):
    keys, values = arrays(rows)
    data = write_hfile(keys, values, schema=SCHEMA, block_bytes=block_bytes)
    found = read_hfile(data, PATH)
    assert found.keys.equals(keys.cast(pa.binary()))
    assert found.values.equals(values)
    assert data == write_hfile(keys.cast(pa.binary()), values, schema=SCHEMA, block_bytes=block_bytes)
    some = keys.take(pa.array(range(0, len(keys), 3), pa.int64()))
    assert HFileReader(pa.BufferReader(data), PATH).lookup(some).keys.equals(some.cast(pa.binary()))
    assert [frame.magic for frame in frames(data)][-3:] == [b"IDXROOT2", b"IDXROOT2", b"FILEINF2"]


@pytest.mark.parametrize("chunked", [False, True])
def test_slices_and_other_types_are_written_alike(chunked: bool):
    keys, values = numbered(1000)
    low, high = 117, 911
    expected = write_hfile(
        pa.array(keys.to_pylist()[low:high]), pa.array(values.to_pylist()[low:high], pa.binary()), schema=None
    )
    if chunked:
        keys, values = keys.cast(pa.large_string()), values.cast(pa.large_binary())
    assert write_hfile(keys.slice(low, high - low), values.slice(low, high - low), schema=None) == expected


def test_more_than_is_joined_at_a_time():
    """Blocks are the same wherever one portion ends and the next one begins."""
    keys, values = numbered(60_000, 1200)
    assert values.nbytes > 2 * (1 << 25)
    data = write_hfile(keys, values, schema=None)
    found = read_hfile(data, PATH)
    assert found.keys.equals(keys.cast(pa.binary()))
    assert found.values.equals(values)
    sizes = [len(frame.payload) for frame in frames(data) if frame.magic == b"DATABLK*"]
    one = 21 + 11 + 1200
    assert set(sizes[:-1]) == {(1 << 16) // one * one}


def test_blocks_hold_as_much_as_fits():
    keys, values = numbered(5000)
    entry = 21 + 11 + 64
    for block_bytes in (entry - 1, entry, 2 * entry - 1, 2 * entry, 10 * entry + 1, 1 << 16):
        data = write_hfile(keys, values, schema=None, block_bytes=block_bytes)
        blocks = [frame for frame in frames(data) if frame.magic == b"DATABLK*"]
        full = max(1, block_bytes // entry) * entry
        assert {len(frame.payload) for frame in blocks[:-1]} == {full}
        assert [frame.previous for frame in blocks] == [-1, *(frame.offset for frame in blocks[:-1])]


def test_the_trailer_says_where_everything_is():
    keys, values = numbered(5000)
    data = write_hfile(keys, values, schema=SCHEMA)
    held = frames(data)
    index, meta_index, info = held[-3:]
    blocks = held[:-3]
    assert meta_index.payload == b""
    assert meta_index.previous == index.offset
    assert trailer_of(data) == Trailer(
        file_info=info.offset,
        load_on_open=index.offset,
        index_bytes=len(index.payload),
        total_bytes=sum(33 + len(frame.payload) for frame in held) - 33 - len(index.payload) + 4096,
        data_blocks=len(blocks),
        entries=5000,
        first_block=0,
        last_block=blocks[-1].offset,
    )
    assert data[-4:] == b"\x03\x00\x00\x03"


def test_the_index_has_whole_keys_in_hadoops_lengths():
    keys, values = arrays({"a" * 115: b"1", "b" * 116: b"2", "c" * 243: b"3", "d" * 244: b"4", "e" * 32767: b"5"})
    data = write_hfile(keys, values, schema=None, block_bytes=1)
    held = frames(data)
    expected = b""
    for block, key, length in zip(
        held, keys.to_pylist(), [b"\x7f", b"\x8f\x80", b"\x8f\xff", b"\x8e\x01\x00", b"\x8e\x80\x0b"], strict=False
    ):
        size = struct.unpack_from(">i", data, block.offset + 8)[0] + 33
        whole = struct.pack(">H", len(key)) + key.encode() + bytes.fromhex("007fffffffffffffff04")
        assert block.payload[8 : 8 + len(whole)] == whole
        expected += struct.pack(">qi", block.offset, size) + length + whole
    assert held[-3].payload == expected


def test_file_info():
    keys, values = arrays({"b": b"1234", "a": b"", "long": b"1"})
    base = read_hfile(write_hfile(keys, values, schema=SCHEMA), PATH).info
    last = b"\x00\x04long" + bytes.fromhex("007fffffffffffffff04")
    own = {"schema": SCHEMA.encode(), "minRecordKey": b"a", "maxRecordKey": b"long"}
    always = {
        "KEY_VALUE_VERSION": b"\x00\x00\x00\x01",
        "MAX_MEMSTORE_TS_KEY": bytes(8),
        "hfile.AVG_KEY_LEN": struct.pack(">i", 14),
        "hfile.AVG_VALUE_LEN": struct.pack(">i", 1),
        "hfile.CREATE_TIME_TS": bytes(8),
        "hfile.LASTKEY": last,
    }
    assert base == {**always, **own}
    assert read_hfile(write_hfile(keys, values, schema=None), PATH).info == always


def test_an_empty_file_is_as_apache_hudi_has_it():
    empty = pa.array([], pa.binary())
    data = write_hfile(empty, empty, schema=SCHEMA)
    found = HFileReader(pa.BufferReader(data), PATH)
    assert (found.info["hfile.LASTKEY"], found.info["minRecordKey"], found.info["maxRecordKey"]) == (b"", b"", b"")
    assert [frame.payload for frame in frames(data)[:2]] == [b"", b""]
    told = trailer_of(data)
    assert (told.data_blocks, told.entries, told.first_block) == (0, 0, 2**64 - 1)


def test_gzip_says_no_time():
    keys, values = numbered(1000)
    data = write_hfile(keys, values, schema=None)
    assert all(frame.packed[:8] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00" for frame in frames(data))
    sizes = [len(write_hfile(keys, values, schema=None, level=level)) for level in (1, 6, 9)]
    assert sorted(sizes, reverse=True) == sizes
    assert read_hfile(write_hfile(keys, values, schema=None, level=9), PATH).values.equals(values)


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        (["b", "a"], [b"", b""]),
        (["a", "a"], [b"", b""]),
        (["\uffff", "\U0001f600", "a"], [b"", b"", b""]),
        (["a", None], [b"", b""]),
        (["a", "b"], [b"", None]),
        (["a", "b"], [b""]),
    ],
)
def test_entries_out_of_order_are_a_fault_of_the_caller(keys: list[Any], values: list[Any]):
    with pytest.raises(Internal, match="not in order"):
        write_hfile(pa.array(keys, pa.string()), pa.array(values, pa.binary()), schema=None)


def test_keys_ascend_by_bytes_and_not_by_utf_16():
    keys = pa.array(["\uffff", "\U0001f600"])
    assert read_hfile(write_hfile(keys, pa.array([b"", b""]), schema=None), PATH).keys.equals(keys.cast(pa.binary()))


def test_a_key_that_is_too_long_is_refused():
    with pytest.raises(InvalidRequest, match="too long") as caught:
        write_hfile(pa.array(["k" * 32768]), pa.array([b""]), schema=None)
    assert "32768" in caught.value.found
    assert caught.value.next_step
