"""Building blocks of the timeline's Avro schemas, spelt as Apache Hudi does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

NAMESPACE: Final = "org.apache.hudi.avro.model"
"""Namespace of all records; declared on the outermost one."""

Schema = Any
"""An Avro type: a name, a union (list) or a definition (dict)."""

Field = dict[str, Any]
"""One field of a record."""

_NO_DEFAULT: Final = object()


def array(items: Schema) -> Schema:
    """Return the type of an array of `items`."""
    return {"type": "array", "items": items}


def mapping(values: Schema) -> Schema:
    """Return the type of a map with the JVM's own strings as keys."""
    return {"type": "map", "values": values, "avro.java.string": "String"}


def record(name: str, *fields: Field) -> Schema:
    """Return a record inside another one, or the input of `root`."""
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, type_: Schema, default: Any = _NO_DEFAULT) -> Field:
    """Return a field, without a default unless one is given."""
    plain: Field = {"name": name, "type": type_}
    return plain if default is _NO_DEFAULT else {**plain, "default": default}


def nullable(name: str, type_: Schema) -> Field:
    """Return a field that may be null, and is by default."""
    return field(name, ["null", type_], None)


def required(table: Iterable[tuple[str, Schema]]) -> list[Field]:
    """Return fields without null and default, from (name, type)."""
    return [field(name, type_) for name, type_ in table]


def optional(table: Iterable[tuple[str, Schema]]) -> list[Field]:
    """Return fields that may be null, and are by default, from (name, type)."""
    return [nullable(name, type_) for name, type_ in table]


def root(outermost: Schema) -> Mapping[str, Any]:
    """Make a record a whole schema, with a namespace.

    Later occurrences of a record inside it become references by name, as Avro requires.
    """
    seen: set[str] = set()

    def once(schema: Schema) -> Schema:
        if isinstance(schema, list):
            return [once(branch) for branch in schema]
        if not isinstance(schema, dict):
            return schema
        if schema["type"] == "record":
            if schema["name"] in seen:
                return schema["name"]
            seen.add(schema["name"])
            return {**schema, "fields": [{**each, "type": once(each["type"])} for each in schema["fields"]]}
        return {key: once(value) if key in ("items", "values") else value for key, value in schema.items()}

    named = once(outermost)
    return {"type": "record", "name": named["name"], "namespace": NAMESPACE, "fields": named["fields"]}


STRING: Final[Schema] = {"type": "string", "avro.java.string": "String"}
"""A string that Java reads as `String`."""

STRINGS: Final = array(STRING)
"""An array of strings."""

STRING_MAP: Final = mapping(STRING)
"""A map of strings."""

STRINGS_MAP: Final = mapping(STRINGS)
"""A map of arrays of strings."""

VERSION: Final[Field] = field("version", ["int", "null"], 1)
"""The version of a record: int is the first branch of the union."""

EXTRA_METADATA: Final = nullable("extraMetadata", STRING_MAP)
"""Free keys and values."""
