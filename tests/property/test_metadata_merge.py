"""Merged records of the metadata table against dicts: whatever came in whatever order, both say the same."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from hypothesis import example, given, strategies as st

from hudi_ops.files.statistics.statistics import ColumnRange, FileStatistics
from hudi_ops.metadata.reader.merge import compacted, is_order_free, merge
from hudi_ops.metadata.records.bloom_filters import bloom_filter_records, decoded_filters, removed_filters
from hudi_ops.metadata.records.file_lists import FileChanges, decoded_entries, files_records, listed_files
from hudi_ops.metadata.records.keys import ALL_PARTITIONS_KEY, bloom_filter_key, partition_name, partition_stats_key
from hudi_ops.metadata.records.partition_stats import partition_stats_records
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.record_index import decoded_locations, record_index_records
from hudi_ops.metadata.records.records import Records, deletes_only, empty
from hudi_ops.metadata.records.schema import record_schema
from hudi_ops.metadata.records.stored_ranges import StoredRanges

_PATHS = st.sampled_from(["", "p=1", "p=ä"])
_NAMES = st.sampled_from(["a", "b", ".c.log", "dé"])
_KEYS = st.sampled_from([f"k{at}" for at in range(8)] + ["", "é", "\U0001f600", "k"])
_VERSIONS = st.sampled_from([8, 9])


def _folded(partition: MetadataPartition, changes: list[Records], version: int) -> Records:
    """All changes, each merged with what came before it; twice the same base file does not matter."""
    state = empty(partition, record_schema(version))
    for at, change in enumerate(changes):
        state = merge(state, change, version=version)
        if at == len(changes) // 2:
            state = compacted(state, version=version)
            assert not len(state.deletes)
    keys = state.keys.to_pylist()
    assert keys == sorted(set(keys), key=str.encode)
    assert not set(keys) & set(state.deletes.to_pylist())
    return state


@st.composite
def _file_change(draw: st.DrawFn) -> dict[str, FileChanges]:
    made = {}
    for path in draw(st.lists(_PATHS, unique=True)):
        names = draw(st.lists(_NAMES, unique=True))
        cut = draw(st.integers(0, len(names)))
        added = {name: draw(st.integers(1, 1 << 40)) for name in names[:cut]}
        made[path] = FileChanges(added, names[cut:], draw(st.sampled_from([False, False, True])))
    return made


@given(st.lists(_file_change(), max_size=6), _VERSIONS)
def test_file_lists_are_merged_as_dicts_are(changes: list[dict[str, FileChanges]], version: int) -> None:
    expected: dict[str, dict[str, tuple[int, bool]]] = {}
    for change in changes:
        written = files_records(change, version=version)
        for name in written.deletes.to_pylist():
            expected.pop(name, None)
        for key, entries in _entries_of(change).items():
            _apply(expected.setdefault(key, {}), entries)
    state = _folded(MetadataPartition.FILES, [files_records(each, version=version) for each in changes], version)
    assert decoded_entries(state, "a test") == expected
    partitions = expected.get(ALL_PARTITIONS_KEY, {})
    listed = {partition_name(path): files for path, files in listed_files(state, "a test").items()}
    assert listed == {
        name: {file: size for file, (size, is_gone) in expected.get(name, {}).items() if not is_gone}
        for name, (_, is_gone) in partitions.items()
        if not is_gone
    }


@example({"": FileChanges({"a": 1})}, [{"": FileChanges(removed=["a"])}, {"": FileChanges(removed=["a"])}], 8)
@given(_file_change(), st.lists(_file_change(), min_size=1, max_size=5), _VERSIONS)
def test_file_lists_that_are_free_of_order_give_equal_bytes_in_either(
    before: dict[str, FileChanges], changes: list[dict[str, FileChanges]], version: int
) -> None:
    def joined_by(older: Records, newer: Records) -> Records:
        return merge(older, newer, version=version)

    base = compacted(files_records(before, version=version), version=version)
    blocks = [files_records(change, version=version) for change in changes]
    one_by_one, at_once = reduce(joined_by, blocks, base), joined_by(base, reduce(joined_by, blocks))
    if is_order_free(blocks, version=version):
        assert (one_by_one.keys, one_by_one.values) == (at_once.keys, at_once.values)


def test_blocks_that_delete_what_they_add_are_merged_one_by_one() -> None:
    base, added, removed = (
        files_records({"p": change}, version=9)
        for change in (FileChanges({"f": 5}), FileChanges({"f": 7, "g": 1}), FileChanges({}, ["f"]))
    )
    other = files_records({"p": FileChanges({"g": 2}, ["h"])}, version=9)
    assert not is_order_free([added, removed], version=9)
    assert is_order_free([added, other], version=9)  # `g` is added twice: the larger size counts in either order
    assert is_order_free([removed, other], version=9)
    at_once = merge(base, merge(added, removed, version=9), version=9)
    one_by_one = merge(merge(base, added, version=9), removed, version=9)
    assert listed_files(one_by_one, "a test") == {"p": {"g": 1}}
    assert listed_files(at_once, "a test") == {"p": {"f": 5, "g": 1}}


def _entries_of(change: Mapping[str, FileChanges]) -> dict[str, dict[str, tuple[int, bool]]]:
    made: dict[str, dict[str, tuple[int, bool]]] = {}
    for path, each in change.items():
        name = partition_name(path)
        if each.is_gone or each.added:
            made.setdefault(ALL_PARTITIONS_KEY, {})[name] = (0, each.is_gone)
        if not each.is_gone and (each.added or each.removed):
            gone = dict.fromkeys(each.removed, (0, True))
            made[name] = {**{file: (size, False) for file, size in each.added.items()}, **gone}
    return made


def _apply(state: dict[str, tuple[int, bool]], entries: Mapping[str, tuple[int, bool]]) -> None:
    for name, (size, is_gone) in entries.items():
        held = state.get(name)
        if held is not None and is_gone and not held[1]:
            del state[name]
        else:
            state[name] = (0, True) if is_gone else (max(size, held[0] if held else 0), False)


@st.composite
def _key_change(draw: st.DrawFn) -> tuple[dict[str, str], list[str]]:
    keys = draw(st.lists(_KEYS, unique=True))
    cut = draw(st.integers(0, len(keys)))
    file_ids = st.sampled_from([
        "00000003-6ed1-4afe-99b8-194a6eaad0d3-0",
        "9b86a19c-ffb7-4fcd-b6c5-14da3b9c95e2",
        "raw",
    ])
    return {key: draw(file_ids) for key in keys[:cut]}, keys[cut:]


@given(st.lists(_key_change(), max_size=6), _VERSIONS)
def test_record_indexes_are_merged_as_dicts_are(changes: list[tuple[dict[str, str], list[str]]], version: int) -> None:
    expected: dict[str, tuple[str, int]] = {}
    written = []
    for instant, (added, removed) in enumerate(changes):
        facts = [
            FileStatistics("p/x", "p", file_id, 1, False, added=pa.array([key], pa.string()))
            for key, file_id in added.items()
        ]
        facts.append(FileStatistics("p/y", "p", "other", 1, False, removed=pa.array(removed, pa.string())))
        written.append(record_index_records(facts, instant, version=version))
        expected.update({key: (file_id, instant) for key, file_id in added.items()})
        for key in removed:
            expected.pop(key, None)
    state = _folded(MetadataPartition.RECORD_INDEX, written, version)
    rows = decoded_locations(state, "a test").to_pylist()
    assert {row["key"]: (row["file_id"], row["instant_ms"]) for row in rows} == expected
    assert {row["partition_path"] for row in rows} <= {"p"}


@given(st.lists(st.tuples(st.lists(_NAMES, unique=True), st.lists(_NAMES, unique=True)), max_size=5), _VERSIONS)
def test_bloom_filters_are_merged_as_dicts_are(changes: list[tuple[list[str], list[str]]], version: int) -> None:
    expected: dict[str, str] = {}
    written = []
    for at, (added, removed) in enumerate(changes):
        facts = [FileStatistics(f"p/{name}", "p", "x", 1, False, bloom=f"{name}{at}") for name in added]
        written += [
            bloom_filter_records(facts, str(at), version=version),
            removed_filters([("p", name) for name in removed], version=version),
        ]
        expected.update({bloom_filter_key("p", name): f"{name}{at}" for name in added})
        for name in removed:
            expected.pop(bloom_filter_key("p", name), None)
    state = _folded(MetadataPartition.BLOOM_FILTERS, written, version)
    rows = decoded_filters(state, "a test").to_pylist()
    assert {row["key"]: row["filter"] for row in rows} == expected


@dataclass(frozen=True)
class _Range:
    least: Any
    greatest: Any
    nulls: int
    values: int


_TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "number": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "text": (pa.string(), st.text(max_size=3)),
    "double": (pa.float64(), st.floats(allow_nan=True)),
    "decimal": (pa.decimal128(9, 2), st.decimals(-1000, 1000, places=2)),
    "flag": (pa.bool_(), st.booleans()),
    "day": (pa.date32(), st.dates()),
}


def _rank(value: Any) -> Any:
    """Java's order of doubles: -0.0 below 0.0, NaN above all."""
    if not isinstance(value, float):
        return value
    return (math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1, value) if value == 0 else 0)


