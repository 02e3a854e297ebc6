"""Avro schema of every record of a metadata table, for table versions 8 and 9.

It is byte for byte the schema of Apache Hudi. Version 9 has two things more: values that are lists (of several ordering
fields), and the type of a column's bounds. Source: docs/format §14.6.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

_TEXT: Final = {"type": "string", "avro.java.string": "String"}
_NO_DEFAULT: Final = object()


def _field(name: str, kind: Any, doc: str | None = None, default: Any = _NO_DEFAULT) -> dict[str, Any]:
    made = {"name": name, "type": kind}
    if doc is not None:
        made["doc"] = doc
    if default is not _NO_DEFAULT:
        made["default"] = default
    return made


def _nullable(name: str, kind: Any, doc: str) -> dict[str, Any]:
    return _field(name, ["null", kind], doc, None)


def _record(name: str, *fields: dict[str, Any], doc: str | None = None) -> dict[str, Any]:
    head = {"type": "record", "name": name}
    return {**head, "fields": list(fields)} if doc is None else {**head, "doc": doc, "fields": list(fields)}


_WRAPPERS: Final = (
    ("Boolean", "boolean", "boolean type"),
    ("Int", "int", "int type"),
    ("Long", "long", "long type"),
    ("Float", "float", "float type"),
    ("Double", "double", "double type"),
    ("Bytes", "bytes", "bytes type"),
    ("String", _TEXT, "string type"),
    ("Date", "int", "Date logical type"),
    ("Decimal", {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}, "Decimal logical type"),
    ("TimeMicros", {"type": "long", "logicalType": "time-micros"}, "Time-micros logical type"),
    ("TimestampMicros", "long", "Timestamp-micros logical type"),
    ("LocalDate", "int", "Local Date type"),
)
_WRAPPER_NAMES: Final = [f"{name}Wrapper" for name, _, _ in _WRAPPERS]


def _wrappers() -> list[dict[str, Any]]:
    why = "to be able to be used it w/in Avro's Union"
    return [
        _record(f"{name}Wrapper", _field("value", kind), doc=f"A record wrapping {what} {why}")
        for name, kind, what in _WRAPPERS
    ]


def _array_wrapper() -> dict[str, Any]:
    return _record(
        "ArrayWrapper",
        _nullable(
            "wrappedValues",
            {"type": "array", "items": ["null", *_WRAPPER_NAMES]},
            "An array where each element is one of the supported wrapper types.",
        ),
        doc="A record containing a list of wrapped values.",
    )


def _value_type() -> dict[str, Any]:
    return _nullable(
        "valueType",
        _record(
            "HoodieValueTypeInfo",
            _field("typeOrdinal", "int", "Enum type ordinal representing the value type"),
            _nullable("additionalInfo", _TEXT, "Optional additional information about the value type"),
        ),
        "Value type information containing enum ordinal and optional additional information",
    )


def _column_stats(version: int) -> dict[str, Any]:
    more = version >= 9
    defined = [*_wrappers(), *([_array_wrapper()] if more else [])]
    named = [*_WRAPPER_NAMES, *(["ArrayWrapper"] if more else [])]
    in_range = "value in the range. Based on user data table schema, we can convert"
    return _record(
        "HoodieMetadataColumnStats",
        _nullable("fileName", _TEXT, "File name for which this column statistics applies"),
        _nullable("columnName", _TEXT, "Column name for which this column statistics applies"),
        _field("minValue", ["null", *defined], f"Minimum {in_range} this to appropriate type", None),
        _field("maxValue", ["null", *named], f"Maximum {in_range} it to appropriate type", None),
        _nullable("valueCount", "long", "Total count of values"),
        _nullable("nullCount", "long", "Total count of null values"),
        _nullable("totalSize", "long", "Total storage size on disk"),
        _nullable("totalUncompressedSize", "long", "Total uncompressed storage size on disk"),
        _field("isDeleted", "boolean", "Column range entry valid/deleted flag"),
        _field("isTightBound", "boolean", "Whether the min/max range of a column is tight bound or not", False),
        *([_value_type()] if more else []),
        doc="Data file column statistics",
    )


def _bloom_filter() -> dict[str, Any]:
    return _record(
        "HoodieMetadataBloomFilter",
        _field("type", _TEXT, "Bloom filter type code"),
        _field("timestamp", _TEXT, "Instant timestamp when this metadata was created/updated"),
        _field("bloomFilter", "bytes", "Bloom filter binary byte array"),
        _field("isDeleted", "boolean", "Bloom filter entry valid/deleted flag"),
        doc="Data file bloom filter details",
    )


def _record_index() -> dict[str, Any]:
    pieces = "A UUID based fileId is stored as 3 pieces in RLI (fileIdHighBits, fileIdLowBits and fileIndex)."
    shape = "FileID format is {UUID}-{fileIndex}."
    applicable = "Applicable when the fileId is based on UUID format."
    encoding = (
        "Represents fileId encoding. Possible values are 0 and 1. O represents UUID based fileID, and 1 represents raw string"
        " format of the fileId. \nWhen the encoding is 0, reader can deduce fileID from fileIdLowBits, fileIdHighBits and"
        " fileIndex."
    )
    return _record(
        "HoodieRecordIndexInfo",
        _nullable("partitionName", _TEXT, "Refers to the partition name the record belongs to"),
        *(
            _nullable(
                f"fileId{half}Bits",
                "long",
                f"Refers to {half.lower()} 64 bits if the fileId is based on UUID format. \n{pieces} \n{shape}",
            )
            for half in ("High", "Low")
        ),
        _nullable(
            "fileIndex",
            "int",
            f"Index representing file index which is used to re-construct UUID based fileID. {applicable} \n{pieces} \n{shape}",
        ),
        _nullable(
            "fileId",
            _TEXT,
            "Represents fileId of the location where record belongs to. When the encoding is 1, fileID is stored in raw string"
            " format.",
        ),
        _nullable(
            "instantTime", "long", "Epoch time in millisecond representing the commit time at which record was added"
        ),
        _field("fileIdEncoding", "int", encoding, 0),
        _nullable(
            "position",
            "long",
            "Represents position of record within a file group for easier access. It will be used for index lookup.",
        ),
    )


def _file_map() -> list[Any]:
    info = _record(
        "HoodieMetadataFileInfo",
        _field("size", "long", "Size of the file"),
        _field("isDeleted", "boolean", "True if this file has been deleted"),
    )
    return ["null", {"type": "map", "values": info, "avro.java.string": "String"}]


_META_FIELDS: Final = ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")


@cache
def record_schema(version: int) -> str:
    """Return the Avro JSON of HoodieMetadataRecord, carried by HFiles and log blocks."""
    return _json([*(_nullable(f"_hoodie_{name}", "string", "") for name in _META_FIELDS), *_fields(version)])


def schema_version(schema: str) -> int:
    """Return the version of the tables whose records have this schema: 8, or else 9."""
    return 8 if schema == record_schema(8) else 9


@cache
def commit_schema(version: int) -> str:
    """Return `schema` of the metadata table's commits: the record without meta columns."""
    return _json(_fields(version))


