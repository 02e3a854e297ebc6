"""Values of the metadata table's records: Avro around one field per partition.

A record of one partition has null in every field but its type and one other, so that all its bytes but those of that field
are the same. They are written as constants; reading skips the fields that are not needed. Source: docs/format §14.6.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import Corrupt
from hudi_ops.formats.avro.decode import Decoder, Lanes
from hudi_ops.formats.avro.encode import Piece, join
from hudi_ops.formats.avro.nodes import Form, Node, record_of
from hudi_ops.formats.avro.varints import PADDING, read_varints, spans, unzigzag
from hudi_ops.formats.large_arrays import in_pieces, joined
from hudi_ops.metadata.records.partitions import form_of, rebuild_command, record_type
from hudi_ops.metadata.records.schema import record_schema

_ORDER: Final = (
    "filesystemMetadata",
    "BloomFilterMetadata",
    "ColumnStatsMetadata",
    "recordIndexMetadata",
    "SecondaryIndexMetadata",
)
"""Fields of a record behind its type, in the order of the schema."""
_META_FIELDS: Final = 5
_NAME_FIELD: Final = 4
"""Position of `_hoodie_file_name`, the one meta field that Apache Hudi ever fills, in base files."""
_NULL: Final = b"\x00"
FIRST: Final = b"\x02"
"""The first branch after null of a union, which every nullable field is."""


def field_node(partition: str, version: int) -> Node:
    """Return the type of a partition's own field, without null."""
    return _inner(record_of(record_schema(version), "the schema of the metadata table"), partition)


def head_of(partition: str, kind: int | None = None) -> bytes:
    """Return the bytes of a value before its own field; `kind` is the partition's if it is None."""
    own = record_type(partition) if kind is None else kind
    return _NULL * (_META_FIELDS + 1) + bytes([2 * own]) + _NULL * _place(partition) + FIRST


def tail_of(partition: str) -> bytes:
    """Return the bytes of a value behind its own field."""
    return _NULL * (len(_ORDER) - 1 - _place(partition))


def _place(partition: str) -> int:
    return _ORDER.index(form_of(partition).field)


def framed(partition: str, body: list[Piece], rows: int) -> pa.BinaryArray:
    """Return whole values of one partition around the bytes of their own field."""
    return join([head_of(partition), *body, tail_of(partition)], rows)


def types_and_fields(partition: str, values: pa.BinaryArray, schema: str, where: str) -> tuple[pa.Int32Array, pa.Array]:
    """Return `type` and the partition's own field (structs, or maps for `files`) of each value.

    Raises:
        Corrupt: a value does not follow the schema.
    """
    node = record_of(schema, where)
    field = form_of(partition).field
    if field not in node.names or "type" not in node.names:
        raise Corrupt(
            f"The schema of {where} lacks fields of records of {partition}",
            expected=f"type and {field}",
            found=", ".join(node.names),
            next_step=f"run {rebuild_command(partition)}",
        )
    _refuse_other_fields(node.children[node.names.index(field)], partition, where)
    parts = in_pieces(values)
    if len(parts) > 1:
        read = [types_and_fields(partition, part, schema, where) for part in parts]
        types, fields = (pa.concat_arrays([each[at] for each in read]) for at in (0, 1))
        return types, fields
    (values,) = parts
    offsets = np.frombuffer(values.buffers()[1] or bytes(4), np.int32)[values.offset : values.offset + len(values) + 1]
    first, last = (int(offsets[0]), int(offsets[-1])) if len(values) else (0, 0)
    data = np.zeros(last - first + PADDING, np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(values.buffers()[2], np.uint8)[first:last]
    places = (offsets - first).astype(np.int64) if len(values) else np.zeros(1, np.int64)
    lanes = Lanes(places[:-1].copy(), places[1:], np.arange(len(values)))
    names, arrays = Decoder(data, where).records(node, lanes, {"type", field})
    found = dict(zip(names, arrays, strict=True))
    return found["type"], found[field]


def _refuse_other_fields(found: Node, partition: str, where: str) -> None:
    """Refuse a schema of other records.

    A flipped bit in a file's schema may leave a valid schema, of other records.

    Raises:
        Corrupt: a field of the partition's records is missing, or is of another type.
    """
    own = next((child for child in found.children if child.form is not Form.NULL), found)
    known = [field_node(partition, version) for version in (8, 9)]
    if any(own.arrow == field.arrow for field in known):
        return
    types: dict[str, list[pa.DataType]] = {}
    for field in known:
        for name, child in zip(field.names, field.children, strict=True):
            types.setdefault(name, []).append(child.arrow)
    held = {name: child.arrow for name, child in zip(own.names, own.children, strict=False)}
    # Version 8 has the fewest fields; those that a later one adds are ignored.
    wrong = [name for name in known[0].names if name not in held]
    wrong += [name for name, kind in held.items() if name in types and kind not in types[name]]
    if not wrong and own.form is known[0].form is Form.RECORD:
        return
    raise Corrupt(
        f"The schema of {where} is not that of records of {partition}",
        expected=", ".join(known[0].names) or str(known[0].arrow),
        found=f"another {', '.join(wrong)}" if wrong else str(own.arrow)[:200],
        next_step=f"run {rebuild_command(partition)}",
    )


def without_file_name(values: pa.BinaryArray) -> pa.BinaryArray:
    """Return values without file name, as in log files.

    Apache Hudi stores the base file's name in its values, which would be wrong in another file.
    """
    if not len(values):
        return values
    parts = in_pieces(values)
    if len(parts) > 1:
        return joined([without_file_name(part) for part in parts], pa.binary())
    (values,) = parts
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2], np.uint8)
    begins = offsets[:-1].astype(np.int64)
    is_named = data[np.minimum(begins + _NAME_FIELD, len(data) - 1)] != 0
    if not is_named.any():
        return values
    padded = np.zeros(len(data) + PADDING, np.uint8)
    padded[: len(data)] = data
    (which,) = np.nonzero(is_named)
    raw, after = read_varints(padded, begins[which] + _NAME_FIELD + 1)
    rest = begins + _META_FIELDS
    rest[which] = after + unzigzag(raw)
    bodies = spans(padded, rest, offsets[1:].astype(np.int64) - rest)
    return pc.binary_join_element_wise(pa.scalar(_NULL * _META_FIELDS, pa.binary()), bodies, b"")


def repeated(values: pa.Array, lengths: list[int]) -> pa.DictionaryArray:
    """Repeat each value as often as its length says, as a dictionary."""
    return pa.DictionaryArray.from_arrays(np.repeat(np.arange(len(values), dtype=np.int32), lengths), values)


def _inner(node: Node, partition: str) -> Node:
    union = node.children[node.names.index(form_of(partition).field)]
    return next(child for child in union.children if child.form is not Form.NULL)
