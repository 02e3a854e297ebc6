"""Broken HFiles: the entries that were written, or one clear error; never others, another error, a long wait or much memory.

Every mutation begins with files that Apache Hudi wrote, 1.0 with HBase's classes and 1.1 with its own, or with one of ours.
"""

from __future__ import annotations

import hashlib
import os
import struct
import time
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings, strategies as st

from hudi_ops.errors import Corrupt, Unsupported
from hudi_ops.formats.hfile.reader import HFile, HFileReader, read_hfile, write_hfile
from hudi_ops.formats.log.blocks import BlockKind, scan_blocks
from hudi_ops.formats.log.hfile_blocks import encode_metadata_log, read_metadata_log
from tests.unit.formats.hand_made_hfile import NONE, HandMade, entry, hand_made

PATH = ".hoodie/metadata/files/files-0000-0_0-0-0_0.hfile"
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "apache-hudi-tables"
ROWS = [(hashlib.sha256(b"%d" % number).hexdigest().encode(), b"v" * (number % 90)) for number in range(200)]


def member(table: str, *parts: str) -> bytes:
    """The first file of a fixture's metadata table whose path holds all of this."""
    with zipfile.ZipFile(FIXTURES / f"{table}.zip") as archive:
        names = [name for name in archive.namelist() if all(part in name for part in ("/.hoodie/metadata/", *parts))]
        return archive.read(min(name for name in names if not name.startswith("__MACOSX") and ".crc" not in name))


def within(log: bytes) -> bytes:
    """The first HFile of a log file."""
    block = next(one for one in scan_blocks(pa.BufferReader(log), PATH) if one.kind is BlockKind.HFILE_DATA)
    return log[block.content_offset : block.content_offset + block.content_bytes]


def ours(block_bytes: int) -> bytes:
    keys, values = zip(*sorted(ROWS), strict=True)
    return write_hfile(pa.array(keys), pa.array(values, pa.binary()), schema="{}", block_bytes=block_bytes)


LOG = member("v9_record_index_bloom_filters", "/column_stats/.col-stats-0000-0_20261121021733647")
CORPUS = {
    "base-v8": member("v8_trips_8i3u1d_mor", "/column_stats/col-stats-0000-0", ".hfile"),
    "base-v9": member("v9_txns_simple_meta_mor", "/files/files-0000-0_13-170-402", ".hfile"),
    "empty-v9": member("v9_txns_simple_meta_mor", "/record_index/record-index-0000-0", ".hfile"),
    "log-v8": within(member("v8_trips_8i3u1d_mor", "/files/.files-0000-0_20251220210123755")),
    "log-v9": within(LOG),
    "ours": ours(1 << 16),
    "ours-many-blocks": ours(1000),
}
NAMES = st.sampled_from(sorted(CORPUS))
FEWER = 1 if os.environ.get("HUDI_OPS_SOAK") else 3
"""By how much the plain run's mutations of each file are fewer than the soak's; they are spread over the whole of it."""
PLAIN = hand_made(sorted(ROWS), 10, codec=NONE).bytes()
"""Not compressed, hence without a checksum: a flip within a value can be seen by nobody."""


def told(data: bytes) -> HFile | None:
    """The entries, or None for one clear error; anything else fails the test."""
    refusal: Corrupt | Unsupported | None = None
    try:
        found = read_hfile(data, PATH)
        found.keys.validate(full=True)
        found.values.validate(full=True)
        return found
    except (Corrupt, Unsupported) as error:
        refusal = error
    assert PATH in refusal.what
    assert isinstance(refusal.details["offset"], int)
    assert refusal.expected
    assert refusal.found
    assert refusal.next_step
    return None


WHOLE = {name: read_hfile(data, PATH) for name, data in CORPUS.items()}


def same(found: HFile | None, name: str) -> bool:
    return found is None or (found.keys.equals(WHOLE[name].keys) and found.values.equals(WHOLE[name].values))


def test_the_corpus_is_whole():
    assert {name: len(found) for name, found in WHOLE.items()} == {
        "base-v8": 48,
        "base-v9": 4,
        "empty-v9": 0,
        "log-v8": 2,
        "log-v9": 8,
        "ours": 200,
        "ours-many-blocks": 200,
    }
    assert len(read_hfile(PLAIN, PATH)) == 200