def _json(fields: list[dict[str, Any]]) -> str:
    whole = {
        "type": "record",
        "name": "HoodieMetadataRecord",
        "namespace": "org.apache.hudi.avro.model",
        "doc": "A record saved within the Metadata Table",
        "fields": fields,
    }
    return json.dumps(whole, separators=(",", ":"))


def _fields(version: int) -> list[dict[str, Any]]:
    of_all, keys = "for all data files in the user table", "Metadata Index that contains information about"
    secondary = _record(
        "HoodieSecondaryIndexInfo", _field("isDeleted", "boolean", "True if this entry has been deleted")
    )
    return [
        _field("key", _TEXT),
        _field("type", "int", "Type of the metadata record"),
        _field("filesystemMetadata", _file_map(), "Contains information about partitions and files within the dataset"),
        _nullable("BloomFilterMetadata", _bloom_filter(), f"Metadata Index of bloom filters {of_all}"),
        _nullable("ColumnStatsMetadata", _column_stats(version), f"Metadata Index of column statistics {of_all}"),
        _nullable("recordIndexMetadata", _record_index(), f"{keys} record keys and their location in the dataset"),
        _nullable(
            "SecondaryIndexMetadata",
            secondary,
            f"{keys} secondary keys and the corresponding record keys in the dataset",
        ),
    ]
