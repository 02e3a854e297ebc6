"""Definitions of tables with their columns, short to write and to vary with `replace`."""

from __future__ import annotations

from dataclasses import field, fields, make_dataclass
from typing import Any

import pyarrow as pa

from hudi_ops.commit.session import Session
from hudi_ops.config.definition import TableDefinition
from hudi_ops.services.create import create

_FIRST: list[Any] = [
    ("name", str),
    ("schema", pa.Schema),
    ("record_key", tuple[str, ...]),
    ("partition_by", tuple[str, ...], ()),
    ("ordering", str | None, None),
    ("table_type", str, "COPY_ON_WRITE"),
]
_LATER: dict[str, Any] = {
    name: found.default
    for name, found in TableDefinition.model_fields.items()
    if name not in {first[0] for first in _FIRST}
} | {"metadata": False, "index": "simple_bucket"}
_NAMES = {"COPY_ON_WRITE": "cow", "MERGE_ON_READ": "mor", "simple_bucket": "bucket"}

Definition = make_dataclass(
    "Definition",
    [*_FIRST, *((name, Any, field(default=default)) for name, default in _LATER.items())],
    frozen=True,
)
Definition.__module__ = __name__
"""`TableDefinition` with the table's columns, and without a metadata table unless it says otherwise."""


def create_table(session: Session, definition: Any) -> bool:
    """Make the table, as `services.create.create.create_table`."""
    values = {each.name: getattr(definition, each.name) for each in fields(definition)}
    schema = values.pop("schema")
    names = {name: _NAMES.get(values[name], values[name]) for name in ("table_type", "index")}
    return create.create_table(session, TableDefinition(**values | names), schema)
