"""Table schemas: Arrow to the Avro JSON that commits and footers carry, and back.

Written schemas have the form that Hudi's Spark writer gives them, including the names of nested records and decimals: Avro
resolves both by full name, so another name is another type.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pyarrow as pa

from hudi_ops.config.columns import META_COLUMNS
from hudi_ops.errors import Unsupported
from hudi_ops.formats.arrow_types import AVRO_TYPE, LIST_ITEM, is_vector, normalise
from hudi_ops.formats.avro.arrow_schema import to_arrow

__all__ = ["LIST_ITEM", "normalise", "record_name", "to_arrow", "to_avro"]

_PLAIN: Final[dict[pa.DataType, str | dict[str, str]]] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.timestamp("ms", "UTC"): {"type": "long", "logicalType": "timestamp-millis"},
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
    pa.timestamp("ms"): {"type": "long", "logicalType": "local-timestamp-millis"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
}


def to_avro(schema: pa.Schema, table_name: str) -> dict[str, Any]:
    """Return the Avro schema of a table (docs/format §4, §6.3).

    Args:
        schema: Arrow schema, with or without meta columns; it is normalised first.

    Returns:
        The record `{table}_record` in namespace `hoodie.{table}`; nullable fields are `["null", T]` with default null.

    Raises:
        Unsupported: a field's type has no counterpart.
        InvalidRequest: a field's name is no Avro name.
    """
    name, namespace = record_name(table_name)
    record = _record(name, namespace, list(normalise(schema)))
    _name_once(record["fields"])
    for at, field in enumerate(record["fields"]):
        if field["name"] in META_COLUMNS:
            # Hudi gives its own columns an empty comment; kept so that footers are equal to its own.
            without_default = {key: field[key] for key in ("name", "type")}
            record["fields"][at] = {**without_default, "doc": "", **field}
    return record


def record_name(table_name: str) -> tuple[str, str]:
    """Return name and namespace of a table's Avro record.

    >>> record_name("2-sales")
    ('____sales_record', 'hoodie.____sales')

    Returns:
        Name and namespace; characters that Avro does not allow are replaced as Hudi replaces them.
    """
    clean = re.sub(r"[^A-Za-z0-9_]", "__", re.sub(r"^[^A-Za-z_]", "__", table_name))
    return f"{clean}_record", f"hoodie.{clean}"


def decimal_size_bytes(precision: int) -> int:
    """Return the bytes of the smallest two's complement integer of `precision` decimal digits."""
    return int(10**precision - 1).bit_length() // 8 + 1


def _record(name: str, namespace: str, fields: list[pa.Field]) -> dict[str, Any]:
    inner = f"{namespace}.{name}"
    return {
        "type": "record",
        "name": name,
        "namespace": namespace,
        "fields": [_field(field, inner) for field in fields],
    }


def vector_columns(schema: pa.Schema) -> str:
    """Return the VECTOR columns as a footer names them: `emb:VECTOR(3)`; empty without one."""
    types = {field.name: json.loads(field.metadata[AVRO_TYPE]) for field in schema if is_vector(field)}
    elements = {name: kind.get("elementType", "FLOAT") for name, kind in types.items()}
    return ",".join(
        f"{name}:VECTOR({kind.get('dimension')}{'' if elements[name] == 'FLOAT' else f', {elements[name]}'})"
        for name, kind in types.items()
    )


def _name_once(fields: list[dict[str, Any]]) -> None:
    """Replace a repeated definition of a VECTOR type by its name: Avro defines it once."""
    seen: set[str] = set()
    for field in fields:
        kind = field["type"][1] if isinstance(field["type"], list) else field["type"]
        if isinstance(kind, dict) and kind.get("logicalType") == "vector":
            name = kind["name"]
            if name in seen:
                field["type"] = ["null", name] if isinstance(field["type"], list) else name
            seen.add(name)


def _field(field: pa.Field, namespace: str) -> dict[str, Any]:
    if is_vector(field):
        vector = json.loads(field.metadata[AVRO_TYPE])
        kind: Any = ["null", vector] if field.nullable else vector
    else:
        kind = _nullable(field.type, field.nullable, field.name, namespace)
    return {"name": field.name, "type": kind, **({"default": None} if field.nullable else {})}


def _nullable(kind: pa.DataType, is_nullable: bool, name: str, namespace: str) -> Any:
    avro = _type(kind, name, namespace)
    return ["null", avro] if is_nullable else avro


def _type(kind: pa.DataType, name: str, namespace: str) -> Any:
    if kind in _PLAIN:
        plain = _PLAIN[kind]
        return plain if isinstance(plain, str) else {**plain}
    if pa.types.is_decimal128(kind):
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": f"{namespace}.{name}",
            "size": decimal_size_bytes(kind.precision),
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    if pa.types.is_list(kind):
        item = kind.value_field
        return {"type": "array", "items": _nullable(item.type, item.nullable, name, namespace)}
    if pa.types.is_map(kind):
        item = kind.item_field
        return {"type": "map", "values": _nullable(item.type, item.nullable, name, namespace)}
    if pa.types.is_struct(kind):
        return _record(name, namespace, [kind.field(at) for at in range(kind.num_fields)])
    raise Unsupported(
        f"The field {name!r} has a type that a table cannot hold",
        found=str(kind),
        next_step="cast the field in the source",
    )
