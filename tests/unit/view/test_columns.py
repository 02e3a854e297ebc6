"""Columns of files: names are parsed as one by one, and changes of partitions give what a dict gives."""

from __future__ import annotations

from collections.abc import Iterable
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from hudi_ops.files.names import child_log_name, data_path, log_file_name, parse_data_file, writer_of_child_log
from hudi_ops.view.columns import files as columns
from hudi_ops.view.columns.files import FileColumns, none_of
from hudi_ops.view.columns.names import BASE, CDC, parse_names
from hudi_ops.view.file_group import DataFile
from tests.bounds import bound

INSTANTS = st.sampled_from(["20261121021726755", "20261121021801002", "20261121021801", "00000000000001"])
GROUPS = st.sampled_from(["00000000-a-0", "00000001-b-0", "5c1f2d3e-0"])
TOKENS = st.sampled_from(["0-1-0", "12-20261121-21801002", "3-20261121-5"])
NAMES = st.one_of(
    st.builds(lambda group, token, instant: f"{group}_{token}_{instant}.parquet", GROUPS, TOKENS, INSTANTS),
    st.builds(log_file_name, GROUPS, INSTANTS, st.integers(1, 12), TOKENS),
    st.builds(lambda *each: log_file_name(*each) + ".cdc", GROUPS, INSTANTS, st.integers(1, 3), TOKENS),
    st.builds(child_log_name, GROUPS, INSTANTS, st.integers(1, 3), st.integers(0, 3), INSTANTS),
    st.builds(lambda group, instant: f".{group}_{instant}.log.3", GROUPS, INSTANTS),
    st.sampled_from([
        ".hoodie_partition_metadata",
        "_SUCCESS",
        "a.parquet",
        "a_1-1-1_2.orc",
        "",
        "a_1-1-1_2.parquet\n",
    ]),
    st.text(max_size=12),
)


@settings(max_examples=bound(100, 400, 20_000))
@given(st.lists(NAMES, max_size=12))
def test_names_are_parsed_as_one_by_one(names: list[str]) -> None:
    found, parsed = parse_names(pa.array(names, pa.string()))
    expected = {at: parts for at, name in enumerate(names) if (parts := parse_data_file(name)) is not None}
    assert found.tolist() == sorted(expected)
    of_each = zip(
        parsed.file_id.to_pylist(), parsed.instant.to_pylist(), parsed.kind, parsed.author.to_pylist(), strict=True
    )
    assert list(of_each) == [
        (
            one.file_id,
            one.instant,
            CDC if one.is_cdc else int(one.is_log),
            writer_of_child_log(one) if one.is_log else None,
        )
        for _, one in sorted(expected.items())
    ]
    assert BASE == 0


def _file(path: str, number: int) -> DataFile:
    name = f"{number % 7:08d}-x-0_0-0-0_2026112102172675{number % 10}.parquet"
    parts = parse_data_file(name)
    assert parts is not None
    return DataFile(path, data_path(path, name), parts.file_id, parts.instant, number)


Table = dict[str, list[DataFile]]


def _by_path(files: Iterable[DataFile]) -> list[DataFile]:
    return sorted({one.path: one for one in files}.values(), key=lambda one: one.path)


def _table(drawn: dict[str, set[int]]) -> Table:
    return {path: _by_path(_file(path, number) for number in sorted(numbers)) for path, numbers in drawn.items()}


TABLES = st.dictionaries(
    st.sampled_from(["", "a", "a/b", "b", "c=1", "z"]), st.sets(st.integers(1, 70), max_size=6), max_size=6
).map(_table)


@settings(max_examples=bound(100, 400, 20_000))
@pytest.mark.parametrize("few", [0, columns.FEW])
@given(TABLES, st.lists(st.tuples(TABLES, st.booleans()), max_size=4), st.sets(st.sampled_from(["", "a", "b", "none"])))
def test_changes_of_partitions_give_what_a_dict_gives(
    few: int, held: Table, changes: list[tuple[Table, bool]], wanted: set[str]
) -> None:
    with patch.object(columns, "FEW", few):
        _compare(held, changes, wanted)


def _compare(held: Table, changes: list[tuple[Table, bool]], wanted: set[str]) -> None:
    files, model = FileColumns.of_files(held), dict(held)
    for changed, adds in changes:
        other = FileColumns.of_files(changed)
        files = files.added(other) if adds else files.with_partitions(other)
        for path, own in changed.items():
            model[path] = _by_path([*model.get(path, ()), *own]) if adds else own
    assert files == model
    assert files.of_partitions(wanted) == {path: model.get(path, []) for path in wanted}
    every = [one for path in sorted(model) for one in sorted(model[path], key=lambda one: (one.file_id, one.path))]
    assert files.data_files() == every
    assert files.has([*(one.path for one in every), "none"]) == frozenset(one.path for one in every)
    assert files.are_in(files.filter(files.sizes > 35)).tolist() == [one.size_bytes > 35 for one in every]
    groups = {
        key: number for number, key in enumerate(dict.fromkeys((one.partition_path, one.file_id) for one in every))
    }
    assert files.groups.tolist() == [groups[one.partition_path, one.file_id] for one in every]
    words, places = files.instants
    assert [words[at] for at in places] == [one.instant for one in every]
    assert list(words) == sorted(set(words))


def test_no_files_are_no_files() -> None:
    assert none_of(["a"]) == {"a": []}
    assert none_of().count == 0
    assert none_of(["a"]).added(none_of(["b"])) == {"a": [], "b": []}
