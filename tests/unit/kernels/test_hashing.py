"""Java hashes and buckets against answers of Apache Hudi 1.1.1 (BucketVectors.java) and those in docs/format §10.1."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.kernels.keys.hashing import bucket_hash_values, bucket_ids, group_hash, java_string_hash

VECTORS = json.loads((Path(__file__).parent / "bucket_vectors.json").read_text())


def bucket(key: str, fields: list[str], count: int) -> int:
    return int(bucket_ids(bucket_hash_values(pa.array([key]), fields), count)[0])


def test_string_hash_equals_java() -> None:
    texts, hashes = zip(*VECTORS["hashes"], strict=True)
    assert java_string_hash(pa.array(texts)).tolist() == list(hashes)
    assert java_string_hash(pa.array(texts, pa.large_string())).tolist() == list(hashes)
    assert java_string_hash(pa.array(["before", *texts], pa.large_string()).slice(1)).tolist() == list(hashes)
    assert java_string_hash(pa.array(texts).dictionary_encode()).tolist() == list(hashes)
    assert java_string_hash(pa.chunked_array([texts[:5], texts[5:]])).tolist() == list(hashes)
    assert java_string_hash(pa.array(texts).slice(7)).tolist() == list(hashes)[7:]


def test_null_hashes_to_zero_as_in_a_java_list() -> None:
    assert java_string_hash(pa.array(["a", None])).tolist() == [97, 0]
    assert java_string_hash(pa.array(["a", None]).dictionary_encode()).tolist() == [97, 0]
    assert java_string_hash(pa.array([None], pa.string()).dictionary_encode()).tolist() == [0]
    assert java_string_hash(pa.array([], pa.string())).tolist() == []


@pytest.mark.parametrize("count", sorted({vector[2] for vector in VECTORS["buckets"]}))
def test_single_keys_go_to_apache_hudis_bucket(count: int) -> None:
    vectors = [vector for vector in VECTORS["buckets"] if vector[2] == count]
    assert len(vectors) > 100
    for key, fields, _, expected in vectors:
        if expected == "hangs":
            with pytest.raises(Unsupported, match="never ends") as caught:
                bucket(key, fields.split(","), count)
            assert caught.value.details["record_key"] == key
        else:
            assert bucket(key, fields.split(","), count) == expected, (key, fields)


def test_keys_of_all_shapes_in_one_column() -> None:
    for fields in sorted({vector[1] for vector in VECTORS["buckets"]}):
        vectors = [vector for vector in VECTORS["buckets"] if vector[1] == fields and vector[3] != "hangs"]
        values = bucket_hash_values(pa.chunked_array([[vector[0] for vector in vectors]]), fields.split(","))
        for count in {vector[2] for vector in vectors}:
            buckets = bucket_ids(values, count)
            assert all(buckets[i] == vector[3] for i, vector in enumerate(vectors) if vector[2] == count)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("TXN-001", (1, 5, 13, 77)),
        ("abc", (1, 1, 1, 129)),
        ("polygenelubricants", (3, 7, 15, 31)),
        ("日本", (2, 6, 6, 6)),
        ("", (3, 7, 15, 31)),
    ],
)
def test_vectors_of_the_format_facts(key: str, expected: tuple[int, ...]) -> None:
    assert tuple(bucket(key, ["id"], count) for count in (4, 8, 16, 256)) == expected


def test_composite_vectors_of_the_format_facts() -> None:
    assert bucket_ids([pa.array(["a"]), pa.array(["b"])], 2**31 - 1).tolist() == [4066]
    assert bucket("a:1,b:2", ["a", "b"], 8) == bucket("a:1,b:2", ["b", "a"], 8) == 2
    assert bucket("a:1,b:2", ["b"], 8) == 1
    assert bucket("a:x,y:1,b:2", ["a", "b"], 8) == 3
    assert bucket("a:__null__,b:__empty__", ["a", "b"], 8) == 1
    assert (bucket("id:7", ["id"], 8), bucket("id:7,8", ["id"], 8)) == (7, 2)


def test_parsed_values_follow_the_key() -> None:
    keys = pa.array(["a:1,b:x,y", "a:,b:日本"])
    assert [column.to_pylist() for column in bucket_hash_values(keys, ["b", "a"])] == [["1", ""], ["x,y", "日本"]]


def test_blocks_do_not_show() -> None:
    keys = pa.array([f"a:{i},b:{'é' if i % 70_000 == 0 else 'e'}" for i in range(150_000)])
    values = bucket_hash_values(keys, ["a", "b"])
    assert values[0].to_pylist() == [str(i) for i in range(150_000)]
    picks = [0, 1, 65_535, 65_536, 70_000, 149_999]
    alone = [bucket(keys[i].as_py(), ["a", "b"], 97) for i in picks]
    assert bucket_ids(values, 97)[picks].tolist() == alone


def test_bad_calls_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="number of buckets"):
        bucket_ids([pa.array(["a"])], 0)
    with pytest.raises(InvalidRequest, match="one length"):
        bucket_ids([pa.array(["a"]), pa.array(["a", "b"])], 4)
    with pytest.raises(InvalidRequest, match="one or more columns"):
        bucket_ids([], 4)


def test_group_hash_is_stable() -> None:
    assert group_hash("origin=EWR/month=1", 0) == 1755789104
    assert 0 <= group_hash("", 7) < 2**31
    assert bucket_ids(bucket_hash_values(pa.array([], pa.string()), ["id"]), 4).dtype == np.int32
