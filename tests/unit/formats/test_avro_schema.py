"""Table schemas: ours equal Hudi's own, every real one reads, odd Arrow types are turned or refused by name."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.config.columns import META_COLUMNS
from hudi_ops.errors import Corrupt, InvalidRequest, Unsupported
from hudi_ops.formats import properties
from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.avro.schema import decimal_size_bytes, normalise, record_name, to_arrow, to_avro

ALL_KINDS = pa.schema([
    *(pa.field(name, pa.string()) for name in META_COLUMNS),
    pa.field("b", pa.bool_()),
    pa.field("i", pa.int32(), nullable=False),
    pa.field("l", pa.int64()),
    pa.field("f", pa.float32()),
    pa.field("d", pa.float64()),
    pa.field("s", pa.string()),
    pa.field("y", pa.binary()),
    pa.field("day", pa.date32()),
    pa.field("ms", pa.timestamp("ms", "UTC")),
    pa.field("us", pa.timestamp("us", "UTC")),
    pa.field("local_ms", pa.timestamp("ms")),
    pa.field("local_us", pa.timestamp("us"), nullable=False),
    pa.field("dec", pa.decimal128(10, 2)),
    pa.field("decs", pa.list_(pa.field("element", pa.decimal128(38, 38), nullable=False))),
    pa.field("m", pa.map_(pa.string(), pa.field("value", pa.list_(pa.field("element", pa.int64()))))),
    pa.field(
        "st", pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("st", pa.struct([("y", pa.string())]))])
    ),
])


def test_all_kinds_round_trip():
    assert normalise(ALL_KINDS) == ALL_KINDS
    again = to_arrow(json.dumps(to_avro(ALL_KINDS, "t")))
    assert again == ALL_KINDS
    assert [field.nullable for field in again] == [field.nullable for field in ALL_KINDS]


def test_every_real_footer_schema_is_reproduced_letter_by_letter(hudi_fixtures, hudi_fixture_names):
    """Arrow and back gives Hudi's own text, names of nested records and decimals included."""
    equal = 0
    for name in hudi_fixture_names:
        base = hudi_fixtures(name)
        for path in base.rglob("*.parquet"):
            text = (pq.read_metadata(path).metadata or {}).get(b"parquet.avro.schema", b"").decode()
            if text and "HoodieLSMTimelineInstant" not in text:
                table_name = json.loads(text)["namespace"].removeprefix("hoodie.")
                assert json.dumps(to_avro(to_arrow(text), table_name), separators=(",", ":")) == text
                equal += 1
    assert equal > 50


def test_every_schema_in_commits_and_properties_reads(hudi_fixtures, hudi_fixture_names):
    texts: set[str] = set()
    for name in hudi_fixture_names:
        for path in hudi_fixtures(name).rglob("*"):
            if path.name == "hoodie.properties":
                texts.add(properties.loads(path.read_bytes()).get("hoodie.table.create.schema", ""))
            elif path.is_file() and path.read_bytes()[:4] == b"Obj\x01":
                texts.add((avro.read_one(path.read_bytes()).get("extraMetadata") or {}).get("schema", ""))
    texts.discard("")
    for text in texts:
        assert len(to_arrow(text)) == len(json.loads(text)["fields"])
    assert any("HoodieMetadataRecord" in text for text in texts)
    assert len(texts) > 10


def test_a_file_read_by_arrow_has_the_schema_that_its_footer_says(hudi_fixtures):
    """Arrow's own reading of Hudi's Parquet and our reading of Hudi's Avro are two witnesses of one schema."""
    for path in hudi_fixtures("v9_mor_parquet_log").glob("p=*/*.parquet"):
        file = pq.ParquetFile(path)
        assert normalise(file.schema_arrow) == to_arrow(file.metadata.metadata[b"parquet.avro.schema"].decode())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pa.int8(), pa.int32()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.float16(), pa.float32()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary(16), pa.binary()),
        (pa.date64(), pa.date32()),
        (pa.timestamp("s"), pa.timestamp("ms")),
        (pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.decimal256(38, 2), pa.decimal128(38, 2)),
        (pa.decimal32(5, 2), pa.decimal128(5, 2)),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.uuid(), pa.string()),
        (pa.list_(pa.json_()), pa.list_(pa.string())),
        (pa.large_list(pa.int8()), pa.list_(pa.int32())),
        (pa.list_(pa.int8(), 3), pa.list_(pa.int32())),
        (pa.list_view(pa.uint32()), pa.list_(pa.int64())),
        (
            pa.struct([("a", pa.map_(pa.large_string(), pa.int8()))]),
            pa.struct([("a", pa.map_(pa.string(), pa.int32()))]),
        ),
    ],
    ids=str,
)
def test_types_become_what_a_table_holds(given, expected):
    schema = normalise(pa.schema([pa.field("c", given, metadata={"k": "v"})], metadata={"pandas": "{}"}))
    assert schema == pa.schema([("c", expected)])
    assert not schema.metadata
    assert not schema.field("c").metadata


