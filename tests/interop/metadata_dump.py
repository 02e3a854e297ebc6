"""Rows of any metadata table on local storage, decoded without our readers: own HFile and log parsing, `fastavro` for the values.

Goal: hold our metadata tables against those of Apache Hudi, record by record, and look at either by hand.
Method: files are found by listing, taken apart by the layout of docs/format §4 and §13, and nothing is merged or left out
unless `merged` is asked to.

Usage: python -m tests.interop.metadata_dump TABLE [PARTITION]
"""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import fastavro

FOLDER = ".hoodie/metadata"

_BASE = re.compile(r"^(?P<group>[^_]+)_(?P<token>[^_]+)_(?P<instant>\d+)\.hfile$")
_LOG = re.compile(r"^\.(?P<group>[^_]+)_(?P<instant>\d+)\.log\.(?P<version>\d+)_(?P<token>.+)$")
_INSTANT = re.compile(r"^(?P<time>\d+)(_(?P<completion>\d+))?\.(?P<action>.+)$")
_HEADERS = ("INSTANT_TIME", "TARGET_INSTANT_TIME", "SCHEMA", "COMMAND_BLOCK_TYPE", "COMPACTED_BLOCK_TIMES")
_DELETE, _HFILE = 1, 4

Record = dict[str, Any]


@dataclass(frozen=True)
class MetadataRow:
    """One record as it lies in one file.

    `kind` is `base`, `log` or `delete`; `instant` that of the base file, or of the log's block. A wrapped value is a pair of the
    wrapper's name and the value; a delete has its partition path and ordering value as record.
    """

    partition: str
    group: str
    kind: str
    instant: str
    key: str
    record: Record


@dataclass(frozen=True)
class MetadataInstant:
    """One file of a timeline; `content` is None when it is empty."""

    time: str
    completion: str | None
    action: str
    content: Record | None


def metadata_rows(table: Path | str, partition: str | None = None) -> list[MetadataRow]:
    """Every record of every file of a metadata table: by partition and group, base files first, then by instant and key."""
    folder = Path(table) / FOLDER
    rows: list[MetadataRow] = []
    for part in sorted(one for one in folder.iterdir() if one.is_dir() and one.name != ".hoodie"):
        if partition in {None, part.name}:
            for file in sorted(one for one in part.iterdir() if not one.name.endswith(".crc")):
                rows += _rows_of_file(part.name, file)
    return sorted(rows, key=lambda one: (one.partition, one.group, one.kind != "base", one.instant, one.key))


def metadata_files(table: Path | str) -> dict[str, list[str]]:
    """Names of the files of each partition's folder."""
    folder = Path(table) / FOLDER
    return {
        part.name: sorted(file.name for file in part.iterdir() if not file.name.endswith(".crc"))
        for part in sorted(folder.iterdir())
        if part.is_dir() and part.name != ".hoodie"
    }


def metadata_timeline(table: Path | str) -> list[MetadataInstant]:
    """The metadata table's active timeline, in the order of names."""
    return timeline_of(Path(table) / FOLDER)


def timeline_of(table: Path | str) -> list[MetadataInstant]:
    """Active timeline of any table of layout 2, with the Avro contents decoded."""
    found = []
    for file in sorted((Path(table) / ".hoodie" / "timeline").iterdir()):
        named = _INSTANT.match(file.name)
        if named and file.is_file():
            found.append(
                MetadataInstant(named["time"], named["completion"], named["action"], _content(file.read_bytes()))
            )
    return found


def _content(body: bytes) -> Record | None:
    if body[:3] == b"Obj":
        content: Any = next(iter(fastavro.reader(io.BytesIO(body))))
        return content  # type: ignore[no-any-return]
    return {"text": body.decode("utf-8", "replace")} if body else None


def _rows_of_file(partition: str, file: Path) -> Iterator[MetadataRow]:
    if base := _BASE.match(file.name):
        info, entries = parse_hfile(file.read_bytes())
        schema = info[b"schema"].decode()
        for key, value in entries:
            yield MetadataRow(partition, base["group"], "base", base["instant"], key, decode(value, schema))
    elif log := _LOG.match(file.name):
        for kind, headers, content in parse_log(file.read_bytes()):
            yield from _rows_of_block(partition, log["group"], kind, headers, content)


def _rows_of_block(
    partition: str, group: str, kind: int, headers: dict[str, str], content: bytes
) -> Iterator[MetadataRow]:
    instant = headers["INSTANT_TIME"]
    if kind == _HFILE:
        for key, value in parse_hfile(content)[1]:
            yield MetadataRow(partition, group, "log", instant, key, decode(value, headers["SCHEMA"]))
        return
    assert kind == _DELETE, f"block of type {kind} in {partition}/{group} at {instant}"
    for one in _deletes(content):
        record = {"partitionPath": one["partitionPath"], "orderingVal": one["orderingVal"]}
        yield MetadataRow(partition, group, "delete", instant, one["recordKey"], record)


def parse_log(data: bytes) -> list[tuple[int, dict[str, str], bytes]]:
    """Blocks of a log file: type, headers by name, content."""
    blocks, at = [], 0
    while at < len(data):
        assert data[at : at + 6] == b"#HUDI#", f"no block at {at}"
        size, version, kind = struct.unpack_from(">qii", data, at + 6)
        assert version == 1
        assert struct.unpack_from(">q", data, at + 6 + size)[0] == size + 6
        headers, after = _headers(data, at + 22)
        (length,) = struct.unpack_from(">q", data, after)
        blocks.append((kind, headers, data[after + 8 : after + 8 + length]))
        at += 14 + size
    return blocks


