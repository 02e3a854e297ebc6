"""Every HFile in the metadata tables that Apache Hudi wrote, 1.0 with HBase's classes and 1.1 with its own."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_ops.formats.hfile.reader import HFileReader, read_hfile, write_hfile
from hudi_ops.formats.log.blocks import BlockKind, HeaderKey, scan_blocks
from hudi_ops.formats.log.hfile_blocks import encode_empty_init_log, encode_metadata_log, read_metadata_log


class Found(NamedTuple):
    path: str
    schema: str
    data: bytes
    is_base: bool


def metadata_files(table: Path, suffix: str) -> Iterator[Path]:
    root = table / ".hoodie" / "metadata"
    for file in sorted(root.rglob("*")):
        if suffix in file.name and file.suffix != ".crc" and ".hoodie" not in file.relative_to(root).parts:
            yield file


def hfiles(table: Path) -> Iterator[Found]:
    for file in metadata_files(table, ".hfile"):
        data = file.read_bytes()
        yield Found(
            str(file), HFileReader(pa.BufferReader(data), str(file)).info["schema"].decode(), data, is_base=True
        )
    for file in metadata_files(table, ".log."):
        data = file.read_bytes()
        for block in scan_blocks(pa.BufferReader(data), str(file)):
            if block.kind is BlockKind.HFILE_DATA:
                content = data[block.content_offset : block.content_offset + block.content_bytes]
                yield Found(str(file), block.headers[HeaderKey.SCHEMA], content, is_base=False)


COUNTS = {
    "v8_trips_8i3u1d_mor": (24, 35, 366, 2),
    "v9_async_index": (14, 8, 94, 0),
    "v9_record_index_bloom_filters": (1, 26, 98, 0),
    "v9_txns_simple_meta_cow": (29, 74, 812, 4),
    "v9_txns_simple_meta_mor": (29, 78, 879, 4),
}


@pytest.mark.parametrize("name", COUNTS)
def test_every_hfile_is_read_and_written_again(name: str, hudi_fixtures: Callable[[str], Path]):
    counts: Counter[str] = Counter()
    for file in hfiles(hudi_fixtures(name)):
        found = read_hfile(file.data, file.path)
        counts["base" if file.is_base else "log"] += 1
        counts["entries"] += len(found)
        counts["empty"] += not len(found)
        assert found.keys.to_pylist() == sorted(set(found.keys.to_pylist()))
        assert found.info["schema"].decode() == file.schema
        schema = fastavro.parse_schema(json.loads(file.schema))
        for value in found.values.to_pylist():
            stream = io.BytesIO(value)
            assert fastavro.schemaless_reader(stream, schema, None)["key"] == ""
            assert not stream.read()
        if file.is_base:
            ends = (found.keys[0].as_py(), found.keys[-1].as_py()) if len(found) else (b"", b"")
            assert (found.info["minRecordKey"], found.info["maxRecordKey"]) == ends
        ours = read_hfile(write_hfile(found.keys, found.values, schema=file.schema), file.path)
        assert ours.keys.equals(found.keys)
        assert ours.values.equals(found.values)
        dates = {"hfile.CREATE_TIME_TS", "bloomFilterTypeCode", "hfile.LASTKEY", "hfile.AVG_KEY_LEN"}
        assert {key: ours.info.get(key) for key in found.info if key not in dates} == {
            key: value for key, value in found.info.items() if key not in dates
        }
    assert tuple(counts[kind] for kind in ("base", "log", "entries", "empty")) == COUNTS[name]


@pytest.mark.parametrize("name", COUNTS)
def test_lookups_are_filters_of_what_is_read(name: str, hudi_fixtures: Callable[[str], Path]):
    for file in hfiles(hudi_fixtures(name)):
        found = read_hfile(file.data, file.path)
        wanted = pa.array([*found.keys.to_pylist()[::2], b"\xf4\x8f\xbf\xbfnot there"], pa.binary())
        looked = HFileReader(pa.BufferReader(file.data), file.path).lookup(wanted)
        is_wanted = pc.is_in(found.keys, value_set=wanted)
        assert looked.keys.equals(found.keys.filter(is_wanted))
        assert looked.values.equals(found.values.filter(is_wanted))
        start = found.keys[len(found) // 2].as_py()[:3] if len(found) else b"x"
        expected = found.values.filter(pc.starts_with(found.keys, start))
        assert HFileReader(pa.BufferReader(file.data), file.path).prefixes([start]).values.equals(expected)


@pytest.mark.parametrize("name", COUNTS)
def test_logs_are_written_as_apache_hudi_writes_them(name: str, hudi_fixtures: Callable[[str], Path]):
    kinds: Counter[str] = Counter()
    for file in metadata_files(hudi_fixtures(name), ".log."):
        data = file.read_bytes()
        blocks = scan_blocks(pa.BufferReader(data), str(file))
        for block, (instant, held) in zip(blocks, read_metadata_log(data, str(file), lambda _: True), strict=True):
            kinds[block.kind.name] += 1
            assert instant == block.headers[HeaderKey.INSTANT_TIME]
            if len(data) == 80:
                kinds["begins a group"] += 1
                assert encode_empty_init_log(instant) == data
            elif block.kind is BlockKind.DELETE and file.parent.name == "record_index":
                # Their headers come in any order, so the contents are compared.
                assert isinstance(held, pa.StringArray)
                nothing = pa.array([], pa.binary())
                ours = encode_metadata_log(
                    nothing, nothing, held, instant, block.headers[HeaderKey.SCHEMA], "record_index"
                )
                (our_block,) = scan_blocks(pa.BufferReader(ours), "ours")
                assert our_block.headers == block.headers
                assert our_block.content_bytes == block.content_bytes
                theirs_at, ours_at = block.content_offset, our_block.content_offset
                assert ours[ours_at:] == data[theirs_at : theirs_at + len(ours) - ours_at]
                kinds["deleted keys"] += 1
    assert (kinds["begins a group"], kinds["deleted keys"]) == LOGS[name]


LOGS = {
    "v8_trips_8i3u1d_mor": (24, 2),
    "v9_async_index": (24, 0),
    "v9_record_index_bloom_filters": (18, 1),
    "v9_txns_simple_meta_cow": (34, 6),
    "v9_txns_simple_meta_mor": (34, 7),
}
