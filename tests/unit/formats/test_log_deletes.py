"""DELETE blocks: Apache Hudi's own, every branch of the ordering value against fastavro, and blocks that mix them."""

from __future__ import annotations

import datetime
import io
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from hudi_ops.errors import Corrupt, InvalidRequest, Unsupported
from hudi_ops.formats.log.blocks import BlockKind, scan_blocks
from hudi_ops.formats.log.deletes import WINDOW_BYTES, Deletes, decode_deletes, encode_deletes

PATH = "p=a/.f-0_1.log.1_0-0-0"
WRAPPED: list[tuple[str, Any]] = [
    ("BooleanWrapper", "boolean"),
    ("IntWrapper", "int"),
    ("LongWrapper", "long"),
    ("FloatWrapper", "float"),
    ("DoubleWrapper", "double"),
    ("BytesWrapper", "bytes"),
    ("StringWrapper", "string"),
    ("DateWrapper", "int"),
    ("DecimalWrapper", {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}),
    ("TimeMicrosWrapper", "long"),
    ("TimestampMicrosWrapper", "long"),
]
"""The branches behind null, in their order."""

_WRAPPERS = [{"type": "record", "name": name, "fields": [{"name": "value", "type": kind}]} for name, kind in WRAPPED]
_ARRAY = {
    "type": "record",
    "name": "ArrayWrapper",
    "fields": [
        {
            "name": "wrappedValues",
            "type": ["null", {"type": "array", "items": ["null", *(name for name, _ in WRAPPED)]}],
        }
    ],
}
SCHEMA = fastavro.parse_schema({
    "type": "record",
    "name": "HoodieDeleteRecordList",
    "fields": [
        {
            "name": "deleteRecordList",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "HoodieDeleteRecord",
                    "fields": [
                        {"name": "recordKey", "type": ["null", "string"]},
                        {"name": "partitionPath", "type": ["null", "string"]},
                        {"name": "orderingVal", "type": ["null", *_WRAPPERS, _ARRAY]},
                    ],
                },
            },
        }
    ],
})
DAY = datetime.date(2024, 2, 29)
MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 1, 7, tzinfo=datetime.UTC)
ORDERINGS = [
    pa.array([True, False, True]),
    pa.array([1, -5, 2**31 - 1], pa.int32()),
    pa.array([0, -(2**63), 2**63 - 1], pa.int64()),
    pa.array([0.5, -0.0, float("inf")], pa.float32()),
    pa.array([0.1, -0.0, float("-inf")], pa.float64()),
    pa.array([b"", b"\xff\x00", b"x" * 300]),
    pa.array(["", "\u00fc" * 100, "\u0002\u0002"]),
    pa.array([DAY, datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    pa.array([Decimal("1.5"), Decimal("-0.000000000000001"), Decimal(10**15 - 1)], pa.decimal128(30, 15)),
    pa.array([datetime.time(0), datetime.time(23, 59, 59, 999_999), datetime.time(1)], pa.time64("us")),
    pa.array([MOMENT, datetime.datetime(1, 1, 1, tzinfo=datetime.UTC), MOMENT], pa.timestamp("us", "UTC")),
]


def theirs(records: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, {"deleteRecordList": records})
    return struct.pack(">ii", 3, out.tell()) + out.getvalue()


def record(
    key: str | None, branch: str | None = None, value: Any = None, partition: str | None = "p=a"
) -> dict[str, Any]:
    ordering = None if branch is None else (branch, {"value": value})
    return {"recordKey": key, "partitionPath": partition, "orderingVal": ordering}


def raw(values: pa.Array) -> list[Any]:
    """As Avro has them: times are numbers."""
    if not pa.types.is_temporal(values.type):
        return values.to_pylist()
    return values.view(pa.int32() if values.type.bit_width == 32 else pa.int64()).to_pylist()


def told(deletes: Deletes) -> tuple[list[str], list[Any] | None]:
    return deletes.keys.to_pylist(), None if deletes.ordering is None else raw(deletes.ordering)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("v8_trips_8i3u1d_mor", {"e3cf430c-889d-4015-bc98-59bdce1e530c", "c8abbe79-8d89-47ea-b4ce-4d224bae5bfa"}),
        ("v9_bucket_simple", {"TXN-001"}),
        ("v9_mor_parquet_log", {"k0005", "k0030"}),
        ("v9_txns_nonpart_nometa_mor", {"TXN-002", "TXN-005"}),
        ("v9_txns_simple_meta_mor", {"TXN-002", "TXN-005"}),
    ],
)
def test_real_blocks(hudi_fixtures: Callable[[str], Path], name: str, keys: set[str]):
    table, found = hudi_fixtures(name), []
    for file in table.rglob(".*.log.*"):
        if ".hoodie" in file.relative_to(table).parts or file.name.endswith(".crc"):
            continue
        data = file.read_bytes()
        for span in scan_blocks(pa.BufferReader(data), PATH):
            if span.kind is BlockKind.DELETE:
                content = data[span.content_offset :][: span.content_bytes]
                (deletes,) = decode_deletes(content, PATH)
                assert deletes.ordering is None  # an IntWrapper of 0
                partition = file.parent.relative_to(table).as_posix()
                assert encode_deletes(deletes, "" if partition == "." else partition) == content
                found += deletes.keys.to_pylist()
    assert set(found) == keys


