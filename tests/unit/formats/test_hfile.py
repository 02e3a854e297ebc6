"""Reading HFiles: every writer's ways, only the blocks that are needed, and what is refused."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.errors import Corrupt, Unsupported
from hudi_ops.formats.hfile.reader import HFile, HFileReader, read_hfile, write_hfile
from tests.unit.formats.hand_made_hfile import GZ, NONE, SUFFIX, entry, field_of, hand_made

PATH = ".hoodie/metadata/files/files-0000-0_0-0-0_0.hfile"
ROWS = [(b"a", b"1"), (b"b", b""), (b"ba", b"22"), (b"c\xc3\xa9", b"\x00" * 300), (b"z", b"5")]


def pairs(found: HFile) -> list[tuple[bytes, bytes]]:
    found.keys.validate(full=True)
    found.values.validate(full=True)
    return list(zip(found.keys.to_pylist(), found.values.to_pylist(), strict=True))


def reader(data: bytes) -> HFileReader:
    return HFileReader(pa.BufferReader(data), PATH)


def refused(data: bytes, error: type[Corrupt | Unsupported] = Corrupt) -> Corrupt | Unsupported:
    with pytest.raises(error) as caught:
        read_hfile(data, PATH)
    assert PATH in caught.value.what
    assert caught.value.expected
    assert caught.value.found
    assert caught.value.next_step
    return caught.value


WAYS: dict[str, dict[str, Any]] = {
    "ours": {},
    "HBase's classes": {"checksum": (2, 16384)},
    "Hudi's own classes": {"index_suffix": b"", "version": b"\x00\x00\x00\x03"},
    "not compressed": {"codec": NONE},
    "one checksum for all": {"checksum": (0, 2**31 - 1)},
    "keys between blocks in the index": {"index_rows": [b"a", b"b\x01", b"d"]},
    "other blocks between": {"gap": bytes(50)},
    "no info that can be missing": {"info": {"KEY_VALUE_VERSION": None, "MAX_MEMSTORE_TS_KEY": None}},
    "fields that are not known": {"trailer": {77: 5, 78: b"text", 13: b""}},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("per_block", [2, 5])
def test_every_writers_file_is_read(way: str, per_block: int):
    changes = WAYS[way]
    if per_block == 5 and "index_rows" in changes:
        changes = {}
    data = hand_made(ROWS, per_block, **changes).bytes()
    assert pairs(read_hfile(data, PATH)) == ROWS
    for row in ROWS:
        assert pairs(reader(data).lookup(pa.array([row[0]]))) == [row]


def test_equal_keys_of_one_block_are_all_found():
    rows = [(b"a", b"1"), (b"a", b"2"), (b"b", b"3"), (b"b", b"4")]
    data = hand_made(rows).bytes()
    assert pairs(read_hfile(data, PATH)) == rows
    assert pairs(reader(data).lookup(pa.array([b"b"]))) == rows[2:]
    assert pairs(reader(data).prefixes([b"a"])) == rows[:2]


def test_what_the_file_says_of_itself():
    found = reader(hand_made(ROWS, info={"mine": b"\xff"}).bytes())
    assert found.entries == 5
    assert found.info["mine"] == b"\xff"
    assert found.read().info == found.info


def test_a_file_without_entries():
    found = reader(hand_made([], info={"hfile.LASTKEY": b""}, trailer={9: 2**64 - 1}).bytes())
    assert found.entries == 0
    for empty in (found.read(), found.lookup(pa.array(["a"])), found.prefixes([b"", b"a"])):
        assert pairs(empty) == []


def many(count: int = 3000) -> tuple[pa.Array, pa.Array, bytes]:
    keys = pa.array([f"k{number:06d}" for number in range(count)]).cast(pa.binary())
    values = pa.array([b"%d" % number * (number % 7) for number in range(count)], pa.binary())
    return keys, values, write_hfile(keys, values, schema="{}", block_bytes=1000)


KEYS, VALUES, MANY = many()


@pytest.mark.parametrize(
    "wanted",
    [
        [],
        ["k000000"],
        ["k002999"],
        ["", "a", "k", "k0000005", "z", "\U0001f600"],
        ["k000100", "k000100x", "k000101", "k002000"],
        [f"k{number:06d}" for number in range(0, 3000, 7)],
        [f"k{number:06d}" for number in range(-5, 4000)],
    ],
    ids=["none", "first", "last", "not there", "neighbours", "every seventh", "more than there are"],
)
def test_a_lookup_is_a_filter(wanted: list[str]):
    sought = pa.array(sorted(wanted, key=str.encode), pa.string())
    expected = [pair for pair in zip(KEYS.to_pylist(), VALUES.to_pylist(), strict=True) if pair[0].decode() in wanted]
    assert pairs(reader(MANY).lookup(sought)) == expected
    assert pairs(reader(MANY).lookup(sought.cast(pa.binary()))) == expected


@pytest.mark.parametrize(
    "prefixes",
    [
        [],
        [b""],
        [b"k0000"],
        [b"k0001", b"k00012", b"k0029"],
        [b"j", b"l", b"\xff"],
        [b"k002999", b"k0029990"],
        [b"k\xff"],
    ],
)
def test_prefixes_are_a_filter(prefixes: list[bytes]):
    expected = [key for key in KEYS.to_pylist() if key.startswith(tuple(prefixes))]
    assert reader(MANY).prefixes(prefixes).keys.to_pylist() == expected


def test_prefixes_of_the_greatest_bytes():
    rows = [(b"\xfe\xff", b""), (b"\xff", b""), (b"\xff\x00", b""), (b"\xff\xff", b""), (b"\xff\xff\xff", b"")]
    for per_block in (1, 2):
        found = reader(hand_made(rows, per_block).bytes())
        assert [len(found.prefixes([prefix])) for prefix in (b"\xfe\xff", b"\xff", b"\xff\xff", b"\xff\xff\xff")] == [
            1,
            4,
            2,
            1,
        ]


class Counting:
    """A file that counts what is read of it."""

    closed = False

    def __init__(self, data: bytes) -> None:
        self.inner, self.read_bytes = pa.BufferReader(data), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def read(self, size: int = -1) -> bytes:
        body: bytes = self.inner.read(size)
        self.read_bytes += len(body)
        return body


def test_only_the_blocks_that_are_needed_are_read():
    count = 60_000
    keys = pa.array([f"k{number:06d}" for number in range(count)])
    values = pa.array([hashlib.sha512(b"%d" % number).digest() for number in range(count)], pa.binary())
    data = write_hfile(keys, values, schema=None)
    source = Counting(data)
    found = HFileReader(pa.PythonFile(source, mode="r"), PATH)
    opened = source.read_bytes
    assert opened < len(data) / 10
    assert len(found.lookup(pa.array(["k000000", "k000001", "k000002"]))) == 3
    assert len(found.lookup(pa.array(["k000000", "k030000"]))) == 2
    assert len(found.prefixes([b"k00100", b"k04100"])) == 20
    assert len(found.lookup(pa.array(["a", "z"]))) == 0
    assert source.read_bytes - opened < len(data) / 10
    assert len(found.read()) == count
    assert source.read_bytes < 1.3 * len(data)


def test_a_file_within_a_file_is_read():
    data = hand_made(ROWS).bytes()
    source = pa.BufferReader(b"before" * 20_000 + data + b"behind")
    found = HFileReader(source, PATH, 120_000, len(data))
    assert pairs(found.read()) == ROWS
    assert pairs(found.lookup(pa.array(["ba"]))) == [ROWS[2]]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"version": b"\x03\x00\x00\x02"}, "major version 2"),
        ({"trailer": {12: 6}}, "codec of number 6"),
        ({"trailer": {12: None}}, "codec of number 0"),
        ({"trailer": {8: 2}}, "2 levels"),
        ({"trailer": {13: b"key"}}, "encryption"),
        ({"info": {"KEY_VALUE_VERSION": struct.pack(">i", 2)}}, "version 2"),
        ({"info": {"MAX_MEMSTORE_TS_KEY": struct.pack(">q", 7)}}, "numbers of changes"),
    ],
)
def test_what_is_not_understood_is_refused(changes: dict[str, Any], found: str):
    assert found in refused(hand_made(ROWS, **changes).bytes(), Unsupported).found


GOOD = entry(b"a", b"1")
BROKEN_ENTRIES = {
    "a row longer than its key": struct.pack(">iiH", 13, 1, 2) + GOOD[10:],
    "a negative value": struct.pack(">ii", 13, -1) + GOOD[8:],
    "a negative key": struct.pack(">ii", -13, 1) + GOOD[8:],
    "lengths whose sum is nothing": struct.pack(">II", 2**31 - 1, 2**31) + GOOD[8:],
    "a value behind the end": struct.pack(">ii", 13, 2) + GOOD[8:],
    "a value before the end": struct.pack(">ii", 13, 0) + GOOD[8:],
    "a family": entry(b"a", b"1", suffix=b"\x01f" + SUFFIX[1:]),
    "a family of the row's bytes": entry(b"a", b"1", suffix=b"\x01" + SUFFIX[1:]),
    "a deletion": entry(b"a", b"1", suffix=SUFFIX[:-1] + b"\x08"),
    "the number of a change": entry(b"a", b"1", change=b"\x05"),
    "cut behind its lengths": GOOD[:8],
    "cut within its lengths": GOOD[:5],
    "cut before its last byte": GOOD[:-1],
    "bytes behind it": GOOD + b"\x00",
    "nothing": b"",
}


@pytest.mark.parametrize("broken", BROKEN_ENTRIES)
@pytest.mark.parametrize("codec", [GZ, NONE])
def test_broken_entries_are_refused(broken: str, codec: int):
    blocks = [entry(b"0", b"zero"), BROKEN_ENTRIES[broken], entry(b"b", b"two")]
    made = hand_made([], blocks=blocks, index_rows=[b"0", b"a", b"b"], entries=3, codec=codec)
    data = made.bytes()
    assert refused(data).details["offset"] == data.index(b"DATABLK*", 1)
    with pytest.raises(Corrupt):
        reader(data).lookup(pa.array(["a"]))
    assert pairs(reader(data).lookup(pa.array(["b"]))) == [(b"b", b"two")]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"entries": 4}, "5 entries"),
        ({"entries": 0}, "5 entries"),
        ({"trailer": {5: 2}}, "bytes after 2 entries"),
        ({"trailer": {5: 4}}, "3 entries"),
        ({"trailer": {5: 2**40}}, "3 entries"),
        ({"trailer": {5: None}}, "bytes after 0 entries"),
        ({"trailer": {1: 10}}, "file info at 10"),
        ({"trailer": {1: 2**63}}, f"file info at {2**63}"),
        ({"trailer": {2: 0}}, "DATABLK"),
        ({"more_index": b"\x00"}, "1 bytes after"),
        (
            {"trailer": {5: 4}, "more_index": struct.pack(">qi", 200, 50) + b"\x7fkey"},
            "a key of 127 bytes in the index",
        ),
        ({"trailer": {5: 4}, "more_index": struct.pack(">qi", 200, 50) + b"\x82\x01" + b"k" * 130}, "byte 130"),
        ({"index_rows": [b"a", b"ba", b"ba"]}, "in the index"),
        ({"index_rows": [b"a", b"b", b"z"]}, "not where the index says"),
        ({"index_rows": [b"a", b"bb", b"z"]}, "not where the index says"),
        ({"index_rows": [b"a", b"ba", b"zz"]}, "not where the index says"),
        ({"index_suffix": SUFFIX[:5]}, "a key of 8 bytes with a row of 1"),
        ({"info": {"hfile.LASTKEY": b"\x00"}}, "a key of 1 bytes"),
    ],
)
def test_what_contradicts_itself_is_refused(changes: dict[str, Any], found: str):
    assert found in refused(hand_made(ROWS, **changes).bytes()).found


def test_a_file_without_an_index_of_meta_blocks_is_refused():
    data = hand_made(ROWS).bytes()
    meta_index = data.index(b"IDXROOT2", data.index(b"IDXROOT2") + 1)
    assert refused(hand_made(ROWS, trailer={1: meta_index}).bytes()).found == "0 bytes"
    assert "1 bytes" in refused(hand_made(ROWS, trailer={1: meta_index + 1}).bytes()).found


def test_keys_that_do_not_ascend_are_refused():
    assert "ascend" in refused(hand_made([(b"a", b""), (b"c", b""), (b"b", b"")], 3).bytes()).found


def test_blocks_that_overlap_are_refused():
    data = bytearray(hand_made(ROWS, codec=NONE).bytes())
    index = data.index(b"IDXROOT2") + 33
    first_entry = 8 + 4 + 1 + 2 + 1 + len(SUFFIX)
    data[index + first_entry : index + first_entry + 8] = struct.pack(">q", 0)
    assert "at 0" in refused(bytes(data)).found


@pytest.mark.parametrize("name", ["on disk", "unpacked", "with header"])
@pytest.mark.parametrize("value", [-(2**31), -1, 0, 1, 30, 2**20, 2**31 - 1])
@pytest.mark.parametrize("codec", [GZ, NONE])
def test_sizes_that_cannot_be_are_refused(name: str, value: int, codec: int):
    data = bytearray(hand_made(ROWS, codec=codec).bytes())
    at = {"on disk": 8, "unpacked": 12, "with header": 29}[name]
    for magic in (b"DATABLK*", b"IDXROOT2", b"FILEINF2"):
        broken = data.copy()
        begin = broken.index(magic) + at
        broken[begin : begin + 4] = struct.pack(">i", value)
        refused(bytes(broken))


def test_a_payload_that_is_a_bomb_is_refused_before_it_goes_off():
    bomb = hand_made([], blocks=[bytes(50_000_000)], index_rows=[b"a"], entries=1).bytes()
    at = bomb.index(b"DATABLK*") + 12
    for claimed in (100, 2**31 - 1):
        refused(bomb[:at] + struct.pack(">i", claimed) + bomb[at + 4 :])


def test_no_flip_in_a_compressed_payload_changes_an_entry():
    data = hand_made(ROWS).bytes()
    kept = []
    for at in range(33, data.index(b"DATABLK*", 1) - 4):
        flipped = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
        try:
            assert pairs(read_hfile(flipped, PATH)) == ROWS
            kept.append(at - 33)
        except Corrupt:
            continue
    # Time, level and system of gzip's header, and what is left of the last byte behind the end.
    assert kept[:6] == [4, 5, 6, 7, 8, 9]
    assert len(kept) <= 7


def test_a_file_that_is_too_short_is_refused():
    data = hand_made(ROWS).bytes()
    for cut in (0, 1, 4095, 4096, len(data) - 1):
        refused(data[:cut])
    refused(data[-4096:])
    with pytest.raises(Corrupt, match="offset 0") as caught:
        HFileReader(pa.BufferReader(data), PATH, 0, len(data) + 10)
    assert "has become shorter" in caught.value.expected


def test_trailers_that_are_none_are_refused():
    data = hand_made(ROWS).bytes()
    head, trailer = data[:-4096], data[-4096:]
    for message in (
        b"\xff" * 20,
        b"\x7f",
        varied(200_000),
        field_of(1, b"x" * 10),
        b"\x02\x0b\x00",
        b"\x03\x0a\x7f\x00",
    ):
        refused(head + (trailer[:8] + message).ljust(4092, b"\x00") + trailer[-4:], (Corrupt, Unsupported))  # type: ignore[arg-type]


def varied(value: int) -> bytes:
    return struct.pack(">I", value)
