"""Whatever is written is read back equal, for generated values; the bloom filter against a plain model of its hash."""

from __future__ import annotations

import base64
import json

import numpy as np
import pyarrow as pa
from hypothesis import given, settings, strategies as st

from hudi_ops.formats import partition_metadata, properties
from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.avro.schema import normalise, to_arrow, to_avro
from hudi_ops.formats.parquet import bloom, bloom_probe, footer as parquet_footer
from hudi_ops.formats.parquet.bloom import DYNAMIC_V0, SIMPLE, BloomFilter
from hudi_ops.formats.timeline import timeline_schemas as schemas
from tests.bounds import examples

NOW_MS = st.integers(0, 4_102_444_800_000)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NAMES = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,6}\Z")


@given(st.dictionaries(TEXT, TEXT, min_size=1), NOW_MS)
def test_properties(values, now_ms):
    data = properties.dumps(values, comment="Updated at some time", now_ms=now_ms)
    assert data.isascii()
    assert data.count(b"\n") == 2 + len(values)
    assert properties.loads(data) == values
    assert data == properties.dumps(dict(reversed(values.items())), comment="Updated at some time", now_ms=now_ms)


@given(st.from_regex(r"\A[0-9]{14}([0-9]{3})?\Z"), st.integers(0, 50), NOW_MS)
def test_partition_metadata(instant, depth, now_ms):
    value = partition_metadata.loads(partition_metadata.dumps(instant, depth, now_ms))
    assert (value.commit_time, value.depth) == (instant, depth)


LONGS = st.none() | st.integers(-(2**63), 2**63 - 1)
STATS = st.fixed_dictionaries(
    {"fileId": st.none() | TEXT, "numWrites": LONGS},
    optional={
        "path": TEXT,
        "logFiles": st.lists(TEXT, max_size=3),
        "cdcStats": st.dictionaries(TEXT, st.integers(0, 9), max_size=2),
    },
)
COMMITS = st.fixed_dictionaries(
    {},
    optional={
        "partitionToWriteStats": st.none() | st.dictionaries(TEXT, st.lists(STATS, max_size=3), max_size=3),
        "compacted": st.none() | st.booleans(),
        "extraMetadata": st.none() | st.dictionaries(TEXT, TEXT, max_size=3),
        "operationType": st.none() | TEXT,
    },
)


@given(COMMITS)
def test_commit_metadata(record):
    data = avro.write_one(schemas.COMMIT_METADATA, record)
    again = avro.read_one(data)
    assert again["version"] == 1
    for name in ("compacted", "extraMetadata", "operationType"):
        assert again[name] == record.get(name)
    for partition, stats in (record.get("partitionToWriteStats") or {}).items():
        for stat, read in zip(stats, again["partitionToWriteStats"][partition], strict=True):
            assert {key: value for key, value in read.items() if value is not None} == {
                key: value for key, value in stat.items() if value is not None
            }
    # Reading and writing again changes no byte: what was left out and what was null are the same, but for `version`.
    assert avro.write_one(schemas.COMMIT_METADATA, again) == data


LEAVES = st.sampled_from([
    *(pa.bool_(), pa.int8(), pa.uint32(), pa.int64(), pa.float16(), pa.float64(), pa.date32(), pa.date64()),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())),
    *(pa.binary(), pa.binary(4), pa.decimal128(38, 10), pa.decimal256(7, 0)),
    *(pa.timestamp("s"), pa.timestamp("ns", "+02:00"), pa.timestamp("us", "UTC")),
])


def _fields(kinds):
    field = st.builds(pa.field, NAMES, kinds, st.booleans())
    return st.lists(field, min_size=1, max_size=4, unique_by=lambda each: each.name)


def _nested(kinds):
    item = st.builds(pa.field, st.just("item"), kinds, st.booleans())
    return st.one_of(
        st.builds(pa.list_, item),
        st.builds(pa.large_list, item),
        st.builds(lambda value: pa.map_(pa.large_string(), value), item),
        _fields(kinds).map(pa.struct),
    )