def test_real_empty_lists(hudi_fixtures: Callable[[str], Path]):
    metadata = hudi_fixtures("v9_txns_simple_meta_mor") / ".hoodie" / "metadata"
    seen = 0
    for file in metadata.rglob(".*.log.*"):
        data = file.read_bytes()
        for span in scan_blocks(pa.BufferReader(data), PATH):
            if span.kind is BlockKind.DELETE and len(span.headers) == 1:
                content = data[span.content_offset :][: span.content_bytes]
                assert decode_deletes(content, PATH) == []
                assert content == encode_deletes(Deletes(pa.array([], pa.string()), None), "") == theirs([])
                seen += 1
    assert seen > 0


@pytest.mark.parametrize(
    ("branch", "ordering"), list(zip(WRAPPED, ORDERINGS, strict=True)), ids=[name for name, _ in WRAPPED]
)
def test_every_branch_both_ways(branch: tuple[str, Any], ordering: pa.Array):
    name, kind = branch
    keys = pa.array(["", "k\u00fc", "x" * 200])
    values = ordering.to_pylist() if isinstance(kind, dict) else raw(ordering)
    records = [record(key, name, value) for key, value in zip(keys.to_pylist(), values, strict=True)]
    content = theirs(records)
    (found,) = decode_deletes(content, PATH)
    assert found.keys.equals(keys)
    assert found.ordering.equals(ordering)
    assert encode_deletes(Deletes(keys, ordering), "p=a") == content


@pytest.mark.parametrize(
    ("given", "branch"),
    [
        (pa.array([7], pa.int8()), 2),
        (pa.array([7], pa.int16()), 2),
        (pa.array([7], pa.uint16()), 2),
        (pa.array([7], pa.uint32()), 3),
        (pa.array(["7"], pa.large_string()), 7),
        (pa.array([b"7"], pa.large_binary()), 6),
        (pa.array([Decimal("7.1")], pa.decimal128(5, 1)), 9),
        (pa.array([7000], pa.timestamp("ms", "UTC")), 11),
        (pa.array([7], pa.timestamp("us")), 11),
    ],
)
def test_types_beside_them_take_the_branch_that_fits(given: pa.Array, branch: int):
    content = encode_deletes(Deletes(pa.array(["k"]), given), "")
    assert content[8 + 1 + 3 + 2] == 2 * branch
    (found,) = decode_deletes(content, PATH)
    assert found.ordering.cast(given.type).equals(given)


@pytest.mark.parametrize("given", [pa.array([[1]]), pa.array([7], pa.uint64()), pa.array([7], pa.duration("us"))])
def test_other_types_are_refused(given: pa.Array):
    with pytest.raises(Unsupported, match="ordering"):
        encode_deletes(Deletes(pa.array(["k"]), given), "")


def test_a_decimal_with_more_digits_than_the_block_has_is_refused():
    given = pa.array([Decimal(10**20)], pa.decimal128(38, 0))
    with pytest.raises(Unsupported, match="ordering"):
        encode_deletes(Deletes(pa.array(["k"]), given), "")


def test_unconditional_ones_are_written_as_hudi_writes_them():
    keys = pa.array(["a", "b"])
    for ordering in (
        None,
        pa.nulls(2, pa.int64()),
        pa.array([None, None], pa.int32()),
        pa.array([0, None], pa.int32()),
    ):
        content = encode_deletes(Deletes(keys, ordering), "p=a")
        assert content == theirs([record("a", "IntWrapper", 0), record("b", "IntWrapper", 0)])
        (found,) = decode_deletes(content, PATH)
        assert told(found) == (["a", "b"], None)


