"""Framing of log files, on the logs that Apache Hudi wrote and on blocks made here."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.errors import Corrupt, HudiOpsError, Unsupported
from hudi_ops.formats.log.blocks import BlockKind, BlockSpan, HeaderKey, encode_block, scan_blocks

PATH = "p=a/.f-0_1.log.1_0-0-0"
INSTANT = {HeaderKey.INSTANT_TIME: "20261121021717365"}
MERGE_ON_READ = (
    "v6_nonpartitioned_mor",
    "v6_trips_8i1u_mor",
    "v8_trips_8i3u1d_mor",
    "v9_bucket_consistent_pending_resize",
    "v9_bucket_consistent_resized",
    "v9_bucket_simple",
    "v9_mor_parquet_log",
    "v9_mor_pending_compaction_clustering",
    "v9_txns_nonpart_nometa_mor",
    "v9_txns_simple_meta_mor",
)
POSITIONS = {HeaderKey.RECORD_POSITIONS, HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS}


def logs_of(table: Path) -> list[Path]:
    return sorted(file for file in table.rglob(".*.log.*") if not file.name.endswith(".crc"))


def scan(data: bytes) -> list[BlockSpan]:
    return scan_blocks(pa.BufferReader(data), PATH)


def walk(data: bytes) -> Iterator[dict[str, Any]]:
    """The layout, field by field, on whole files; written apart from the code under test."""
    at = 0
    while at < len(data):
        block: dict[str, Any] = {"offset": at, "magic": data[at : at + 6], "headers": {}}
        block["size"], block["version"], block["type"], count = struct.unpack_from(">qiii", data, at + 6)
        inside = at + 26
        for _ in range(count):
            key, length = struct.unpack_from(">ii", data, inside)
            block["headers"][key] = data[inside + 8 : inside + 8 + length].decode()
            inside += 8 + length
        (length,) = struct.unpack_from(">q", data, inside)
        block["content"] = (inside + 8, length)
        block["footers"], block["pointer"] = struct.unpack_from(">iq", data, inside + 8 + length)
        at = inside + 8 + length + 12
        block["end"] = at
        yield block


@pytest.fixture(params=MERGE_ON_READ)
def logs(request: pytest.FixtureRequest, hudi_fixtures: Callable[[str], Path]) -> list[bytes]:
    """The logs of a real table and of its metadata table."""
    found = [file.read_bytes() for file in logs_of(hudi_fixtures(request.param))]
    assert found
    return found


def test_real_blocks_lie_where_the_layout_says(logs):
    for data in logs:
        fields = list(walk(data))
        spans = scan(data)
        assert [(span.offset, span.size_bytes, span.kind) for span in spans] == [
            (each["offset"], each["end"] - each["offset"], each["type"]) for each in fields
        ]
        assert [(span.content_offset, span.content_bytes) for span in spans] == [each["content"] for each in fields]
        assert [dict(span.headers) for span in spans] == [each["headers"] for each in fields]


def test_real_blocks_say_their_sizes_as_the_format_does(logs):
    for each in (each for data in logs for each in walk(data)):
        assert each["magic"] == b"#HUDI#"
        assert each["version"] == 1
        assert each["size"] == each["end"] - each["offset"] - 14  # all behind the field itself
        assert each["pointer"] == each["size"] + 6  # all before the field itself
        assert each["footers"] == 0


def test_real_blocks_are_written_again_as_they_are(logs):
    same = 0
    for data in logs:
        for span in scan(data):
            content = data[span.content_offset : span.content_offset + span.content_bytes]
            again = encode_block(span.kind, span.headers, content)
            theirs = data[span.offset : span.offset + span.size_bytes]
            assert len(again) == len(theirs)
            if list(span.headers) == sorted(span.headers):  # Hudi's own order follows a hash
                assert again == theirs
                same += 1
            else:
                (ours,) = scan(again)
                assert (ours.kind, ours.headers, ours.content_bytes) == (span.kind, span.headers, span.content_bytes)
    assert same or all(list(span.headers) != sorted(span.headers) for data in logs for span in scan(data))


def test_a_file_is_read_alike_in_pieces(logs, tmp_path):
    file = tmp_path / "log"
    for data in logs[:5]:
        file.write_bytes(data * 30)
        with pa.OSFile(str(file)) as source:
            assert scan_blocks(source, PATH) == scan(data * 30)


def test_real_tables_have_these_blocks(hudi_fixtures):
    found: Counter[tuple[str, str]] = Counter()
    for name in MERGE_ON_READ:
        table = hudi_fixtures(name)
        for file in logs_of(table):
            of_data = ".hoodie" not in file.relative_to(table).parts
            found.update((name, span.kind.name) for span in scan(file.read_bytes()) if of_data)
    assert found["v6_nonpartitioned_mor", "PARQUET_DATA"] == 1
    assert found["v9_mor_parquet_log", "PARQUET_DATA"] == 3
    assert found["v9_mor_parquet_log", "DELETE"] == 2
    assert found["v8_trips_8i3u1d_mor", "AVRO_DATA"] == 3
    assert found["v9_bucket_consistent_pending_resize", "AVRO_DATA"] == 17


def test_data_frames_write_record_positions(hudi_fixtures):
    spans = [span for file in logs_of(hudi_fixtures("v9_mor_parquet_log")) for span in scan(file.read_bytes())]
    assert all(set(span.headers) == {HeaderKey.INSTANT_TIME, HeaderKey.SCHEMA, *POSITIONS} for span in spans)


def test_every_kind_and_header_is_written_and_read():
    headers = {key: f"value of {key.name} \u00fc" for key in HeaderKey}
    kinds = [kind for kind in BlockKind if kind is not BlockKind.CORRUPT]
    data = b"".join(encode_block(kind, headers, b"x" * kind) for kind in kinds)
    spans = scan(data)
    assert [span.kind for span in spans] == kinds
    assert all(span.headers == headers for span in spans)
    assert [span.content_bytes for span in spans] == kinds
    assert sum(span.size_bytes for span in spans) == len(data)


def test_the_order_of_headers_given_makes_no_difference():
    one = {HeaderKey.SCHEMA: "s", **INSTANT}
    two = {**INSTANT, HeaderKey.SCHEMA: "s"}
    assert encode_block(BlockKind.DELETE, one, b"") == encode_block(BlockKind.DELETE, two, b"")


def test_headers_longer_than_a_read_are_read(tmp_path):
    headers = {**INSTANT, HeaderKey.SCHEMA: "s" * 100_000, HeaderKey.RECORD_POSITIONS: "p" * 3_000_000}
    data = encode_block(BlockKind.AVRO_DATA, headers, b"1" * 70_000) * 3
    (tmp_path / "log").write_bytes(data)
    with pa.OSFile(str(tmp_path / "log")) as source:
        spans = scan_blocks(source, PATH)
    assert [dict(span.headers) for span in spans] == [headers] * 3
    assert spans == scan(data)


def test_an_empty_file_has_no_blocks():
    assert scan(b"") == []


def block(
    version: int = 1, kind: int = 1, headers: bytes | None = None, content_bytes: int = 0, tail: bytes = b""
) -> bytes:
    """A block that is whole by its framing, whatever is inside."""
    given = struct.pack(">iii", 1, 0, 1) + b"7" if headers is None else headers
    inside = struct.pack(">ii", version, kind) + given + struct.pack(">q", content_bytes) + tail + bytes(4)
    return b"#HUDI#" + struct.pack(">q", len(inside) + 8) + inside + struct.pack(">q", len(inside) + 14)


def entry(key: int, value: bytes, length: int | None = None) -> bytes:
    return struct.pack(">ii", key, len(value) if length is None else length) + value


TIME = entry(0, b"7")


@pytest.mark.parametrize(
    ("data", "error", "found"),
    [
        (b"PAR1" + bytes(40), Corrupt, "other bytes"),
        (block(version=2), Unsupported, "version 2"),
        (block(version=0), Unsupported, "version 0"),
        (block(kind=7), Unsupported, "type 7"),
        (block(kind=-1), Unsupported, "type -1"),
        (block(kind=2), Corrupt, "type 2"),
        (block(headers=struct.pack(">i", 1) + entry(9, b"x")), Unsupported, "number 9"),
        (block(headers=struct.pack(">i", 1) + entry(-1, b"x")), Unsupported, "number -1"),
        (block(headers=struct.pack(">i", 0)), Corrupt, "INSTANT_TIME"),
        (block(headers=struct.pack(">i", 1) + entry(2, b"{}")), Corrupt, "INSTANT_TIME"),
        (block(headers=struct.pack(">i", 2) + TIME + TIME), Corrupt, "twice"),
        (block(headers=struct.pack(">i", 1) + entry(0, b"\xff")), Corrupt, "INSTANT_TIME"),
        (block(headers=struct.pack(">i", 1) + entry(0, b"7", 2**31 - 1)), Corrupt, "2147483647 bytes"),
        (block(headers=struct.pack(">i", 1) + entry(0, b"7", -1)), Corrupt, "-1 bytes"),
        (block(headers=struct.pack(">i", 2**31 - 1) + TIME), Corrupt, "twice"),
        (block(headers=struct.pack(">i", -1)), Corrupt, "-1 headers"),
        (block(content_bytes=1), Corrupt, "runs past"),
        (block(content_bytes=2**62), Corrupt, f"{2**62} bytes"),
        (block(content_bytes=-1), Corrupt, "-1 bytes"),
        (block(tail=b"abc"), Corrupt, "header"),
        (block(tail=bytes(4)), Corrupt, "4 bytes between"),
    ],
)
def test_what_is_inside_a_whole_block_must_be_right(data: bytes, error: type[HudiOpsError], found: str):
    first = encode_block(BlockKind.DELETE, INSTANT, b"")
    is_first = data.startswith(b"PAR1")
    with pytest.raises(error) as caught:
        scan(data if is_first else first + data)
    assert PATH in str(caught.value)
    assert found in caught.value.found
    assert caught.value.next_step
    assert caught.value.details["offset"] == (0 if is_first else len(first))


def test_the_block_made_here_is_right_otherwise():
    (span,) = scan(block())
    assert (span.kind, dict(span.headers)) == (BlockKind.DELETE, {HeaderKey.INSTANT_TIME: "7"})
