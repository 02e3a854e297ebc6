"""Avro containers of the timeline: one record, codec null, only the schema in the header.

Framing is done here, records by fastavro. A header with `avro.schema` alone, as Hudi writes it, and a sync marker taken from
the content make equal records equal bytes: a repeated step of a protocol writes the same file.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import fastavro

from hudi_ops.errors import Corrupt, Internal, Unsupported

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_HEADER: Final = fastavro.parse_schema({"type": "map", "values": "bytes"})
_LONG: Final = fastavro.parse_schema("long")
_FOREIGN_CODECS: Final = frozenset({"bzip2", "lz4", "snappy", "xz", "zstandard"})


def write_one(schema: Mapping[str, Any], record: Mapping[str, Any]) -> bytes:
    """Write a container with one record (docs/format §2.4).

    Fields left out take the schema's default, None writes null.

    Raises:
        Internal: the record does not fit the schema, or has a field that the schema lacks.
    """
    text = json.dumps(schema, separators=(",", ":"))
    body = io.BytesIO()
    try:
        fastavro.schemaless_writer(body, _parse(text), record, strict_allow_default=True)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise Internal(
            f"A record does not fit the Avro schema {schema.get('name')}",
            expected="the schema's fields and types",
            found=str(error),
            next_step="report this error with its text",
        ) from error
    header = io.BytesIO()
    fastavro.schemaless_writer(header, _HEADER, {"avro.schema": text.encode()})
    block = _long(1) + _long(body.tell()) + body.getvalue()
    sync = hashlib.blake2b(header.getvalue() + block, digest_size=_SYNC_BYTES).digest()
    return _MAGIC + header.getvalue() + sync + block + sync


Fields: TypeAlias = tuple[tuple[str, frozenset[str]], ...]
"""Fields to read of records, by the records' names."""


def read_one(data: bytes, path: str = "", *, only: Fields = ()) -> dict[str, Any]:
    """Read a container that holds exactly one record (docs/format §2.4).

    Of the records that `only` names other fields are passed over, which takes a fourth of the time of decoding them.

    Raises:
        Corrupt: not a whole container, or none or several records in it.
    """
    _, records = _guarded(data, path, only)
    if len(records) != 1:
        raise Corrupt(**_damage(path, f"{len(records)} records", "exactly one record"))
    return records[0]


def read_container(data: bytes, path: str = "") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the schema and all records of a container, codec null or deflate.

    Source: Avro 1.11 specification, Object Container Files; docs/format §2.4.

    Raises:
        Corrupt: the bytes are not one whole container of records.
        Unsupported: the blocks are compressed by a codec that Hudi's timeline does not use.
    """
    return _guarded(data, path, ())


def _guarded(data: bytes, path: str, only: Fields) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if not data:
        raise Corrupt(**_damage(path, "an empty file", "an Avro container"))
    if data[:4] != _MAGIC:
        raise Corrupt(**_damage(path, f"first bytes {data[:4]!r}", "the magic Obj\\x01"))
    stream = io.BytesIO(data)
    stream.seek(4)
    try:
        return _read(stream, len(data), path, only)
    except (Corrupt, Unsupported, MemoryError):
        raise
    except Exception as error:
        # fastavro reports broken bytes by a dozen built-in classes; all of them mean the same here.
        found = f"{type(error).__name__}: {error} near offset {stream.tell()}"
        raise Corrupt(**_damage(path, found, "a whole Avro container")) from error


def _read(stream: io.BytesIO, size_bytes: int, path: str, only: Fields) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    header = fastavro.schemaless_reader(stream, _HEADER)
    codec = header.get("avro.codec", b"null").decode()
    if codec in _FOREIGN_CODECS:
        raise Unsupported(
            f"{path or 'An Avro container'} is compressed with {codec}",
            expected="codec null or deflate",
            found=codec,
            next_step="write the file with codec null, as Apache Hudi does",
            path=path,
        )
    if codec not in ("null", "deflate"):
        raise Corrupt(**_damage(path, f"codec {codec!r}", "codec null or deflate"))
    text = header["avro.schema"].decode()
    schema = json.loads(text)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise Corrupt(**_damage(path, "another type", "the schema of a record"))
    sync = stream.read(_SYNC_BYTES)
    records: list[dict[str, Any]] = []
    while stream.tell() < size_bytes:
        schemas = _parse(text), _parse_only(text, only) if only else None
        records += _read_block(stream, size_bytes, sync, schemas, is_deflated=codec == "deflate", path=path)
    if len(sync) != _SYNC_BYTES:
        raise Corrupt(**_damage(path, f"{len(sync)} bytes", "a sync marker of 16 bytes"))
    return schema, records


def _read_block(
    stream: io.BytesIO, size_bytes: int, sync: bytes, schemas: tuple[Any, Any], *, is_deflated: bool, path: str
) -> list[dict[str, Any]]:
    start = stream.tell()
    count = fastavro.schemaless_reader(stream, _LONG)
    length = fastavro.schemaless_reader(stream, _LONG)
    if not 0 <= length <= size_bytes - stream.tell():
        raise Corrupt(
            **_damage(path, f"a block of {length} bytes at offset {start}", "a block that ends within the file")
        )
    block = stream.read(length)
    if stream.read(_SYNC_BYTES) != sync:
        raise Corrupt(**_damage(path, f"other bytes after the block at offset {start}", "the header's sync marker"))
    if is_deflated:
        block = zlib.decompress(block, wbits=-15)
    # Records of zero bytes exist only for empty schemas; without the limit a broken count would loop without end.
    if not 0 <= count <= len(block):
        raise Corrupt(
            **_damage(path, f"{count} records in {len(block)} bytes at offset {start}", "at least a byte a record")
        )
    body = io.BytesIO(block)
    records = [fastavro.schemaless_reader(body, *schemas) for _ in range(count)]
    if body.tell() != len(block):
        raise Corrupt(
            **_damage(path, f"{len(block) - body.tell()} bytes left in the block at offset {start}", "none left")
        )
    return records


@lru_cache(maxsize=256)
def _parse(text: str) -> Any:
    return fastavro.parse_schema(json.loads(text))


@lru_cache(maxsize=256)
def _parse_only(text: str, only: Fields) -> Any:
    return fastavro.parse_schema(_narrowed(json.loads(text), dict(only)))


def _narrowed(schema: Any, only: Mapping[str, frozenset[str]]) -> Any:
    """Return a schema whose records have only the named fields."""
    if isinstance(schema, list):
        return [_narrowed(one, only) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: _narrowed(value, only) if key in {"type", "items", "values"} else value for key, value in schema.items()
    }
    if isinstance(schema.get("fields"), list):
        kept = only.get(schema.get("name", ""))
        fields = [one for one in schema["fields"] if kept is None or one["name"] in kept]
        found["fields"] = [_narrowed(one, only) for one in fields]
    return found


def _long(value: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _LONG, value)
    return out.getvalue()


def _damage(path: str, found: str, expected: str) -> dict[str, str]:
    return {
        "what": f"{path or 'An Avro file'} is damaged",
        "expected": expected,
        "found": found,
        "next_step": "run `hudi-ops verify` on the table; restore the file from a copy",
        "path": path,
    }
