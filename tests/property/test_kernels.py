"""The kernels against models of a few lines: a dict for the merge, Java's definition for the hash."""

from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from hypothesis import given, strategies as st

from hudi_ops.kernels.keys.hashing import bucket_hash_values, bucket_ids, java_string_hash
from hudi_ops.kernels.keys.keys import KeySpec, PartitionSpec, partition_paths, record_keys
from hudi_ops.kernels.merging.merge import Ordering, combine, existing, plan_merge
from hudi_ops.kernels.merging.split import split_groups

KEYS = st.sampled_from(["a", "b", "c", "日本", "😀", "id:1,b:2", ""])
VALUES = st.none() | st.integers(0, 3)
BATCHES = st.lists(st.lists(st.tuples(KEYS, VALUES, st.booleans()), max_size=12), max_size=6)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)

Row = tuple[str, int | None, int]


def chunked(values: list[Any], kind: pa.DataType, cut: int) -> pa.ChunkedArray:
    cut = min(cut, len(values))
    return pa.chunked_array([pa.array(values[:cut], kind), pa.array(values[cut:], kind)])


def is_newer_or_equal(new: int | None, old: int | None, mode: Ordering) -> bool:
    return mode is Ordering.COMMIT_TIME or (-1 if new is None else new) >= (-1 if old is None else old)


@given(BATCHES, st.sampled_from(Ordering), st.integers(0, 5))
def test_batches_end_as_in_a_dict(batches: list[list[tuple[str, int | None, bool]]], mode: Ordering, cut: int) -> None:
    model: dict[str, tuple[int | None, int]] = {}
    table: list[Row] = []
    stamp = 0
    for batch in batches:
        rows = [(key, value, stamp + i, deletes) for i, (key, value, deletes) in enumerate(batch)]
        stamp += len(batch)
        keys = pa.array([row[0] for row in rows], pa.string())
        values = pa.array([row[1] for row in rows], pa.int64())
        winners = combine(keys, values, mode)
        chosen = [rows[i] for i in winners.to_pylist()]
        expected: dict[str, tuple[str, int | None, int, bool]] = {}
        for row in rows:
            if row[0] not in expected or is_newer_or_equal(row[1], expected[row[0]][1], mode):
                expected[row[0]] = row
        assert winners.to_pylist() == sorted(winners.to_pylist())
        assert {row[0]: row for row in chosen} == expected
        assert len(chosen) == len(expected)

        base_keys = chunked([row[0] for row in table], pa.string(), cut)
        plan = plan_merge(
            base_keys,
            chunked([row[1] for row in table], pa.int64(), cut),
            keys.take(winners),
            values.take(winners),
            pa.array([row[3] for row in chosen], pa.bool_()),
            mode,
        )
        known = existing(base_keys, keys.take(winners)).tolist()
        assert known == [row[0] in model for row in chosen]
        counts = dict.fromkeys(("inserted", "updated", "deleted", "ignored", "missed_deletes"), 0)
        for key, value, number, deletes in chosen:
            if key not in model:
                counts["missed_deletes" if deletes else "inserted"] += 1
            elif not is_newer_or_equal(value, model[key][0], mode):
                counts["ignored"] += 1
                continue
            else:
                counts["deleted" if deletes else "updated"] += 1
            if deletes:
                model.pop(key, None)
            else:
                model[key] = (value, number)
        assert {name: getattr(plan, name) for name in counts} == counts
        kept = [row for i, row in enumerate(table) if plan.keep_base is None or plan.keep_base[i]]
        table = kept + [chosen[i][:3] for i in plan.take_incoming.tolist()]
        assert {row[0]: row[1:] for row in table} == model
        assert len(table) == len(model)


@given(st.lists(st.none() | st.floats(width=64), max_size=20))
def test_floating_ordering_is_total(values: list[float | None]) -> None:
    def rank(value: float | None) -> tuple[int, float, float]:
        if value is None:
            return (0, 0.0, 0.0)
        return (2, 0.0, 0.0) if value != value else (1, value, np.copysign(1.0, value))

    winners = combine(pa.array(["k"] * len(values)), pa.array(values, pa.float64()), Ordering.EVENT_TIME).to_pylist()
    assert winners == ([max(range(len(values)), key=lambda i: (rank(values[i]), i))] if values else [])


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 70_000) | st.integers(0, 3)), max_size=60))
def test_split_holds_every_row_once(pairs: list[tuple[int, int]]) -> None:
    codes, buckets = np.array([p[0] for p in pairs], np.int32), np.array([p[1] for p in pairs], np.int32)
    groups = split_groups(codes, buckets)
    assert [(g.code, g.bucket) for g in groups] == sorted(set(pairs))
    for group in groups:
        assert group.rows.tolist() == [i for i, pair in enumerate(pairs) if pair == (group.code, group.bucket)]


@given(st.lists(TEXTS | st.text("aé日😀", max_size=4), max_size=30))
def test_string_hash_is_javas(texts: list[str]) -> None:
    def java(text: str) -> int:
        number, data = 0, text.encode("utf-16-be")
        for high, low in zip(data[::2], data[1::2], strict=True):
            number = (31 * number + (high << 8 | low)) & 0xFFFFFFFF
        return number - (1 << 32) if number >> 31 else number

    assert java_string_hash(pa.array(texts, pa.string())).tolist() == [java(text) for text in texts]


@given(st.lists(st.tuples(TEXTS.filter(bool), st.integers()), min_size=1, max_size=20), st.integers(1, 300))
def test_composite_keys_hash_by_their_values(rows: list[tuple[str, int]], count: int) -> None:
    # Values without marks and magic words: then parsing the key must give the fields back.
    names = [name.replace(",", ";").replace(":", ";").replace("__", "-") for name, _ in rows]
    data = pa.table({"n": names, "i": pa.array([number % 2**31 for _, number in rows], pa.int64())})
    values = bucket_hash_values(record_keys(data, KeySpec(("n", "i"), True)), ["n", "i"])
    assert values[0].to_pylist() == names
    assert (
        bucket_ids(values, count).tolist()
        == bucket_ids([pa.array(names), data["i"].combine_chunks().cast(pa.string())], count).tolist()
    )


@given(st.lists(st.none() | TEXTS.map(lambda text: text.replace("\0", "")), min_size=1, max_size=20))
def test_url_encoded_paths_decode_to_the_value(values: list[str | None]) -> None:
    values = [None if value == "" else value for value in values]
    encoded = partition_paths(pa.table({"p": pa.array(values, pa.string())}), PartitionSpec(("p",), True, True))
    paths = encoded.cast(pa.string()).to_pylist()
    assert [unquote(path.removeprefix("p=")) for path in paths] == [
        value or "__HIVE_DEFAULT_PARTITION__" for value in values
    ]
    assert not any("/" in path for path in paths)
    assert len(set(encoded.dictionary.to_pylist())) == len(encoded.dictionary)
