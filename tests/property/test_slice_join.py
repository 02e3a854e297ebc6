"""The join of log entries with base rows has one outcome, in memory and by any number of parts on disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from hypothesis import given, settings, strategies as st

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.slice import slice_join
from hudi_ops.files.slice.slice_join import ENTRY_BYTES, SliceSides, StreamLimits, join_slice
from hudi_ops.kernels.merging.log_merge import LogEntries
from hudi_ops.kernels.merging.merge import Ordering
from tests.bounds import examples

KEYS = st.sampled_from([f"{letter}{'é' * (n % 3)}{n}" for letter in "ab" for n in range(8)])
VALUES = st.none() | st.integers(0, 3)
KINDS = st.sampled_from(["row", "marked row", "delete", "unconditional delete"])
BLOCKS = st.lists(st.lists(st.tuples(KEYS, VALUES, KINDS), max_size=6), max_size=5)
GROUPS = st.lists(st.lists(st.tuples(st.none() | KEYS, VALUES), min_size=1, max_size=9), max_size=3)


class Logs:
    """Log files by their entries."""

    def __init__(self, blocks: list[list[tuple[str, int | None, str]]], compares: bool) -> None:
        self._blocks, self._kind = blocks, pa.int64() if compares else None

    def entry_parts(self) -> Iterator[LogEntries]:
        for block in self._blocks:
            kinds = np.array([kind for _, _, kind in block], object)
            yield LogEntries(
                pa.array([key for key, _, _ in block], pa.string()),
                pa.array([value for _, value, _ in block], self._kind) if self._kind is not None else None,
                kinds != "row",
                np.isin(kinds, ["delete", "unconditional delete"]),
                kinds == "unconditional delete",
            )

    @property
    def entries(self) -> LogEntries:
        return LogEntries.joined(list(self.entry_parts()), self._kind)


class Base:
    """Base file by the keys and ordering values of its row groups, of which a condition leaves the odd ones out."""

    def __init__(self, groups: list[list[tuple[str | None, int | None]]], may_hold_keys: bool) -> None:
        self._groups, self.may_hold_keys = groups, may_hold_keys
        self.row_groups = list(range(0, len(groups), 2))
        self.row_groups_in_file = len(groups)

    def rows_in(self, group: int) -> int:
        return len(self._groups[group])

    def columns(self, schema: pa.Schema, groups: list[int], batch_rows: int) -> Iterator[pa.Table]:
        for group in groups:
            keys, values = zip(*self._groups[group], strict=True)
            yield pa.table({RECORD_KEY: pa.array(keys, pa.string()), "ts": pa.array(values, pa.int64())}).select(
                schema.names
            )

    def heads(self, schema: pa.Schema, groups: list[int]) -> pa.Table:
        return pa.concat_tables([schema.empty_table(), *self.columns(schema, groups, 0)])


@settings(max_examples=examples(150))
@given(
    blocks=BLOCKS,
    groups=st.none() | GROUPS,
    by_event=st.booleans(),
    may_hold_keys=st.booleans(),
    parts=st.sampled_from([1, 2, 7, 256]),
    held=st.integers(0, 12),
)
def test_any_number_of_parts_has_the_outcome_of_memory(
    blocks: list[list[tuple[str, int | None, str]]],
    groups: list[list[tuple[str | None, int | None]]] | None,
    by_event: bool,
    may_hold_keys: bool,
    parts: int,
    held: int,
) -> None:
    mode = Ordering.EVENT_TIME if by_event else Ordering.COMMIT_TIME
    ordering = pa.field("ts", pa.int64()) if by_event else None
    rules = MergeRules("t", mode, ordering, None, pa.schema([(RECORD_KEY, pa.string())]), pa.schema([]), None)
    base: Any = Base(groups, may_hold_keys) if groups is not None else None
    logs: Any = Logs(blocks, by_event)
    sides = SliceSides(logs, base, rules, None)
    expected = join_slice(sides, None)
    with mock.patch.object(slice_join, "PARTS", parts):
        found = join_slice(sides, StreamLimits(held * ENTRY_BYTES))
    assert found.taken.tolist() == expected.taken.tolist()
    assert _mask(found.keep) == _mask(expected.keep)
    counts = ("inserted", "updated", "deleted", "ignored")
    assert [getattr(found, name) for name in counts] == [getattr(expected, name) for name in counts]


def _mask(keep: Any) -> list[bool] | None:
    return None if keep is None or keep.all() else keep.tolist()