REFUSED = [
    pa.duration("s"),
    pa.month_day_nano_interval(),
    pa.time32("s"),
    pa.time64("us"),
    pa.null(),
    pa.decimal256(39, 2),
    pa.decimal128(5, -1),
    pa.map_(pa.int32(), pa.string()),
    pa.struct([]),
    pa.dense_union([pa.field("a", pa.int32())]),
]


@pytest.mark.parametrize(
    ("wrap", "named"),
    [
        (lambda kind: kind, "'c'"),
        (lambda kind: pa.list_(pa.struct([("in", kind)])), r"'c\[\]\.in'"),
        (lambda kind: pa.map_(pa.string(), kind), r"'c\.value'"),
    ],
    ids=["plain", "in list and struct", "in map"],
)
def test_types_without_counterpart_are_refused_by_name(wrap, named):
    wrong = []
    for kind in REFUSED:
        try:
            wrong.append((kind, to_avro(pa.schema([("c", wrap(kind))]), "t")))
        except Unsupported as error:
            if not re.search(named, str(error)) or error.found != str(kind):
                wrong.append((kind, error))
    assert wrong == []


@pytest.mark.parametrize("name", ["", "a b", "1a", "a-b", "\u00fc", "a.b"])
def test_names_must_be_avro_names(name):
    with pytest.raises(InvalidRequest, match="cannot be the name of a column"):
        normalise(pa.schema([(name, pa.int32())]))
    with pytest.raises(InvalidRequest, match="cannot be the name of a column"):
        normalise(pa.schema([("s", pa.struct([(name, pa.int32())]))]))


def test_names_must_be_unique():
    with pytest.raises(InvalidRequest, match="twice"):
        normalise(pa.schema([("a", pa.int32()), ("a", pa.int32())]))


def test_record_name_is_masked_as_hudi_masks_it():
    assert record_name("trips") == ("trips_record", "hoodie.trips")
    assert record_name("9 a") == ("____a_record", "hoodie.____a")


def test_decimal_size_is_the_smallest_that_holds_all_digits():
    # Of a signed number, the first bit is its sign.
    least = {precision: (10**precision - 1).bit_length() // 8 + 1 for precision in range(1, 39)}
    assert {precision: decimal_size_bytes(precision) for precision in least} == least


def test_unions_in_either_order_and_of_several_types():
    fields = [
        {"name": "a", "type": ["string", "null"]},
        {"name": "b", "type": ["null", "int", "string"]},
        {"name": "c", "type": [{"type": "enum", "name": "e", "symbols": ["x"]}]},
    ]
    schema = to_arrow({"type": "record", "name": "r", "fields": fields})
    assert schema.field("a") == pa.field("a", pa.string(), nullable=True)
    assert pa.types.is_union(schema.field("b").type)
    assert schema.field("c") == pa.field("c", pa.string(), nullable=False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '"string"',
        "1",
        '{"type":"record"}',
        '{"type":"record","name":"r"}',
        '{"type":"record","name":"r","fields":[1]}',
        '{"type":"record","name":"r","fields":[{"name":"a","type":"text"}]}',
        '{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"fixed","name":"f","size":-1}}]}',
        '{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"bytes","logicalType":"decimal","precision":0}}]}',
        '{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"array"}}]}',
    ],
)
def test_other_text_is_corrupt(text):
    with pytest.raises(Corrupt, match=r"f\.parquet"):
        to_arrow(text, "f.parquet")


def test_recursion_is_unsupported():
    with pytest.raises(Unsupported, match="contains itself"):
        to_arrow({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "r"]}]})
