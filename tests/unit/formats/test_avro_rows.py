"""Avro blocks: Apache Hudi's own bytes, what only rare writers do with lists, broken bytes, and what cannot be written."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from hudi_ops.errors import Corrupt, InvalidRequest, Unsupported
from hudi_ops.formats.avro.rows import AvroRows, encode_rows
from hudi_ops.formats.log.blocks import BlockKind, HeaderKey, scan_blocks

PATH = "p=a/.f-0_1.log.1_0-0-0"


def schema_of(*types: Any) -> str:
    fields = [{"name": f"f{at}", "type": kind} for at, kind in enumerate(types)]
    return json.dumps({"type": "record", "name": "r", "fields": fields})


def content_of(*records: bytes, count: int | None = None) -> bytes:
    body = b"".join(struct.pack(">i", len(each)) + each for each in records)
    return struct.pack(">ii", 3, len(records) if count is None else count) + body


def read(kind: Any, *records: bytes) -> list[Any]:
    found = AvroRows(content_of(*records), schema_of(kind), PATH).table()
    found.validate(full=True)
    return found.column("f0").to_pylist()


def long(value: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    return out.getvalue()


def text(value: str) -> bytes:
    return long(len(value.encode())) + value.encode()


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("v6_trips_8i1u_mor", 1),
        ("v8_trips_8i3u1d_mor", 3),
        ("v9_bucket_consistent_pending_resize", 330),
        ("v9_bucket_simple", 8),
        ("v9_mor_pending_compaction_clustering", 16),
        ("v9_txns_nonpart_nometa_mor", 3),
    ],
)
def test_real_blocks(hudi_fixtures: Callable[[str], Path], name: str, rows: int):
    table, seen = hudi_fixtures(name), 0
    for file in table.rglob(".*.log.*"):
        if ".hoodie" in file.relative_to(table).parts or file.name.endswith(".crc"):
            continue
        data = file.read_bytes()
        for span in scan_blocks(pa.BufferReader(data), PATH):
            if span.kind is BlockKind.AVRO_DATA:
                content, schema = data[span.content_offset :][: span.content_bytes], span.headers[HeaderKey.SCHEMA]
                found = AvroRows(content, schema, PATH)
                assert found.table().to_pylist() == theirs_read(content, schema)
                assert encode_rows(found.table(), schema) == content
                seen += len(found)
    assert seen == rows


def theirs_read(content: bytes, schema: str) -> list[dict[str, Any]]:
    parsed, found, at = fastavro.parse_schema(json.loads(schema)), [], 8
    assert struct.unpack_from(">i", content) == (3,)
    while at < len(content):
        (length,) = struct.unpack_from(">i", content, at)
        record = fastavro.schemaless_reader(io.BytesIO(content[at + 4 : at + 4 + length]), parsed, None)
        found.append({key: list(value.items()) if isinstance(value, dict) else value for key, value in record.items()})
        at += 4 + length
    assert struct.unpack_from(">i", content, 4) == (len(found),)
    return found


def test_integers_of_every_length():
    values = [0, -1, 1, 63, -64, 64, 2**31, -(2**31), *(2**n for n in range(63)), 2**63 - 1, -(2**63)]
    assert [one for one in values if read("long", long(one), long(0), long(one)) != [one, 0, one]] == []
    rows = {one: pa.table({"f0": pa.array([one, 0], pa.int64())}) for one in values}
    encoded = {one: encode_rows(rows[one], schema_of("long")) for one in values}
    assert [one for one in values if encoded[one] != content_of(long(one), long(0))] == []


def test_lists_in_several_blocks_with_and_without_their_size():
    items = b"".join(map(text, "abc"))
    several = long(2) + text("x") + text("y") + long(-3) + long(len(items)) + items + long(1) + text("z") + b"\x00"
    kind = {"type": "array", "items": "string"}
    assert read(kind, several, b"\x00", long(1) + text("q") + b"\x00") == [["x", "y", "a", "b", "c", "z"], [], ["q"]]
    nested = {"type": "array", "items": kind}
    assert read(nested, long(2) + several + b"\x00" + b"\x00", b"\x00") == [[["x", "y", "a", "b", "c", "z"], []], []]


def test_maps_in_several_blocks():
    kind = {"type": "map", "values": ["null", "long"]}
    pairs = text("b") + b"\x00"
    several = long(1) + text("a") + b"\x02" + long(7) + long(-1) + long(len(pairs)) + pairs + b"\x00"
    assert read(kind, b"\x00", several) == [[], [("a", 7), ("b", None)]]


LONG_LISTS: dict[str, tuple[Any, list[Any]]] = {
    "numbers": ("long", [n * n * n for n in range(30_000)]),
    "nullable numbers": (["null", "int"], [None if n % 3 == 0 else n for n in range(30_000)]),
    "texts": ("string", ["x" * (n % 300) for n in range(5_000)]),
    "doubles": ("double", [n / 7 for n in range(30_000)]),
    "nullable doubles": (["double", "null"], [None if n % 2 else n / 7 for n in range(30_000)]),
    "large texts": (["null", "string"], ["y" * 70_000, None, "z" * 200_000] * 100),
    "records": (
        {
            "type": "record",
            "name": "i",
            "fields": [{"name": "a", "type": "string"}, {"name": "b", "type": ["null", "long"]}],
        },
        [{"a": str(n), "b": None if n % 5 else n} for n in range(10_000)],
    ),
    "lists": ({"type": "array", "items": "int"}, [list(range(n % 4)) for n in range(1_000)]),
    "branches": (["long", "string", "null"], [n if n % 2 else str(n) for n in range(3_000)]),
}


@pytest.mark.parametrize("name", LONG_LISTS)
def test_long_lists_among_short_ones(name: str):
    kind, items = LONG_LISTS[name]
    rows = [items[:3], items, [], items[:300], *([items[:2]] * 20)]
    schema = schema_of({"type": "array", "items": kind}, "string")
    parsed = fastavro.parse_schema(json.loads(schema))
    records = []
    for at, row in enumerate(rows):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, {"f0": row, "f1": f"after {at}"})
        records.append(out.getvalue())
    found = AvroRows(content_of(*records), schema, PATH).table()
    assert found.column("f0").to_pylist() == rows
    assert found.column("f1").to_pylist() == [f"after {at}" for at in range(len(rows))]
    assert encode_rows(found, schema) == content_of(*records)


def test_damage_deep_in_a_long_list_is_told():
    kind = {"type": "array", "items": "string"}
    good = long(2000) + text("abc") * 2000 + b"\x00"
    broken = bytearray(good)
    broken[2 + 4 * 1500] = 0x7F  # a negative length
    with pytest.raises(Corrupt) as caught:
        read(kind, good, bytes(broken))
    assert caught.value.details["record"] == 1
    short = long(2000) + text("abc") * 1999
    with pytest.raises(Corrupt) as caught:
        read(kind, good, good, short)
    assert caught.value.details["record"] == 2


FIXED = {"type": "fixed", "name": "x", "size": 4}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


BROKEN: list[tuple[Any, bytes]] = [
    ("long", b"\xff" * 9 + b"\x7f"),
    ("long", b"\x80"),
    ("long", b""),
    ("long", b"\x02\x00"),
    ("int", long(2**31)),
    ("boolean", b"\x02"),
    ("float", b"\x00" * 3),
    ("double", b"\x00" * 7),
    (FIXED, b"\x00" * 3),
    ("string", long(2) + b"a"),
    ("string", long(-1)),
    ("string", long(2**62)),
    ("string", long(1) + b"\xff"),
    ("bytes", long(2**31)),
    (["null", "long"], b"\x04"),
    (["null", "long"], b"\x01"),
    (["null", "long"], b"\x02"),
    (["string", "long", "null"], b"\x06"),
    ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, b"\x04"),
    ({"type": "int", "logicalType": "time-millis"}, long(86_400_000)),
    (DECIMAL, b"\x00"),
    (DECIMAL, long(3) + b"\x01\x00\x00"),
    (DECIMAL, long(40) + b"\x01" + b"\x00" * 39),
    ({**FIXED, "logicalType": "decimal", "precision": 4}, b"\x7f\xff\xff\xff"),
    ({"type": "array", "items": "long"}, b"\x02\x02"),
    ({"type": "array", "items": "long"}, long(2**62)),
    ({"type": "array", "items": "null"}, long(2**62) + b"\x00"),
    ({"type": "array", "items": "long"}, long(-(2**63)) + long(1) + b"\x00"),
    ({"type": "array", "items": "long"}, long(-1) + long(100) + b"\x00\x00"),
    ({"type": "map", "values": "long"}, long(1) + text("a")),
    ({"type": "map", "values": "long"}, long(2**40) + text("a")),
]


def test_broken_records_are_told_by_number():
    wrong = []
    for kind, record in BROKEN:
        try:
            wrong.append((kind, record, read(kind, record)))
        except Corrupt as error:
            if error.details["record"] != 0 or PATH not in str(error) or not error.next_step:
                wrong.append((kind, record, error))
    assert wrong == []


def test_the_number_of_a_broken_record_counts_from_the_blocks_first():
    with pytest.raises(Corrupt, match="record 70000"):
        read("boolean", *([b"\x01"] * 70_000), b"\x03")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", Corrupt),
        (b"\x00\x00\x00\x03", Corrupt),
        (struct.pack(">ii", 2, 0), Unsupported),
        (struct.pack(">ii", 4, 0), Unsupported),
        (struct.pack(">ii", 3, -1), Corrupt),
        (struct.pack(">ii", 3, 2**31 - 1), Corrupt),
        (content_of(b"\x00", count=0), Corrupt),
        (content_of(b"\x00", count=2), Corrupt),
        (content_of(b"\x00", b"\x00", count=1), Corrupt),
        (content_of(b"\x00") + b"\x00", Corrupt),
        (content_of(b"\x00")[:-1], Corrupt),
        (struct.pack(">iii", 3, 1, -1) + b"\x00", Corrupt),
        (struct.pack(">iii", 3, 1, 2**31 - 1) + b"\x00", Corrupt),
        (content_of(b"\x00")[:-1] + bytes(3), Corrupt),
    ],
)
def test_broken_framing(content: bytes, error: type[Exception]):
    with pytest.raises(error, match=PATH):
        AvroRows(content, schema_of("long"), PATH)


@pytest.mark.parametrize(
    "schema",
    [
        "{",
        '"string"',
        schema_of({"type": "fixed", "name": "x", "size": -1}),
        schema_of({"type": "enum", "name": "x", "symbols": 3}),
        schema_of("another"),
        '{"type":"record","name":"r","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
        '{"type":"array","items":' * 400 + '"int"' + "}" * 400,
    ],
)
def test_broken_schemas(schema: str):
    with pytest.raises(Corrupt, match=PATH.rpartition("/")[2]):
        AvroRows(content_of(), schema, PATH)


def test_no_rows_have_columns():
    found = AvroRows(content_of(), schema_of(["null", "string"], {"type": "map", "values": "int"}), PATH).table()
    assert found.num_rows == 0
    assert found.schema.types == [pa.string(), pa.map_(pa.string(), pa.field("value", pa.int32(), False))]


def test_not_a_number_keeps_its_bits():
    bits = np.array([0x7FF8000000000001, 0xFFF0000000000002], np.uint64)
    rows = pa.table({"f0": bits.view(np.float64)})
    content = encode_rows(rows, schema_of("double"))
    assert content == content_of(*(one.tobytes() for one in bits))
    found = AvroRows(content, schema_of("double"), PATH).table().column("f0").chunk(0)
    assert found.view(pa.uint64()).to_numpy().tolist() == bits.tolist()


def test_dictionaries_and_slices_are_written_as_their_values():
    kinds = (["null", "string"], "string", {"type": "array", "items": ["null", "string"]}, ["null", "double"])
    plain = pa.table({
        "f0": pa.array(["a", None, "b", "a"]),
        "f1": pa.array(["x", "x", "x", "x"]),
        "f2": pa.array([["p"], [], ["q", None], ["r"]]),
        "f3": pa.array([1.5, None, None, 2.5]),
    })
    given = pa.table({name: plain.column(name) for name in plain.column_names})
    for name in ("f0", "f1"):
        place = given.schema.get_field_index(name)
        given = given.set_column(place, name, given.column(name).dictionary_encode())
    whole = encode_rows(plain, schema_of(*kinds))
    assert encode_rows(given, schema_of(*kinds)) == whole
    for start in range(4):
        part = AvroRows(encode_rows(given.slice(start, 2), schema_of(*kinds)), schema_of(*kinds), PATH).table()
        assert part.to_pylist() == plain.slice(start, 2).to_pylist()


def test_columns_are_found_by_name_and_cast():
    rows = pa.table({"f1": pa.array([7], pa.int32()), "f0": pa.array(["a"], pa.large_string())})
    assert encode_rows(rows, schema_of("string", "long")) == content_of(text("a") + long(7))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("long", pa.array([1, None])),
        ("long", pa.array(["a"])),
        ("int", pa.array([2**40])),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.array(["B"])),
        ({"type": "fixed", "name": "x", "size": 2}, pa.array([b"abc"])),
        ({"type": "fixed", "name": "x", "size": 1, "logicalType": "decimal", "precision": 9}, pa.array([999])),
        ({"type": "array", "items": "long"}, pa.array([[1, None]])),
        ({"type": "map", "values": "long"}, pa.array([[("a", None)]], pa.map_(pa.string(), pa.int64()))),
    ],
)
def test_values_that_do_not_fit_the_schema_are_refused(kind: Any, values: pa.Array):
    with pytest.raises(InvalidRequest, match="f0") as caught:
        encode_rows(pa.table({"f0": values}), schema_of(kind))
    assert caught.value.next_step


def test_missing_columns_are_refused():
    with pytest.raises(InvalidRequest, match="lack"):
        encode_rows(pa.table({"f0": [1]}), schema_of("long", "long"))


def test_lists_made_to_take_long_or_much_are_refused():
    many_blocks = (long(1) + b"\x00") * 5_000 + b"\x00"
    with pytest.raises(Unsupported, match=PATH):
        read({"type": "array", "items": "long"}, many_blocks)
    with pytest.raises(Corrupt, match=PATH):
        read({"type": "array", "items": "null"}, *([long(60_000) + b"\x00"] * 1000))
    assert read({"type": "array", "items": "null"}, long(3) + b"\x00", b"\x00") == [[None] * 3, []]


def test_many_short_lists_of_nothing_take_no_memory_without_end() -> None:
    # 50 kB of records, 650 million items: each list alone is below the bound.
    schema = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}'
    record = b"\x80\xfd\x07\x00"  # 65,344 items, then the end of the list
    content = struct.pack(">ii", 3, 10_000) + (struct.pack(">i", len(record)) + record) * 10_000
    with pytest.raises(Corrupt, match="damaged") as error:
        AvroRows(content, schema, "f").table()
    assert "more items" in str(error.value.found)


def test_a_small_schema_that_stands_for_very_many_columns_is_refused() -> None:
    schema = '{"type": "record", "name": "r0", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}]}'
    for level in range(1, 40):
        schema = (
            f'{{"type": "record", "name": "r{level}", "fields": '
            f'[{{"name": "a", "type": {schema}}}, {{"name": "b", "type": "r{level - 1}"}}]}}'
        )
    with pytest.raises(Unsupported, match="more columns"):
        AvroRows(struct.pack(">ii", 3, 0), schema, "f")