def test_null_beside_other_values_has_no_value_at_all():
    content = encode_deletes(Deletes(pa.array(["a", "b"]), pa.array([None, 5], pa.int64())), "p=a")
    assert content == theirs([record("a"), record("b", "LongWrapper", 5)])
    (found,) = decode_deletes(content, PATH)
    assert told(found) == (["a", "b"], [None, 5])


def test_a_long_of_zero_is_a_value():
    (found,) = decode_deletes(theirs([record("a", "LongWrapper", 0)]), PATH)
    assert told(found) == (["a"], [0])


def test_mixed_branches_come_as_runs_in_order():
    content = theirs([
        record("a"),
        record("b", "IntWrapper", 0),
        record("c", "LongWrapper", 3),
        record("d", "IntWrapper", 0),
        record("e", "LongWrapper", 4),
        record("f", "StringWrapper", "x"),
        record("g", "StringWrapper", "y"),
        record("h"),
        record("i", "LongWrapper", 0),
    ])
    assert [told(one) for one in decode_deletes(content, PATH)] == [
        (["a", "b", "c", "d", "e"], [None, None, 3, None, 4]),
        (["f", "g", "h"], ["x", "y", None]),
        (["i"], [0]),
    ]


def test_partition_paths_may_be_missing():
    (found,) = decode_deletes(theirs([record("a", partition=None), record("b", partition="")]), PATH)
    assert told(found) == (["a", "b"], None)


def test_lists_of_several_blocks():
    whole = theirs([record("a", "LongWrapper", 1), record("b", "LongWrapper", 2)])[9:-1]
    first = theirs([record("a", "LongWrapper", 1)])[9:-1]
    second = whole[len(first) :]
    size = bytes([2 * len(second)])  # of a block whose number is negative
    body = b"\x02" + first + b"\x01" + size + second + b"\x00"
    (found,) = decode_deletes(struct.pack(">ii", 3, len(body)) + body, PATH)
    assert told(found) == (["a", "b"], [1, 2])


def test_several_ordering_fields_are_refused():
    ordering = ("ArrayWrapper", {"wrappedValues": [("LongWrapper", {"value": 1}), None]})
    content = theirs([record("a", "LongWrapper", 1), {**record("b"), "orderingVal": ordering}])
    with pytest.raises(Unsupported) as caught:
        decode_deletes(content, PATH)
    assert "record 1" in caught.value.found
    assert PATH in str(caught.value)


@pytest.mark.parametrize("version", [1, 2, 4])
def test_other_versions_are_refused(version: int):
    with pytest.raises(Unsupported, match=PATH):
        decode_deletes(struct.pack(">ii", version, 0), PATH)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"", "no count"),
        (b"\x00\x00", "1 bytes behind"),
        (b"\xff" * 11, "no count"),
        (b"\x80\x80\x80\x80\x20" + bytes(20), "4294967296 records"),
        (b"\x02\x00\x00\x00\x00", "no key in record 0"),
        (b"\x02\x02\x02k\x00\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "broken record 0"),
        (b"\x02\x02\x7fk\x00\x00\x00", "broken record 0"),
        (b"\x02\x02\x01k\x00\x00\x00", "broken record 0"),
        (b"\x02\x02\x02k\x06\x00\x00", "broken record 0"),
        (b"\x02\x02\x02k\x00\x1a\x00", "broken record 0"),
        (b"\x02\x02\x02k\x00\x03\x00", "broken record 0"),
        (b"\x02\x02\x02k\x00\x08\x00\x00", "broken record 0"),
        (b"\x02\x02\x02\xff\x00\x00\x00", "key that is no text"),
        (b"\x02\x02\x02k\x00\x0e\x02\xff\x00", "ordering value that is no text"),
        (b"\x02\x02\x02k\x00\x02\x02\x00", "no boolean"),
        (b"\x02\x02\x02k\x00\x04\xfe\xff\xff\xff\xff\x01\x00", "a long"),
        (b"\x02\x02\x02k\x00\x12\x00\x00", "no decimal"),
        (b"\x02\x02\x02k\x00\x12\x1e\x7f" + bytes(14) + b"\x00", "no decimal"),
        (b"\x02\x02\x02k\x00\x14\x01\x00", "no time"),
        (b"\x04\x02\x02k\x00\x00\x00\x00\x00\x00\x00", "no key in record 1"),
        (b"\x01\x80\x01\x02\x02k\x00\x00\x00", "a block of 64 bytes"),
        (b"\x02\x02\x02k\x00\x00", "no count"),
    ],
)
def test_broken_lists(body: bytes, found: str):
    with pytest.raises(Corrupt) as caught:
        decode_deletes(struct.pack(">ii", 3, len(body)) + body, PATH)
    assert found in caught.value.found
    assert PATH in str(caught.value)