@pytest.mark.parametrize("name", sorted(CORPUS))
def test_every_flipped_bit_gives_the_same_entries_or_one_error(name: str):
    data = CORPUS[name]
    step = 1 + FEWER * len(data) // 1500
    refused = 0
    for at in range(0, len(data), step):
        flipped = bytearray(data)
        flipped[at] ^= 1 << (at // step % 8)
        found = told(bytes(flipped))
        refused += found is None
        assert same(found, name), at
    assert refused > 100


@pytest.mark.parametrize("name", sorted(CORPUS))
def test_a_lookup_in_a_broken_file_finds_the_same_or_refuses(name: str):
    data, whole = CORPUS[name], WHOLE[name]
    wanted = whole.keys.take(pa.array(range(0, len(whole), 5), pa.int64()))
    expected = whole.values.filter(pc.is_in(whole.keys, value_set=wanted))
    for at in range(0, len(data), 1 + FEWER * len(data) // 700):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        try:
            found = HFileReader(pa.BufferReader(bytes(flipped)), PATH).lookup(wanted)
        except (Corrupt, Unsupported):
            continue
        assert found.values.equals(expected), at


@pytest.mark.parametrize("name", sorted(CORPUS))
def test_every_cut_is_noticed(name: str):
    data = CORPUS[name]
    for cut in range(0, len(data), 1 + FEWER * len(data) // 300):
        assert told(data[:cut]) is None
        assert told(data[cut + 1 :]) is None


def test_flips_without_checksums_give_entries_or_one_error():
    for at in range(0, len(PLAIN) - 4096, 7 * FEWER):
        flipped = bytearray(PLAIN)
        flipped[at] ^= 1 << at % 8
        found = told(bytes(flipped))
        if found is not None:
            assert len(found) == 200
            assert found.keys.to_pylist() == sorted(found.keys.to_pylist())


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A file of the corpus, cut, flipped, joined with another."""
    data = bytearray(draw(st.sampled_from([*CORPUS.values(), PLAIN])))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(["flip", "set", "cut", "remove", "insert", "number", "zeros"])):
            case "flip" if data:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "set" if data:
                data[at] = draw(st.sampled_from([0, 1, 2, 3, 4, 0x7F, 0x80, 0xFF]))
            case "cut":
                del data[at:]
            case "remove":
                del data[at : at + draw(st.integers(1, 20))]
            case "insert":
                data[at:at] = CORPUS[draw(NAMES)][: draw(st.integers(0, 2000))]
            case "number":
                data[at : at + 4] = struct.pack(">i", draw(st.integers(-(2**31), 2**31 - 1)))
            case "zeros":
                data[at : at + 300] = bytes(300)
    return bytes(data)


@settings(max_examples=400)
@given(mutated())
def test_any_damage_gives_entries_or_one_error(data: bytes):
    told(data)


@settings(max_examples=300)
@given(st.data())
def test_any_number_in_a_block_that_is_whole_gives_entries_or_one_error(drawn: Any):
    """Behind a right checksum, where the structure of entries and index is all that can be checked."""
    made = hand_made(sorted(ROWS)[:12], 3)
    blocks = [bytearray(block) for block in made.blocks]
    index = bytearray(made.more_index)
    for _ in range(drawn.draw(st.integers(1, 3))):
        block = drawn.draw(st.sampled_from(blocks))
        at = drawn.draw(st.integers(0, len(block) - 1))
        size = drawn.draw(st.sampled_from([1, 2, 4, 8]))
        block[at : at + size] = drawn.draw(st.binary(min_size=size, max_size=size))
    told(HandMade([bytes(block) for block in blocks], made.index_rows, 12, more_index=bytes(index)).bytes())


@settings(max_examples=200)
@given(st.binary(max_size=300), st.binary(max_size=100), st.integers(0, 4))
def test_any_bytes_in_blocks_that_are_whole_give_entries_or_one_error(block: bytes, index: bytes, entries: int):
    told(HandMade([entry(b"a", b""), block], [b"a", b"b"], entries, more_index=index).bytes())


@given(st.binary(max_size=300))
def test_any_bytes_give_one_error(data: bytes):
    assert told(data) is None
    assert told(data + CORPUS["log-v9"][-4096:]) is None


def test_a_broken_log_file_gives_the_same_or_one_error():
    log = encode_metadata_log(
        WHOLE["ours"].keys, WHOLE["ours"].values, ["a", "b"], "20261121021733647", "{}", "record_index"
    )
    for data in (LOG, log):
        whole = read_metadata_log(data, PATH, lambda _: True)
        for at in range(0, len(data), 1 + FEWER * len(data) // 900):
            flipped = bytearray(data)
            flipped[at] ^= 1 << at % 8
            try:
                found = read_metadata_log(bytes(flipped), PATH, lambda _: True)
            except (Corrupt, Unsupported):
                continue
            entries = [held for _, held in found if isinstance(held, HFile)]
            assert all(held.values.equals(whole[0][1].values) for held in entries)


HOSTILE = {
    "a long index": {"trailer": {5: 2**40}},
    "many entries": {"trailer": {7: 2**60}},
    "zeros": {"blocks": [bytes(1_000_000)]},
    "ones": {"blocks": [b"\xff" * 1_000_000]},
    "tiny entries": {"blocks": [struct.pack(">iib", 0, 0, 0) * 400_000]},
    "one far entry": {"blocks": [struct.pack(">ii", 2**31 - 1, 2**31 - 1) + bytes(1_000_000)]},
    "a long row": {"blocks": [struct.pack(">iiH", 0xFFFF + 12, 1_000_000, 0xFFFF) + bytes(1_000_000)]},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_file_claims_costs_neither_time_nor_memory(name: str):
    data = HandMade(**{"blocks": [entry(b"a", b"")], "index_rows": [b"a"], "entries": 1, **HOSTILE[name]}).bytes()
    before = time.process_time()
    assert told(data) is None
    assert time.process_time() - before < 5
    tracemalloc.start()
    try:
        assert told(data) is None
        assert tracemalloc.get_traced_memory()[1] < 200_000_000
    finally:
        tracemalloc.stop()


def test_sizes_that_are_claimed_are_not_allocated():
    data = bytearray(hand_made(sorted(ROWS)).bytes())
    for magic in (b"DATABLK*", b"IDXROOT2", b"FILEINF2"):
        for at in (8, 12, 29):
            broken = data.copy()
            begin = broken.index(magic) + at
            broken[begin : begin + 4] = struct.pack(">i", 2**31 - 1)
            tracemalloc.start()
            try:
                assert told(bytes(broken)) is None
                assert tracemalloc.get_traced_memory()[1] < 2_000_000
            finally:
                tracemalloc.stop()
