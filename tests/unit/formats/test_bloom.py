"""The bloom filter: the bytes that Hadoop's own classes give, the answers that Hudi's own files need."""

from __future__ import annotations

import base64
import hashlib
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.errors import Corrupt, InvalidRequest
from hudi_ops.formats.parquet import footer as parquet_footer
from hudi_ops.formats.parquet.bloom import DYNAMIC_V0, SIMPLE, BloomFilter, decode_filter
from hudi_ops.formats.parquet.bloom_probe import may_contain

KEYS = [
    "a",
    "ab",
    "abc",
    "abcd",
    "abcde",
    "id-000001",
    "\u00fc",
    "\u00e4\u00f6\u00fc\u00df",
    "key:\u65e5\u672c\u8a9e",
    "\U0001f600x",
    "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    "year:2013,month:1,day:1,carrier:UA,flight:1545,origin:EWR,sched_dep_time:515",
]

# Written by org.apache.hadoop.util.bloom.{BloomFilter,DynamicBloomFilter} 3.4.1, murmur, with KEYS added in order.
HADOOP_SIMPLE = [
    (240, 10, "ffffffff0000000a01000000f0b0dfb8513a0324d801070041935a02c80a1c0919b6644b5080ec5616616a"),
    (101, 3, "ffffffff0000000301000000652618c54280616c420824018702"),
    (64, 30, "ffffffff0000001e0100000040ffffffffffffffff"),
]
HADOOP_DYNAMIC = (
    "ffffffff000000070100000078000000050000000200000003"
    "ffffffff00000007010000007800c018013b8520d00004804794200a"
    "ffffffff00000007010000007820051c5102a0640011842412155002"
    "ffffffff00000007010000007800081800000300000083c800030040"
)
# The same class with 1,000,003 bits, 10 hashes and the keys k0 to k49999.
HADOOP_LARGE_SHA256 = "24c9f41df2843a0c92910911bd7eaece90389c56d95e81d9124c39444860f957"


