"""Avro schemas as trees: the layout of each value in bytes and its Arrow type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from hudi_ops.errors import Corrupt, Unsupported
from hudi_ops.formats.arrow_types import LIST_ITEM
from hudi_ops.formats.avro.arrow_schema import to_arrow


class Form(Enum):
    """Layout of a value in bytes."""

    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"
    FIXED = "fixed"
    ENUM = "enum"
    RECORD = "record"
    ARRAY = "array"
    MAP = "map"
    UNION = "union"


_PRIMITIVE: Final = {form.value: form for form in Form if form not in {Form.FIXED, Form.ENUM, Form.RECORD, Form.UNION}}
COLUMNS_MAX: Final = 1 << 16
"""Most values of a record. By references to named records, a schema of few bytes can describe many more."""
_MIN_BYTES: Final = {Form.NULL: 0, Form.FLOAT: 4, Form.DOUBLE: 8}


@dataclass(frozen=True, slots=True)
class Node:
    """Type of a schema.

    Attributes:
        form: layout of a value in bytes.
        children: fields of a record, branches of a union, the one item of an array; key and value of a map.
        names: of a record's fields; symbols of an enum.
        size_bytes: of a fixed value.
        min_bytes: the minimum that a value takes.
    """

    form: Form
    arrow: pa.DataType
    children: tuple[Node, ...] = ()
    names: tuple[str, ...] = ()
    size_bytes: int = 0
    min_bytes: int = 1

    @property
    def fixed_bytes(self) -> int | None:
        """Bytes of every value if they are always the same, else None."""
        if self.form is Form.FIXED:
            return self.size_bytes
        return {Form.BOOLEAN: 1, Form.FLOAT: 4, Form.DOUBLE: 8}.get(self.form)

    @property
    def is_decimal(self) -> bool:
        """Whether bytes or fixed represent a decimal."""
        return bool(pa.types.is_decimal(self.arrow))


def record_of(schema: str, path: str) -> Node:
    """Return the tree of a record's schema.

    Raises:
        Corrupt: not JSON, not the schema of a record, or a record with two fields of one name.
        Unsupported: a record that contains itself, or has very many columns.
    """
    try:
        return _compiled(schema)
    except (Corrupt, Unsupported) as error:
        error.what = f"{error.what}, in {path}"
        raise
    except RecursionError as error:
        damage = _damage(f"a schema too deep to read, in {path}", "one of fewer levels")
        raise damage from error


@lru_cache(maxsize=64)
def _compiled(schema: str) -> Node:
    to_arrow(schema)  # reports every error of the schema
    node = _Builder().build(json.loads(schema), "")
    if (columns := _columns(node, {})) > COLUMNS_MAX:
        raise Unsupported(
            "The Avro schema of a log block has more columns than are read",
            expected=f"at most {COLUMNS_MAX}, those of nested records counted",
            found=str(columns),
            next_step="run `hudi-ops verify` on the table",
        )
    return node


def _columns(node: Node, known: dict[int, int]) -> int:
    """Count values that are not records, at each occurrence; each node is walked once."""
    if id(node) not in known:
        known[id(node)] = max(1, sum(_columns(child, known) for child in node.children))
    return known[id(node)]


class _Builder:
    """Walk through a schema that has been checked; knows the names defined so far."""

    def __init__(self) -> None:
        self._named: dict[str, Node] = {}

    def build(self, avro: Any, namespace: str) -> Node:
        if isinstance(avro, str):
            if avro in _PRIMITIVE:
                return _primitive(_PRIMITIVE[avro], avro)
            return next(self._named[full] for full in (f"{namespace}.{avro}", avro) if full in self._named)
        if isinstance(avro, list):
            branches = tuple(self.build(branch, namespace) for branch in avro)
            return Node(Form.UNION, _arrow_of_union(branches), branches, min_bytes=1)
        kind = avro.get("type")
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(avro, namespace)
        if kind == "array":
            item = self.build(avro["items"], namespace)
            return Node(Form.ARRAY, pa.list_(_field(LIST_ITEM, item)), (item,))
        if kind == "map":
            value = self.build(avro["values"], namespace)
            key = _primitive(Form.STRING, "string")
            return Node(Form.MAP, pa.map_(pa.string(), _field("value", value)), (key, value))
        if isinstance(kind, str) and kind in _PRIMITIVE:
            return _primitive(_PRIMITIVE[kind], avro)
        return self.build(kind, namespace)

    def _definition(self, avro: Mapping[str, Any], namespace: str) -> Node:
        name = avro["name"]
        full = name if "." in name else f"{avro.get('namespace', namespace)}.{name}"
        if avro["type"] == "enum":
            node = Node(Form.ENUM, pa.string(), names=_symbols(avro, full))
        elif avro["type"] == "fixed":
            if not isinstance(avro.get("size"), int) or not 0 <= avro["size"] < 2**31:
                raise _damage(f"a size of {avro.get('size')!r} in {full}", "bytes")
            # Read on its own, a definition has the type that it has in its place.
            kind = to_arrow({"type": "record", "name": "r", "fields": [{"name": "f", "type": avro}]}).field(0).type
            node = Node(Form.FIXED, kind, size_bytes=avro["size"], min_bytes=avro["size"])
        else:
            node = self._record(avro, full)
        self._named[full] = node
        return node

    def _record(self, avro: Mapping[str, Any], full: str) -> Node:
        children = tuple(self.build(field["type"], full.rpartition(".")[0]) for field in avro["fields"])
        names = tuple(field["name"] for field in avro["fields"])
        if len(set(names)) < len(names):
            raise _damage(f"two fields of one name in {full}", "fields of different names")
        kind = pa.struct([_field(name, child) for name, child in zip(names, children, strict=True)])
        return Node(Form.RECORD, kind, children, names, min_bytes=sum(child.min_bytes for child in children))


def _primitive(form: Form, avro: Any) -> Node:
    return _primitive_of(form, json.dumps(avro))


@lru_cache(maxsize=256)
def _primitive_of(form: Form, avro: str) -> Node:
    # The types of a wide table's columns repeat.
    field = {"name": "f", "type": json.loads(avro)}
    kind = to_arrow({"type": "record", "name": "r", "fields": [field]}).field(0).type
    return Node(form, kind, min_bytes=_MIN_BYTES.get(form, 1))


def _field(name: str, node: Node) -> pa.Field:
    is_nullable = node.form is Form.NULL or (
        node.form is Form.UNION and any(branch.form is Form.NULL for branch in node.children)
    )
    return pa.field(name, node.arrow, is_nullable)


def _arrow_of_union(branches: tuple[Node, ...]) -> pa.DataType:
    kinds = [branch.arrow for branch in branches if branch.form is not Form.NULL]
    if len(kinds) <= 1:
        return kinds[0] if kinds else pa.null()
    return pa.dense_union([pa.field(str(at), kind) for at, kind in enumerate(kinds)])


def _symbols(avro: Mapping[str, Any], full: str) -> tuple[str, ...]:
    symbols = avro.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise _damage(f"symbols {symbols!r} in {full}", "a list of names")
    return tuple(symbols)


def _damage(found: str, expected: str) -> Corrupt:
    return Corrupt(
        "The Avro schema of a log block is damaged",
        expected=expected,
        found=found,
        next_step="run `hudi-ops verify` on the table",
    )
