"""Conversion of Avro schemas, of tables and of the metadata table, to Arrow schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from hudi_ops.errors import Corrupt, Unsupported
from hudi_ops.formats.arrow_types import AVRO_TYPE, LIST_ITEM
from hudi_ops.formats.json_text import DEPTH_MAX, is_too_deep, may_be_deep

_PLAIN: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_LOGICAL: Final = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}


def to_arrow(avro: Mapping[str, Any] | str, path: str = "") -> pa.Schema:
    """Return the Arrow schema of an Avro record.

    A union of null and one type is a nullable field, in either order; other unions become dense unions. Unknown logical types
    are ignored, as Avro requires.

    Raises:
        Corrupt: not JSON, or not the Avro schema of a record.
        Unsupported: a record that contains itself.

    Source: Avro 1.11 specification; docs/format §4.
    """
    return _schema_of_text(avro, path) if isinstance(avro, str) else _schema_of(avro, path)


@lru_cache(maxsize=16)
def _schema_of_text(avro: str, path: str) -> pa.Schema:
    # One call reads the schema of its table several times.
    try:
        parsed = json.loads(avro)
    except (ValueError, RecursionError) as error:
        raise Corrupt(**_damage(path, "", str(error), "JSON")) from error
    return _schema_of(parsed, path, is_checked=not may_be_deep(avro))


def _schema_of(parsed: Any, path: str, *, is_checked: bool = False) -> pa.Schema:
    if not is_checked and is_too_deep(parsed):
        raise Corrupt(**_damage(path, "", "types that are nested too deeply", f"at most {DEPTH_MAX} levels"))
    reader = _Reader(path)
    kind = reader.read(parsed, "", "")
    if not pa.types.is_struct(kind):
        raise Corrupt(**_damage(path, "", str(kind), "a record"))
    return pa.schema([kind.field(at) for at in range(kind.num_fields)])


class _Reader:
    """Walk through a schema; knows the names defined so far."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._named: dict[str, pa.DataType | None] = {}
        self._vectors: dict[str, str] = {}
        """Name of a VECTOR type -> its JSON."""

    def read(self, avro: Any, namespace: str, where: str) -> pa.DataType:
        if isinstance(avro, str):
            return self._by_name(avro, namespace, where)
        if isinstance(avro, list):
            return self._union(avro, namespace, where)
        if not isinstance(avro, Mapping):
            raise self._corrupt(where, repr(avro), "a type name, a union or a definition")
        kind = avro.get("type")
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(avro, namespace, where)
        if kind == "array":
            return pa.list_(self._field(LIST_ITEM, avro.get("items"), namespace, f"{where}[]"))
        if kind == "map":
            return pa.map_(pa.string(), self._field("value", avro.get("values"), namespace, f"{where}.value"))
        if isinstance(kind, str):
            logical = avro.get("logicalType")
            if kind == "bytes" and logical == "decimal":
                return self._decimal(avro, where)
            if isinstance(logical, str) and (kind, logical) in _LOGICAL:
                return _LOGICAL[kind, logical]
        return self.read(kind, namespace, where)

    def _by_name(self, name: str, namespace: str, where: str) -> pa.DataType:
        if name in _PLAIN:
            return _PLAIN[name]
        for full in (f"{namespace}.{name}", name):
            if full in self._named:
                kind = self._named[full]
                if kind is None:
                    raise Unsupported(
                        f"The schema in {self._path or 'an Avro schema'} has a record that contains itself: {full}",
                        expected="records without recursion",
                        found=f"a recursion at {where!r}",
                        next_step="flatten the record in the source",
                        path=self._path,
                    )
                return kind
        raise self._corrupt(where, repr(name), "the name of a type")

    def _definition(self, avro: Mapping[str, Any], namespace: str, where: str) -> pa.DataType:
        name = avro.get("name")
        if not isinstance(name, str) or not name:
            raise self._corrupt(where, repr(name), "a name")
        space = avro.get("namespace", namespace)
        full = name if "." in name else f"{space}.{name}"
        self._named[full] = None
        kind = self._defined(avro, full.rpartition(".")[0], where)
        self._named[full] = kind
        return kind

    def _defined(self, avro: Mapping[str, Any], namespace: str, where: str) -> pa.DataType:
        if avro["type"] == "enum":
            return pa.string()
        if avro["type"] == "fixed":
            if avro.get("logicalType") == "decimal":
                return self._decimal(avro, where)
            size_bytes = avro.get("size")
            if not isinstance(size_bytes, int) or not 0 <= size_bytes < 2**31:
                raise self._corrupt(where, repr(size_bytes), "a size in bytes")
            return pa.binary(size_bytes)
        fields = avro.get("fields")
        if not isinstance(fields, list):
            raise self._corrupt(where, repr(fields), "a list of fields")
        arrow = []
        for field in fields:
            if not isinstance(field, Mapping) or not isinstance(field.get("name"), str):
                raise self._corrupt(where, repr(field), "a field with a name")
            inside = f"{where}.{field['name']}".lstrip(".")
            arrow.append(self._field(field["name"], field.get("type"), namespace, inside))
        return pa.struct(arrow)

    def _field(self, name: str, avro: Any, namespace: str, where: str) -> pa.Field:
        kind = self.read(avro, namespace, where)
        is_nullable = kind == pa.null() or (isinstance(avro, list) and "null" in avro)
        vector = self._vector(avro) if where == name and pa.types.is_fixed_size_binary(kind) else None
        return pa.field(name, kind, is_nullable, {AVRO_TYPE: vector} if vector is not None else None)

    def _vector(self, avro: Any) -> str | None:
        """Return the JSON of a VECTOR column's type; a later column may name an earlier type."""
        plain = next((branch for branch in avro if branch != "null"), None) if isinstance(avro, list) else avro
        if isinstance(plain, str):
            return self._vectors.get(plain)
        if (
            not isinstance(plain, Mapping)
            or plain.get("logicalType") != "vector"
            or not isinstance(plain.get("name"), str)
        ):
            return None
        return self._vectors.setdefault(plain["name"], json.dumps(plain, separators=(",", ":")))

    def _union(self, branches: list[Any], namespace: str, where: str) -> pa.DataType:
        kinds = [self.read(branch, namespace, where) for branch in branches if branch != "null"]
        if not kinds:
            return pa.null()
        if len(kinds) == 1:
            return kinds[0]
        if len(kinds) > 127:
            raise self._corrupt(where, f"{len(kinds)} branches", "a union of at most 127 types")
        return pa.dense_union([pa.field(str(at), kind) for at, kind in enumerate(kinds)])

    def _decimal(self, avro: Mapping[str, Any], where: str) -> pa.DataType:
        precision, scale = avro.get("precision"), avro.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision <= 76:
            raise self._corrupt(where, f"precision {precision!r}, scale {scale!r}", "a decimal of up to 76 digits")
        if precision == 0:
            raise self._corrupt(where, "precision 0", "at least one digit")
        return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)

    def _corrupt(self, where: str, found: str, expected: str) -> Corrupt:
        return Corrupt(**_damage(self._path, where, found, expected))


def _damage(path: str, where: str, found: str, expected: str) -> dict[str, str]:
    at = f" at field {where!r}" if where else ""
    return {
        "what": f"The Avro schema in {path or 'a table'} is damaged{at}",
        "expected": expected,
        "found": found,
        "next_step": "run `hudi-ops verify` on the table",
        "path": path,
    }
