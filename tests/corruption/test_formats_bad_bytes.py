"""Broken bytes: every cut, every flipped bit, empty and random input gives a value or `Corrupt`, never another error.

Formats without a checksum cannot notice every flip; where they can (lengths, markers, cuts), the test asks for it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from hudi_ops.errors import Corrupt
from hudi_ops.formats import partition_metadata, properties
from hudi_ops.formats.avro import container as avro, schema as avro_schema
from hudi_ops.formats.parquet import bloom, footer as parquet_footer
from hudi_ops.formats.parquet.bloom import DYNAMIC_V0, SIMPLE, BloomFilter
from hudi_ops.formats.timeline import timeline_schemas as schemas

PATH = "p=a/the-file"
PROPERTIES = properties.dumps({"hoodie.table.name": "t\u00fc", "b": "\U0001f600 x:"}, comment="Updated", now_ms=0)
PARTITION = partition_metadata.dumps("20261121021200131", 2, 0)
COMMIT = avro.write_one(
    schemas.COMMIT_METADATA,
    {
        "partitionToWriteStats": {"p=a": [{"fileId": "f-0", "numWrites": 3, "runtimeStats": {"totalScanTime": 1}}]},
        "extraMetadata": {"schema": "{}"},
    },
)
CLEAN = avro.write_one(schemas.CLEANER_PLAN, {"policy": "KEEP_LATEST_COMMITS", "partitionsToBeDeleted": ["p=a"]})
SIMPLE_BLOOM = BloomFilter.build(pa.array(["a", "b"]), capacity=4)
DYNAMIC_BLOOM = BloomFilter(40, 3, (SIMPLE_BLOOM.rows[0][:5],), DYNAMIC_V0, 2, 0).with_keys(pa.array(["a", "b", "c"]))
TABLE_SCHEMA = (
    b'{"type":"record","name":"t_record","namespace":"hoodie.t","fields":[{"name":"d","type":["null",{"type":"fixed",\
"name":"fixed","size":5,"logicalType":"decimal","precision":10,"scale":2}],"default":null},{"name":"a","type":{"type":"array",\
"items":"long"}},{"name":"t","type":{"type":"long","logicalType":"timestamp-micros"}}]}'
)


def _read_bloom(type_code: str) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        found = bloom.decode_filter(type_code, base64.b64encode(data).decode(), PATH)
        found.might_contain(pa.array(["a", "longer key"]))
        return found

    return read


def _read_footer(data: bytes) -> Any:
    return parquet_footer.decode_footer(
        {b"org.apache.hudi.bloomfilter": data, b"hoodie_min_record_key": data, b"parquet.avro.schema": data}, PATH
    )


def _read_schema(data: bytes) -> Any:
    return avro_schema.to_arrow(data.decode("latin-1"), PATH)


def _raw(found: BloomFilter) -> bytes:
    return base64.b64decode(found.encode()[1])


READERS: dict[str, tuple[bytes, Callable[[bytes], Any]]] = {
    "properties": (PROPERTIES, lambda data: properties.loads(data, PATH)),
    "partition metadata": (PARTITION, lambda data: partition_metadata.loads(data, PATH)),
    "commit": (COMMIT, lambda data: avro.read_one(data, PATH)),
    "clean": (CLEAN, lambda data: avro.read_one(data, PATH)),
    "simple bloom": (_raw(SIMPLE_BLOOM), _read_bloom(SIMPLE)),
    "dynamic bloom": (_raw(DYNAMIC_BLOOM), _read_bloom(DYNAMIC_V0)),
    "footer": (SIMPLE_BLOOM.encode()[1].encode(), _read_footer),
    "table schema": (TABLE_SCHEMA, _read_schema),
}
ALL = pytest.mark.parametrize("name", READERS)


def _value_or_corrupt(read: Callable[[bytes], Any], data: bytes) -> bool:
    """True for a value; any exception but a complete `Corrupt` fails the test."""
    try:
        read(data)
    except Corrupt as error:
        is_complete = all((PATH in error.what, error.expected, error.found, error.next_step))
        if not is_complete:
            raise
        return False
    return True


def _flips(data: bytes) -> Iterator[bytes]:
    for at in range(len(data)):
        for bit in range(8):
            yield data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


@ALL
def test_whole_bytes_read(name):
    data, read = READERS[name]
    read(data)


@ALL
def test_every_cut(name):
    data, read = READERS[name]
    survivors = [cut for cut in range(len(data)) if _value_or_corrupt(read, data[:cut])]
    # Lines of text can be cut unnoticed; binary forms and JSON know where they end.
    assert name in ("properties", "partition metadata") or survivors == []


@ALL
def test_every_flipped_bit(name):
    data, read = READERS[name]
    noticed = sum(not _value_or_corrupt(read, flipped) for flipped in _flips(data))
    assert noticed > 0


@ALL
def test_trailing_bytes(name):
    data, read = READERS[name]
    survived = _value_or_corrupt(read, data + b"\x00")
    assert not survived


@ALL
@given(data=st.binary(max_size=200))
def test_random_bytes(name, data):
    _, read = READERS[name]
    _value_or_corrupt(read, data)


@ALL
@given(drawn=st.data())
def test_random_damage(name, drawn):
    """Several bytes replaced, inserted and dropped at once."""
    data, read = READERS[name]
    at = drawn.draw(st.integers(0, len(data)))
    dropped = drawn.draw(st.integers(0, 20))
    _value_or_corrupt(read, data[:at] + drawn.draw(st.binary(max_size=20)) + data[at + dropped :])


ATTRIBUTES = st.sampled_from([
    "type",
    "name",
    "namespace",
    "fields",
    "items",
    "values",
    "size",
    "logicalType",
    "precision",
    "scale",
    "symbols",
])
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
WORDS = st.sampled_from(["record", "fixed", "enum", "array", "map", "bytes", "decimal", "long", "null", "type"])


@given(st.recursive(SCALARS | WORDS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ATTRIBUTES, inner)))
def test_schemas_that_are_json_but_not_avro(schema):
    text = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": schema}]})
    _value_or_corrupt(_read_schema, text.encode())


def test_zeros_after_a_power_cut_are_corrupt():
    for name, (data, read) in READERS.items():
        assert not _value_or_corrupt(read, bytes(len(data))), name
