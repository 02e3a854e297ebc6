"""Make the properties of a new table, versions 8 and 9 (docs/format §1.5)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa

from hudi_ops.config.definition import TableDefinition
from hudi_ops.config.table import (
    INDEX_DEFINITIONS,
    INDEX_DEFINITIONS_PATH,
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
    TableFacts,
    table_type_of,
)
from hudi_ops.errors import InvalidRequest
from hudi_ops.formats.arrow_types import column_text
from hudi_ops.formats.avro.arrow_schema import to_arrow
from hudi_ops.formats.properties import table_checksum

# Version 8 names the merge mode in three properties, and Apache Hudi checks that they agree (docs/format §1.5).
_MERGE_OF_VERSION_8 = {
    "EVENT_TIME_ORDERING": {
        "hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
        "hoodie.record.merge.strategy.id": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    },
    "COMMIT_TIME_ORDERING": {
        "hoodie.compaction.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
        "hoodie.record.merge.strategy.id": "ce9acb64-bde0-424c-9b91-f6ebba25356d",
    },
}


_SETTINGS = {
    "hoodie.table.name": "name",
    "hoodie.table.type": "table type",
    "hoodie.table.version": "version",
    "hoodie.table.recordkey.fields": "record key",
    "hoodie.table.partition.fields": "partition columns",
    "hoodie.table.ordering.fields": "ordering",
    "hoodie.table.precombine.field": "ordering",
    "hoodie.table.keygenerator.type": "key generator",
    "hoodie.datasource.write.hive_style_partitioning": "hive-style folders",
    "hoodie.datasource.write.partitionpath.urlencode": "URL encoding of folders",
    "hoodie.populate.meta.fields": "meta columns",
    METADATA_PARTITIONS: "metadata partitions",
}
"""Property -> the setting of a definition that it follows from. The other properties follow from these."""


def definition_differences(
    there: Mapping[str, str],
    facts_there: TableFacts | None,
    given: Mapping[str, str],
    facts: TableFacts,
    now: pa.Schema | None = None,
) -> list[str]:
    """Return each setting in which a table differs from a definition, with both values.

    `there` are the properties with which the table was created; `now` are its present columns, where they are known.
    """
    found = [
        (label, there.get(name, "none"), given.get(name, "none"))
        for name, label in _SETTINGS.items()
        if there.get(name) != given.get(name)
    ]
    if facts_there is not None:
        found += [
            (name, str(getattr(facts_there, name)), str(getattr(facts, name)))
            for name in ("index", "buckets", "buckets_min", "buckets_max")
            if getattr(facts_there, name) != getattr(facts, name)
        ]
    made, wanted = (_columns(one.get("hoodie.table.create.schema")) for one in (there, given))
    columns = _column_differences(made, wanted, made if now is None else _texts(now))
    if not found and not columns:
        found = [(name, there.get(name, "none"), value) for name, value in given.items() if there.get(name) != value]
    return [f"{label} is {held} in the table and {asked} in this call" for label, held, asked in found] + columns


def _columns(avro: str | None) -> dict[str, str]:
    return _texts(to_arrow(json.loads(avro))) if avro else {}


def _texts(columns: pa.Schema) -> dict[str, str]:
    return {field.name: column_text(field) for field in columns}


def _column_differences(made: Mapping[str, str], given: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return sentences on columns that differ, now or since the table was created."""
    found = []
    for name in {**made, **given}:
        was, wanted, held = (one.get(name, "absent") for one in (made, given, now))
        if was != wanted and held == was:
            found.append(f"column {name} is {held} in the table and {wanted} in this call")
        elif was != wanted:
            found.append(
                f"column {name} was {was} when the table was created, is {held} in it now and {wanted} in this call"
            )
    orders = [", ".join(name for name in one if name in made and name in given) for one in (made, given)]
    if orders[0] != orders[1]:
        found.append(f"the order of columns is {orders[0]} in the table and {orders[1]} in this call")
    return found


def new_table_properties(
    definition: TableDefinition, key_generator: str, create_schema: str, metadata_partitions: Sequence[str]
) -> dict[str, str]:
    """Return every property of a new table (docs/format §1.5).

    `key_generator` is `hoodie.table.keygenerator.type`; `create_schema` is Avro JSON without meta columns.

    Raises:
        InvalidRequest: a name that not every reader could open.
    """
    name, ordering, version, time = definition.name, definition.ordering, definition.version, definition.time
    _check_name(name)
    mode = "EVENT_TIME_ORDERING" if ordering else "COMMIT_TIME_ORDERING"
    properties = {
        "hoodie.table.name": name,
        "hoodie.table.type": table_type_of(definition.table_type),
        "hoodie.table.version": str(version),
        "hoodie.table.initial.version": str(version),
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.archivelog.folder": "history",
        "hoodie.table.recordkey.fields": ",".join(definition.record_key),
        "hoodie.table.keygenerator.type": key_generator,
        "hoodie.record.merge.mode": mode,
        "hoodie.datasource.write.hive_style_partitioning": str(definition.hive_style).lower(),
        "hoodie.datasource.write.partitionpath.urlencode": str(definition.url_encode).lower(),
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.populate.meta.fields": str(definition.meta_fields).lower(),
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.table.create.schema": create_schema,
        "hoodie.table.checksum": table_checksum(name),
    }
    if version >= 9:
        properties["hoodie.table.format"] = "native"
    else:
        properties |= _MERGE_OF_VERSION_8[mode]
    if definition.partition_by:
        properties["hoodie.table.partition.fields"] = ",".join(definition.partition_by)
    if ordering:
        properties["hoodie.table.ordering.fields" if version >= 9 else "hoodie.table.precombine.field"] = ordering
    return properties | _metadata_properties(metadata_partitions) | (time.properties() if time is not None else {})


def _metadata_properties(partitions: Sequence[str]) -> dict[str, str]:
    if not partitions:
        return {}
    return {
        METADATA_PARTITIONS: ",".join(sorted(partitions)),
        METADATA_PARTITIONS_INFLIGHT: "",
        INDEX_DEFINITIONS: INDEX_DEFINITIONS_PATH,
    }


def _check_name(name: str) -> None:
    """Refuse a name that is not plain ASCII or has control characters.

    Raises:
        InvalidRequest: names the table.
    """
    if not name.isascii() or not name.isprintable() or not name.strip() or any(c in name for c in "/\\ "):
        raise InvalidRequest(
            f"table name {name!r} cannot be used",
            expected="printable ASCII without spaces or slashes",
            found=repr(name),
            next_step="choose another --name",
        )