@given(_fields(st.recursive(LEAVES, _nested, max_leaves=8)).map(pa.schema), st.text(min_size=1, max_size=8))
def test_table_schemas(schema, table_name):
    text = json.dumps(to_avro(schema, table_name))
    normal = normalise(schema)
    assert to_arrow(text) == normal
    assert normalise(normal) == normal
    assert to_avro(normal, table_name) == json.loads(text)


def _murmur2(data: bytes, seed: int) -> int:
    """The hash as Hadoop's documentation of the algorithm has it, one key at a time."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = seed ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    left = len(data) - whole
    for back in range(left, 0, -1):
        signed = data[-back] - 256 if data[-back] > 127 else data[-back]
        h ^= (signed << 8 * (back - 1)) & mask
    if left:
        h = h * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


@given(st.lists(TEXT, max_size=40), st.integers(1, 4000), st.integers(1, 12))
@settings(max_examples=examples(200))
def test_bloom_bits_are_the_models(keys, bits, hashes):
    expected = np.zeros((bits + 7) // 8, np.uint8)
    for key in keys:
        seed = 0
        for _ in range(hashes):
            seed = _murmur2(key.encode(), seed)
            bit = abs(seed - 2**32 if seed >= 2**31 else seed) % bits
            expected[bit >> 3] |= 1 << (bit & 7)
    empty = BloomFilter(bits, hashes, (np.zeros((bits + 7) // 8, np.uint8),))
    built = empty.with_keys(pa.array(keys, pa.string()))
    assert built.rows[0].tolist() == expected.tolist()
    assert built.might_contain(pa.array(keys, pa.string())).all()


@given(
    st.lists(TEXT, max_size=20),
    st.lists(TEXT, min_size=1, max_size=20),
    st.integers(1, 300),
    st.integers(1, 30),
    st.sampled_from([(SIMPLE, 0), (DYNAMIC_V0, 3)]),
)
def test_probe_of_the_text_answers_as_the_filter_does(keys, others, bits, hashes, kind):
    held = BloomFilter(bits, hashes, (np.zeros((bits + 7) // 8, np.uint8),), *kind).with_keys(
        pa.array(keys, pa.string())
    )
    type_code, text = held.encode()
    asked = (*keys, *others)
    found = bloom_probe.may_contain(type_code, text.encode(), asked)
    assert found.tolist() == held.might_contain(pa.array(asked)).tolist()


@given(st.lists(TEXT, max_size=60), st.integers(1, 20), st.integers(0, 60))
def test_dynamic_bloom_grows_and_round_trips(keys, row_capacity, split):
    start = BloomFilter(200, 3, (np.zeros(25, np.uint8),), DYNAMIC_V0, row_capacity, 0)
    grown = start.with_keys(pa.array(keys[:split], pa.string())).with_keys(pa.array(keys[split:], pa.string()))
    assert grown == start.with_keys(pa.array(keys, pa.string()))
    assert len(grown.rows) == max(1, -(-len(keys) // row_capacity))
    assert bloom.decode_filter(*grown.encode()) == grown
    assert grown.might_contain(pa.array(keys, pa.string())).all()


@given(st.lists(TEXT, min_size=1, max_size=20), TEXT)
def test_footers(keys, avro_schema):
    footer = parquet_footer.BaseFileFooter(
        BloomFilter.build(pa.array(keys), capacity=len(keys)),
        min(keys, key=str.encode),
        max(keys, key=str.encode),
        avro_schema,
    )
    values = {key.encode(): value.encode() for key, value in parquet_footer.encode_footer(footer).items()}
    assert parquet_footer.decode_footer(values) == footer
    base64.b64decode(values[b"org.apache.hudi.bloomfilter"], validate=True)