def _as_written(value: Any) -> Any:
    """Infinity stands for NaN: Apache Hudi passes over whatever has a bound of NaN."""
    return math.inf if isinstance(value, float) and math.isnan(value) else value


@st.composite
def _range_change(draw: st.DrawFn) -> tuple[bool, bool, dict[tuple[str, str], _Range]]:
    made = {}
    pairs = st.tuples(st.sampled_from(["p=1", "p=2"]), st.sampled_from(sorted(_TYPES)))
    for path, column in draw(st.lists(pairs, unique=True)):
        ends = sorted(draw(st.lists(_TYPES[column][1], max_size=3)), key=_rank)
        nulls = draw(st.integers(0, 5))
        both = (ends[0], ends[-1]) if ends else (None, None)
        made[path, column] = _Range(*both, nulls, nulls + len(ends))
    return draw(st.booleans()), draw(st.sampled_from([False, False, True])), made


@given(st.lists(_range_change(), max_size=6), _VERSIONS)
def test_partition_ranges_are_merged_as_dicts_are(
    changes: list[tuple[bool, bool, dict[tuple[str, str], _Range]]], version: int
) -> None:
    expected: dict[tuple[str, str], _Range] = {}
    written = []
    for tight, is_removal, ranges in changes:
        if is_removal:
            paths = {path for path, _ in ranges}
            gone = (partition_stats_key(column, path) for path in paths for column in _TYPES)
            written.append(deletes_only(MetadataPartition.PARTITION_STATS, gone, version=version))
            expected = {pair: held for pair, held in expected.items() if pair[0] not in paths}
            continue
        facts = [
            FileStatistics(f"{pair[0]}/x", pair[0], "x", 1, False, (_column_range(*pair, held),))
            for pair, held in ranges.items()
        ]
        written.append(partition_stats_records(facts, version=version, tight=tight))
        for pair, held in ranges.items():
            expected[pair] = held if tight or pair not in expected else _both(expected[pair], held)
    state = _folded(MetadataPartition.PARTITION_STATS, written, version)
    keys = {partition_stats_key(column, path): (path, column) for path in ("p=1", "p=2") for column in _TYPES}
    assert {keys[key] for key in state.keys.to_pylist()} == set(expected)
    stored = StoredRanges.read(state, "a test")
    for column, (kind, _) in _TYPES.items():
        for row in stored.of_column(column, kind).to_pylist():
            held = expected[row["name"], column]
            ends = [_rank(_as_written(end)) for end in (held.least, held.greatest)]
            assert [_rank(row[name]) for name in ("least", "greatest")] == ends
            assert (row["nulls"], row["values"]) == (held.nulls, held.values)


def _column_range(_path: str, column: str, held: _Range) -> ColumnRange:
    kind = _TYPES[column][0]
    return ColumnRange(column, pa.array([held.least], kind), pa.array([held.greatest], kind), held.nulls, held.values)


def _both(old: _Range, new: _Range) -> _Range:
    least = [each.least for each in (old, new) if each.least is not None]
    greatest = [each.greatest for each in (old, new) if each.greatest is not None]
    ends = (min(least, key=_rank), max(greatest, key=_rank)) if least else (None, None)
    return _Range(*ends, old.nulls + new.nulls, old.values + new.values)