def _headers(data: bytes, at: int) -> tuple[dict[str, str], int]:
    (count,) = struct.unpack_from(">i", data, at)
    at, found = at + 4, {}
    for _ in range(count):
        ordinal, length = struct.unpack_from(">ii", data, at)
        name = _HEADERS[ordinal] if ordinal < len(_HEADERS) else str(ordinal)
        found[name] = data[at + 8 : at + 8 + length].decode()
        at += 8 + length
    return found, at


def parse_hfile(data: bytes) -> tuple[dict[bytes, bytes], list[tuple[str, bytes]]]:
    """File info and entries of an HFile; order of keys and count of entries are checked."""
    end = len(data) - 4096
    assert data[end : end + 8] == b'TRABLK"$'
    length, at = _varint(data, end + 8)
    trailer = _proto(data[at : at + length])
    codec = trailer[12][0]
    info: dict[bytes, bytes] = {}
    payload = _block(data, trailer[1][0], codec, b"FILEINF2")
    assert payload[:4] == b"PBUF"
    length, at = _varint(payload, 4)
    for pair in _proto(payload[at : at + length]).get(1, []):
        fields = _proto(pair)
        info[fields[1][0]] = fields[2][0]
    entries: list[tuple[str, bytes]] = []
    for offset in _index(_block(data, trailer[2][0], codec, b"IDXROOT2"), trailer[5][0]):
        entries += _entries(_block(data, offset, codec, b"DATABLK*"))
    assert len(entries) == trailer[7][0], "entry_count differs"
    keys = [key.encode() for key, _ in entries]
    assert keys == sorted(set(keys)), "keys are not sorted and unique"
    return info, entries


def _block(data: bytes, at: int, codec: int, magic: bytes) -> bytes:
    assert data[at : at + 8] == magic, data[at : at + 8]
    (_, plain, _, _, _, end) = struct.unpack_from(">iiqbii", data, at + 8)
    payload = data[at + 33 : at + end]
    assert codec in {1, 2}
    payload = gzip.decompress(payload) if codec == 1 else payload
    assert len(payload) == plain
    return payload


def _index(payload: bytes, count: int) -> list[int]:
    offsets, at = [], 0
    for _ in range(count):
        offsets.append(struct.unpack_from(">q", payload, at)[0])
        length, at = _hadoop_vint(payload, at + 12)
        at += length
    return offsets


def _entries(payload: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    while at < len(payload):
        key_length, value_length, row_length = struct.unpack_from(">iiH", payload, at)
        key = payload[at + 10 : at + 10 + row_length]
        assert key_length == row_length + 12
        at += 8 + key_length
        yield key.decode(), payload[at : at + value_length]
        at += value_length
        assert payload[at] == 0
        at += 1


def _hadoop_vint(data: bytes, at: int) -> tuple[int, int]:
    (first,) = struct.unpack_from(">b", data, at)
    if first >= -112:
        return first, at + 1
    size = -112 - first
    return int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def _proto(data: bytes) -> dict[int, list[Any]]:
    fields: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value: Any
        value, at = _varint(data, at)
        if tag & 7 == 2:
            value, at = data[at : at + value], at + value
        fields.setdefault(tag >> 3, []).append(value)
    return fields


@lru_cache(maxsize=8)
def _schema(text: str) -> Any:
    return fastavro.parse_schema(_physical(json.loads(text)))


def _physical(schema: Any) -> Any:
    """Without logical types: values are compared as they are stored."""
    if isinstance(schema, dict):
        logical = {"logicalType", "precision", "scale"}
        return {name: _physical(value) for name, value in schema.items() if name not in logical}
    return [_physical(one) for one in schema] if isinstance(schema, list) else schema


def decode(value: bytes, schema: str) -> Record:
    """One value by its schema; every byte must be used."""
    source = io.BytesIO(value)
    read = fastavro.schemaless_reader(source, _schema(schema), None, return_record_name=True)
    assert source.tell() == len(value)
    return _plain(read)  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):  # a record of a union, with its name
        name, record = value[0].rpartition(".")[2], value[1]
        return (name, _plain(next(iter(record.values())))) if name.endswith("Wrapper") else _plain(record)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


_ORDERINGS = ("boolean", "int", "long", "float", "double", "bytes", "string", "int", "bytes", "long", "long")


def _record(name: str, fields: dict[str, Any]) -> Record:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}


_DELETE_FIELDS = {
    "recordKey": ["null", "string"],
    "partitionPath": ["null", "string"],
    "orderingVal": ["null", *(_record(f"Branch{n}", {"value": kind}) for n, kind in enumerate(_ORDERINGS, 1))],
}
_DELETES = fastavro.parse_schema(
    _record("Deletes", {"list": {"type": "array", "items": _record("Delete", _DELETE_FIELDS)}})
)


def _deletes(content: bytes) -> list[Record]:
    version, length = struct.unpack_from(">ii", content, 0)
    assert version == 3
    read: Any = fastavro.schemaless_reader(io.BytesIO(content[8 : 8 + length]), _DELETES, None, return_record_name=True)
    return [
        {**one, "orderingVal": one["orderingVal"] and (one["orderingVal"][0], one["orderingVal"][1]["value"])}
        for one in read["list"]
    ]


def short(record: Record) -> Record:
    """A record without its empty fields, for people."""
    return {
        name: short(value) if isinstance(value, dict) else value
        for name, value in record.items()
        if value not in (None, "", False) and value != {}
    }


def main() -> None:
    """Prints a table's metadata: files, timeline, rows."""
    table = Path(sys.argv[1])
    print(json.dumps(metadata_files(table), indent=1))
    for instant in metadata_timeline(table):
        print(instant.time, instant.completion, instant.action, instant.content and list(instant.content))
    for row in metadata_rows(table, *sys.argv[2:]):
        print(row.partition, row.group, row.kind, row.instant, row.key, short(row.record))


if __name__ == "__main__":
    main()