@pytest.mark.parametrize("content", [b"", bytes(7), struct.pack(">ii", 3, 2) + b"\x00", struct.pack(">ii", 3, -1)])
def test_broken_heads(content: bytes):
    with pytest.raises(Corrupt, match=PATH):
        decode_deletes(content, PATH)


def test_deletes_that_do_not_fit_together_are_refused():
    for keys, ordering in ((pa.array(["a", None]), None), (pa.array(["a"]), pa.array([1, 2]))):
        with pytest.raises(InvalidRequest):
            encode_deletes(Deletes(keys, ordering), "")


KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.just("\u0002\u0002\u0000\u0004")
VALUES = {
    "BooleanWrapper": st.booleans(),
    "IntWrapper": st.integers(-(2**31), 2**31 - 1),
    "LongWrapper": st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    "DoubleWrapper": st.floats(allow_nan=False),
    "BytesWrapper": st.binary(),
    "StringWrapper": KEYS,
    "DecimalWrapper": st.decimals(-(10**15) + 1, 10**15 - 1, places=15).map(Decimal),
}
RECORDS = st.lists(
    st.sampled_from(sorted(VALUES)).flatmap(
        lambda name: st.tuples(KEYS, st.just(name), VALUES[name]) | st.tuples(KEYS, st.none(), st.none())
    ),
    max_size=30,
)


@given(RECORDS, st.sampled_from([None, "", "p=\u00fc/q"]))
def test_any_records_are_read_in_order(records: list[tuple[str, str | None, Any]], partition: str | None):
    content = theirs([record(*each, partition=partition) for each in records])
    found = decode_deletes(content, PATH)
    assert [key for one in found for key in one.keys.to_pylist()] == [key for key, _, _ in records]
    ordering = [
        value for one in found for value in (raw(one.ordering) if one.ordering is not None else [None] * len(one.keys))
    ]
    assert ordering == [None if name == "IntWrapper" and value == 0 else value for _, name, value in records]
    for one in found:
        again = encode_deletes(one, partition or "")
        assert [told(each) for each in decode_deletes(again, PATH)] == [told(one)]


def test_blocks_larger_than_a_window_are_read_whole():
    keys = [f"key {n} " + "x" * (n % 90) for n in range(50_000)]
    records = [record(key, "LongWrapper" if n % 3 else None, n if n % 3 else None) for n, key in enumerate(keys)]
    content = theirs(records)
    assert len(content) > 3 * WINDOW_BYTES
    (found,) = decode_deletes(content, PATH)
    assert told(found) == (keys, [n if n % 3 else None for n in range(50_000)])
    assert encode_deletes(found, "p=a") == content
    broken = bytearray(content)
    broken[content.index(b"key 49000") - 2] = 7
    with pytest.raises(Corrupt) as caught:
        decode_deletes(bytes(broken), PATH)
    assert "record 49000" in caught.value.found


def test_a_key_larger_than_a_window_is_read():
    keys = ["a", "\u0002" * (2 * WINDOW_BYTES), "b"]
    (found,) = decode_deletes(theirs([record(key, "LongWrapper", 1) for key in keys]), PATH)
    assert told(found) == (keys, [1, 1, 1])


def test_very_many_blocks_of_one_record_are_refused():
    body = b"\x02\x02\x02k\x00\x00" * 20_000 + b"\x00"
    with pytest.raises(Unsupported, match=PATH):
        decode_deletes(struct.pack(">ii", 3, len(body)) + body, PATH)
    body = b"\x02\x02\x02k\x00\x00" * 500 + b"\x00"
    (found,) = decode_deletes(struct.pack(">ii", 3, len(body)) + body, PATH)
    assert told(found) == (["k"] * 500, None)