def _empty(bits: int, hashes: int) -> BloomFilter:
    return BloomFilter(bits, hashes, (np.zeros((bits + 7) // 8, np.uint8),))


def _bytes(bloom: BloomFilter) -> bytes:
    return base64.b64decode(bloom.encode()[1])


@pytest.mark.parametrize(("bits", "hashes", "expected"), HADOOP_SIMPLE)
def test_simple_bytes_are_hadoops(bits, hashes, expected):
    bloom = _empty(bits, hashes).with_keys(pa.array(KEYS))
    assert _bytes(bloom).hex() == expected
    assert decode_filter(*bloom.encode()) == bloom
    assert bloom.might_contain(pa.array(KEYS)).all()


def test_large_filter_is_hadoops():
    bloom = _empty(1_000_003, 10).with_keys(pa.array([f"k{number}" for number in range(50_000)]))
    assert hashlib.sha256(_bytes(bloom)).hexdigest() == HADOOP_LARGE_SHA256


def test_dynamic_filter_grows_as_hadoops():
    first = BloomFilter(120, 7, (np.zeros(15, np.uint8),), DYNAMIC_V0, 5, 0)
    bloom = first.with_keys(pa.array(KEYS))
    assert _bytes(bloom).hex() == HADOOP_DYNAMIC
    assert first.with_keys(pa.array(KEYS[:7])).with_keys(pa.array(KEYS[7:])) == bloom
    assert decode_filter(DYNAMIC_V0, base64.b64encode(bytes.fromhex(HADOOP_DYNAMIC)).decode()) == bloom
    assert bloom.count == 15
    assert bloom.might_contain(pa.array(KEYS)).all()


def test_sizes_are_hudis():
    default = BloomFilter.build(pa.array([], pa.string()), capacity=60_000, fpp=1e-9)
    assert (default.bits, default.hashes) == (2_587_966, 30)
    ours = BloomFilter.build(pa.array([], pa.string()), capacity=1000)
    assert (ours.bits, ours.hashes, ours.type_code) == (14_378, 10, SIMPLE)
    assert 990 <= ours.count <= 1000
    assert BloomFilter.build(pa.array([], pa.string()), capacity=0).bits > 0


def test_rate_is_kept_and_nothing_is_missed():
    keys = pa.array([str(uuid.UUID(int=number)) for number in range(20_000)])
    bloom = BloomFilter.build(keys, capacity=len(keys))
    assert bloom.might_contain(keys).all()
    others = pa.array([f"other-{number}" for number in range(100_000)])
    assert bloom.might_contain(others).mean() < 2e-3


def test_layout_of_the_array_does_not_matter():
    """Slices, chunks, dictionaries, views and lengths in any order give one filter, and answers in the order asked."""
    keys = pa.array([f"{number:x}" * (number % 9 + 1) for number in range(30_000)])
    expected = BloomFilter.build(keys, capacity=30_000)
    padded = pa.concat_arrays([pa.array(["x", "yy"]), keys])
    chunked = pa.chunked_array([keys.slice(0, 7), keys.slice(7, 0), keys.slice(7)])
    views = [
        padded.slice(2),
        keys.cast(pa.large_string()),
        keys.cast(pa.string_view()),
        keys.dictionary_encode(),
        chunked,
    ]
    for view in views:
        assert BloomFilter.build(view, capacity=30_000) == expected
    mixed = pa.array([
        key for pair in zip(keys.to_pylist(), range(30_000), strict=True) for key in (pair[0], f"no{pair[1]}")
    ])
    answers = expected.might_contain(mixed)
    assert answers[::2].all()
    assert answers[1::2].mean() < 5e-3


def test_adding_leaves_the_first_filter_alone():
    first = BloomFilter.build(pa.array(["a"]), capacity=100)
    before = first.encode()
    second = first.with_keys(pa.array(["b"]))
    assert first.encode() == before
    assert second.might_contain(pa.array(["a", "b"])).all()
    assert first.with_keys(pa.array([], pa.string())) == first


def test_very_long_and_empty_keys():
    keys = pa.array(["", "x" * 70_001, "y" * 70_002, "z"])
    assert BloomFilter.build(keys, capacity=4).might_contain(keys).all()


@pytest.mark.parametrize("keys", [pa.array(["a", None]), pa.array([1, 2]), pa.array([b"a"])])
def test_keys_must_be_text(keys):
    with pytest.raises(InvalidRequest, match="key"):
        BloomFilter.build(keys, capacity=2)


@pytest.mark.parametrize("fpp", [0.0, 1.0, -1.0, float("nan")])
def test_rate_must_be_a_rate(fpp):
    with pytest.raises(InvalidRequest, match="rate"):
        BloomFilter.build(pa.array(["a"]), capacity=1, fpp=fpp)


def test_every_real_file_answers_for_its_keys(hudi_fixtures, hudi_fixture_names):
    """Each real key hits in the filter that Hudi wrote for it, random keys do not, the bytes survive a round trip."""
    strangers = pa.array([str(uuid.UUID(int=number)) for number in range(50)])
    files = keys_asked = 0
    for name in hudi_fixture_names:
        for path in hudi_fixtures(name).rglob("*.parquet"):
            file = pq.ParquetFile(path)
            metadata = file.metadata.metadata or {}
            footer = parquet_footer.decode_footer(metadata, str(path))
            if footer.bloom is None:
                continue
            keys = file.read([RECORD_KEY]).column(RECORD_KEY)
            assert footer.bloom.might_contain(keys).all(), path
            assert not footer.bloom.might_contain(strangers).any(), path
            assert footer.bloom.encode()[1].encode() == metadata[b"org.apache.hudi.bloomfilter"]
            in_order = sorted(keys.to_pylist(), key=str.encode)
            assert (footer.min_key, footer.max_key) == (in_order[0], in_order[-1])
            files += 1
            keys_asked += len(keys)
    assert files == 94
    assert keys_asked > 400


@pytest.mark.parametrize(
    ("type_code", "data"),
    [
        ("SIMPLE", b""),
        ("SIMPLE", bytes.fromhex(HADOOP_SIMPLE[0][2])[:-1]),
        ("SIMPLE", bytes.fromhex(HADOOP_SIMPLE[0][2]) + b"\0"),
        ("SIMPLE", bytes.fromhex(HADOOP_DYNAMIC)),
        ("DYNAMIC_V0", bytes.fromhex(HADOOP_SIMPLE[0][2])),
        ("DYNAMIC_V0", bytes.fromhex(HADOOP_DYNAMIC)[:-1]),
        ("RIBBON", bytes.fromhex(HADOOP_SIMPLE[0][2])),
    ],
)
def test_other_bytes_are_corrupt(type_code, data):
    with pytest.raises(Corrupt, match=r"f\.parquet"):
        decode_filter(type_code, base64.b64encode(data).decode(), "f.parquet")
    with pytest.raises(Corrupt, match=r"f\.parquet"):
        may_contain(type_code, base64.b64encode(data), ("a",), "f.parquet")


def test_probe_reports_damage_where_it_looks():
    type_code, text = BloomFilter(8, 1, (np.full(1, 255, np.uint8),)).encode()
    for damaged in (b"?" + text.encode()[1:], text.encode()[:-4] + b"?===", text.encode()[:-1]):
        with pytest.raises(Corrupt, match=r"f\.parquet"):
            may_contain(type_code, damaged, ("a",), "f.parquet")
