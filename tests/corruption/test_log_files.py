"""Broken log files: recovered as Apache Hudi recovers them, or one clear error; never other rows, another error or a long wait.

The files in `corpus/logs` begin every mutation: blocks that Apache Hudi wrote (`v6`, `v8`, `v9` in their names), and combinations.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from hudi_ops.errors import Corrupt, Unsupported
from hudi_ops.files.log.log_file import LogFileReader
from hudi_ops.formats.log.blocks import MAGIC, BlockKind, BlockSpan, HeaderKey, encode_block, scan_blocks
from hudi_ops.storage.memory import MemoryStorage

CORPUS = {file.stem: file.read_bytes() for file in sorted((Path(__file__).parent / "corpus" / "logs").glob("*.log"))}
PATH = "p=a/.f-0_20261121021717365.log.1_0-0-0"
NAMES = st.sampled_from(sorted(CORPUS))
AVRO, DELETES, PARQUET = CORPUS["avro-v8"], CORPUS["deletes-v9"], CORPUS["parquet-v9"]
THREE = CORPUS["three-blocks"]
KINDS = (BlockKind.AVRO_DATA, BlockKind.DELETE, BlockKind.AVRO_DATA)


def scan(data: bytes) -> list[BlockSpan]:
    return scan_blocks(pa.BufferReader(data), PATH)


def kinds(data: bytes) -> list[str]:
    spans = scan(data)
    assert [span.offset for span in spans] == [0, *(span.offset + span.size_bytes for span in spans)][: len(spans)]
    assert sum(span.size_bytes for span in spans) == len(data)
    return [span.kind.name for span in spans]


def contents(data: bytes) -> list[Any]:
    """All that the file holds, block by block, as plain values."""
    storage = MemoryStorage()
    storage.put(PATH, data)
    reader = LogFileReader(storage, PATH)
    found: list[Any] = []
    for block in reader.blocks:
        if block.kind is BlockKind.DELETE:
            found.append([
                (one.keys.to_pylist(), one.ordering and one.ordering.to_pylist()) for one in reader.deletes(block)
            ])
        elif block.is_data:
            rows = reader.rows(block)
            rows.validate(full=True)
            found.append(rows)
    return found


def told(data: bytes) -> list[Any] | None:
    """The contents, or None for one clear error; anything else fails the test."""
    refusal: Corrupt | Unsupported | None = None
    try:
        return contents(data)
    except (Corrupt, Unsupported) as error:
        refusal = error
    assert PATH in str(refusal)
    assert refusal.found
    assert refusal.next_step
    return None


def test_the_corpus_is_whole():
    assert {name: kinds(data) for name, data in CORPUS.items()} == {
        "avro-bucket-v9": ["AVRO_DATA"],
        "avro-decimals-v9": ["AVRO_DATA"],
        "avro-nested-v9": ["AVRO_DATA"],
        "avro-v6": ["AVRO_DATA"],
        "avro-v8": ["AVRO_DATA"],
        "command": ["COMMAND"],
        "deletes-v9": ["DELETE"],
        "empty-deletes": ["DELETE"],
        "parquet-v9": ["PARQUET_DATA"],
        "three-blocks": ["AVRO_DATA", "DELETE", "AVRO_DATA"],
        "torn-then-good": ["CORRUPT", "DELETE"],
    }
    assert all(told(data) is not None for data in CORPUS.values())


def test_a_cut_file_keeps_the_blocks_before_the_cut():
    ends = [span.offset + span.size_bytes for span in scan(THREE)]
    whole = contents(THREE)
    for cut in range(len(THREE)):
        kept = sum(end <= cut for end in ends)
        expected = [kind.name for kind in KINDS[:kept]]
        torn = ["CORRUPT"] if cut not in {0, *ends} else []
        assert kinds(THREE[:cut]) == expected + torn
        if cut % 50 == 0:
            assert contents(THREE[:cut]) == whole[:kept]


def test_a_good_block_after_a_torn_one_is_read():
    for cut in range(len(MAGIC), len(AVRO)):
        assert kinds(AVRO[:cut] + DELETES) == ["CORRUPT", "DELETE"]
    assert contents(AVRO[:700] + DELETES) == contents(DELETES)
    assert kinds(DELETES + AVRO[:700] + AVRO[:300] + DELETES) == ["DELETE", "CORRUPT", "DELETE"]


def test_less_than_a_magic_before_a_good_block_takes_the_block_before_with_it():
    # As for Apache Hudi, which asks what follows a block: neither the end nor another block does.
    for cut in range(1, len(MAGIC) - 1):
        assert kinds(DELETES + AVRO[:cut] + AVRO) == ["CORRUPT", "AVRO_DATA"]
        assert kinds(DELETES + AVRO[:cut]) == ["DELETE", "CORRUPT"]
    # All but the last byte, and the next one's first is that byte: a magic, and the next one is not looked for inside of it.
    assert kinds(DELETES + AVRO[: len(MAGIC) - 1] + AVRO) == ["DELETE", "CORRUPT"]


def test_a_magic_inside_of_a_good_block_is_content():
    headers = {HeaderKey.INSTANT_TIME: "1"}
    inner = encode_block(BlockKind.DELETE, headers, b"inner")
    data = encode_block(BlockKind.COMMAND, headers, inner * 3) + DELETES
    assert kinds(data) == ["COMMAND", "DELETE"]
    # Once the outer block is torn, what it held is all that can be seen, the last one excepted: no block follows that.
    assert kinds(data[: len(data) - len(DELETES) - 1]) == ["CORRUPT", "DELETE", "DELETE", "CORRUPT"]


@pytest.mark.parametrize("change", [-1, 1, 8, -(2**40), 2**40, 2**62, -(2**63)])
def test_a_wrong_size_or_pointer_makes_a_block_damaged(change: int):
    (size,) = struct.unpack_from(">q", AVRO, len(MAGIC))
    sizes = {(size + change + 2**63) % 2**64 - 2**63, 0, -1, 31}
    for wrong in sizes:
        by_size = AVRO[:6] + struct.pack(">q", wrong) + AVRO[14:]
        by_pointer = AVRO[:-8] + struct.pack(">q", wrong)
        for broken in (by_size, by_pointer):
            assert kinds(broken + DELETES) == ["CORRUPT", "DELETE"]
            assert kinds(DELETES + broken) == ["DELETE", "CORRUPT"]


def test_a_file_that_begins_with_something_else_is_no_log():
    for data in (b"PAR1" + PARQUET, b"#HUDX" + AVRO, bytes(100), b"#HUDJ#" + AVRO[6:]):
        with pytest.raises(Corrupt, match="offset 0"):
            scan(data)


@pytest.mark.parametrize("name", sorted(CORPUS))
def test_every_flipped_bit_gives_values_or_one_error(name: str):
    data = CORPUS[name]
    step = 1 + len(data) // 800
    for at in range(0, len(data), step):
        flipped = bytearray(data)
        flipped[at] ^= 1 << (at // step % 8)
        told(bytes(flipped))


def test_flips_of_framing_never_change_a_value():
    (span,) = scan(AVRO)
    whole = contents(AVRO)
    framing = [*range(26), *range(span.content_offset - 8, span.content_offset), *range(len(AVRO) - 12, len(AVRO))]
    for at in framing:
        for bit in range(8):
            flipped = bytearray(AVRO)
            flipped[at] ^= 1 << bit
            assert told(bytes(flipped)) in (None, [], whole)


@pytest.mark.parametrize("number", [9, 100, -1])
def test_an_unknown_header_is_an_error_though_the_block_is_whole(number: int):
    first_key = 26
    with pytest.raises(Unsupported, match=PATH):
        scan(DELETES + AVRO[:first_key] + struct.pack(">i", number) + AVRO[first_key + 4 :])


def test_many_false_beginnings_take_no_longer_than_their_bytes():
    class Counting:
        closed = False

        def __init__(self, data: bytes) -> None:
            self.inner, self.read_bytes = pa.BufferReader(data), 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def read(self, size: int = -1) -> bytes:
            body: bytes = self.inner.read(size)
            self.read_bytes += len(body)
            return body

    far = b"".join(MAGIC + struct.pack(">q", 200_000 + 977 * n % 90_000) for n in range(20_000))
    near = b"".join(MAGIC + struct.pack(">q", 40 + n % 30) for n in range(20_000))
    for data in (MAGIC * 50_000, far, near, MAGIC + bytes(3_000_000)):
        source = Counting(data)
        assert [span.kind for span in scan_blocks(pa.PythonFile(source, mode="r"), PATH)] == [BlockKind.CORRUPT]
        assert source.read_bytes <= 4 * len(data)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A file of the corpus, cut, flipped, joined with another."""
    data = bytearray(CORPUS[draw(NAMES)])
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(["flip", "set", "cut", "remove", "insert", "number"])):
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
                data[at : at + 8] = struct.pack(">q", draw(st.integers(-(2**63), 2**63 - 1)))
    return bytes(data)


@settings(max_examples=500)
@given(mutated())
def test_any_damage_gives_values_or_one_error(data: bytes):
    told(data)


@given(st.binary(max_size=300))
def test_any_bytes_give_values_or_one_error(data: bytes):
    told(data)
    told(MAGIC + data)
    told(DELETES + MAGIC + data)
