"""`.hoodie/.index_defs/index.json`: indexes and their columns (docs/format §14.8)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from hudi_ops.config.table import INDEX_DEFINITIONS_PATH
from hudi_ops.errors import Corrupt
from hudi_ops.formats.json_text import load_json
from hudi_ops.metadata.records.partitions import MetadataPartition, rebuild_command

SECONDARY_KIND: Final = "secondary_index"
"""Type of secondary indexes in their definitions."""

_ROOT: Final = "indexDefinitions"
_KNOWN: Final = ("indexName", "indexType", "indexFunction", "sourceFields", "indexOptions", "version")


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """Definition of one index.

    Attributes:
        name: also its key, and the folder of its partition.
        kind: `column_stats`, `record_index`, `secondary_index` and others.
        function: of an expression index; without meaning elsewhere.
        version: `V1` or `V2`; tables of version 8 have none.
        rest: unknown fields, kept unchanged.
    """

    name: str
    kind: str
    function: str = ""
    source_fields: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    version: str | None = None
    rest: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_partitioned(self) -> bool:
        """Whether it is a record index for each partition of the table, not a global one."""
        return self.options.get("isPartitioned", "").lower() == "true"


def column_stats_definition(columns: Sequence[str], table_version: int) -> IndexDefinition:
    """Return a new table's definition of its statistics, including those of partitions."""
    name = str(MetadataPartition.COLUMN_STATS)
    return IndexDefinition(name, name, name, tuple(columns), version="V2" if table_version >= 9 else None)


def record_index_definition() -> IndexDefinition:
    """Return a version 9 table's definition of its record index; version 8 has none."""
    name = str(MetadataPartition.RECORD_INDEX)
    return IndexDefinition(name, name, options={"isPartitioned": "false"}, version="V1")


def secondary_definition(name: str, column: str, table_version: int) -> IndexDefinition:
    """Return the definition of a new secondary index of one column."""
    return IndexDefinition(name, SECONDARY_KIND, "identity", (column,), version="V2" if table_version >= 9 else None)


def stats_index_version(definitions: Mapping[str, IndexDefinition], table_version: int) -> int:
    """Return the version of statistics, by the definition or else by the table's version."""
    for name in (MetadataPartition.COLUMN_STATS, MetadataPartition.PARTITION_STATS):
        held = definitions.get(name)
        if held is not None and held.version is not None:
            return 1 if held.version == "V1" else 2
    return 2 if table_version >= 9 else 1


def decode_index_definitions(data: bytes, path: str = INDEX_DEFINITIONS_PATH) -> dict[str, IndexDefinition]:
    """Parse definitions by name, in the order of the file.

    Raises:
        Corrupt: not a file of index definitions.
    """
    read = load_json(data, path, "JSON with index definitions", f"delete the file, then run {rebuild_command()}")
    held = read.get(_ROOT) if isinstance(read, dict) else None
    if not isinstance(held, dict):
        _fail(path, f"no {_ROOT}")
    return {name: _definition(name, each, path) for name, each in held.items()}


def encode_index_definitions(definitions: Mapping[str, IndexDefinition]) -> bytes:
    """Encode a file of definitions as Apache Hudi does; equal input gives equal bytes."""
    held: dict[str, Any] = {}
    for name, each in definitions.items():
        held[name] = {
            "indexName": each.name,
            "indexType": each.kind,
            "indexFunction": each.function,
            "sourceFields": list(each.source_fields),
            "indexOptions": dict(each.options),
            **({} if each.version is None else {"version": each.version}),
            **each.rest,
        }
    return _pretty({_ROOT: held}, "").encode()


def _definition(name: str, held: Any, path: str) -> IndexDefinition:
    if not isinstance(held, dict):
        _fail(path, f"{held!r} for {name}")
    fields, options, version = held.get("sourceFields") or [], held.get("indexOptions") or {}, held.get("version")
    if not isinstance(fields, list) or not isinstance(options, dict) or not isinstance(version, str | None):
        _fail(path, f"{held!r} for {name}")
    return IndexDefinition(
        str(held.get("indexName", name)),
        str(held.get("indexType", "")),
        str(held.get("indexFunction", "")),
        tuple(map(str, fields)),
        {str(key): str(value) for key, value in options.items()},
        version,
        {key: value for key, value in held.items() if key not in _KNOWN},
    )


def _pretty(value: Any, indent: str) -> str:
    """Format JSON as Jackson's default pretty printer does."""
    if isinstance(value, dict):
        if not value:
            return "{ }"
        inner = indent + "  "
        lines = [
            f"{inner}{json.dumps(key, ensure_ascii=False)} : {_pretty(each, inner)}" for key, each in value.items()
        ]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list):
        return f"[ {', '.join(_pretty(each, indent) for each in value)} ]" if value else "[ ]"
    return json.dumps(value, ensure_ascii=False)


def _fail(path: str, found: str) -> NoReturn:
    raise Corrupt(
        f"The index definitions in {path} are damaged",
        expected=f"JSON with definitions by name under {_ROOT}",
        found=found,
        next_step=f"delete the file, then run {rebuild_command()}",
        path=path,
    )
