"""Single promises of the merge; the random sequences are in tests/property/test_kernels.py."""

import numpy as np
import pyarrow as pa
import pytest

from hudi_ops.errors import InvalidRequest
from hudi_ops.kernels.merging.merge import Ordering, combine, existing, plan_append, plan_merge


def test_batch_without_duplicates_is_kept_whole() -> None:
    assert combine(pa.array(["a", "b"]), pa.array([2, 1]), Ordering.EVENT_TIME).to_pylist() == [0, 1]
    assert combine(pa.array([], pa.string()), None, Ordering.COMMIT_TIME).type == pa.int64()


def test_largest_ordering_value_wins_and_ties_go_to_the_last_row() -> None:
    keys = pa.array(["a", "b", "a", "b", "a", "c"])
    ordering = pa.array([9, None, 9, None, 5, None])
    assert combine(keys, ordering, Ordering.EVENT_TIME).to_pylist() == [2, 3, 5]
    assert combine(keys, ordering, Ordering.COMMIT_TIME).to_pylist() == [3, 4, 5]
    assert combine(keys, None, Ordering.EVENT_TIME).to_pylist() == [3, 4, 5]


def test_nan_and_negative_zero_order_as_in_java() -> None:
    keys = pa.array(["a", "a", "a", "b", "b"])
    ordering = pa.array([float("inf"), float("nan"), -1.0, 0.0, -0.0])
    assert combine(keys, ordering, Ordering.EVENT_TIME).to_pylist() == [1, 3]


def test_strings_and_dictionaries_as_ordering() -> None:
    ordering = pa.array(["10", "9", "9"]).dictionary_encode()
    assert combine(pa.array(["a", "a", "b"]), ordering, Ordering.EVENT_TIME).to_pylist() == [1, 2]
    assert combine(pa.array(["a", "a"]), pa.nulls(2), Ordering.EVENT_TIME).to_pylist() == [1]


def test_counts_of_every_outcome() -> None:
    plan = plan_merge(
        pa.chunked_array([["late", "gone"], ["same", "kept"]]),
        pa.chunked_array([[10, 10], [10, 10]]),
        pa.array(["new", "same", "late", "gone", "never", "new-delete-late"]),
        pa.array([1, 10, 9, 11, 1, None]),
        pa.array([False, None, False, True, True, True]),
        Ordering.EVENT_TIME,
    )
    assert plan.keep_base is not None
    assert plan.keep_base.tolist() == [True, False, False, True]
    assert plan.take_incoming.tolist() == [0, 1]
    counts = (plan.inserted, plan.updated, plan.deleted, plan.ignored, plan.missed_deletes)
    assert counts == (1, 1, 1, 1, 2)


def test_late_delete_loses_and_delete_without_ordering_column_does_not() -> None:
    base, incoming = pa.array(["a"]), pa.array(["a"])
    late = plan_merge(base, pa.array([5]), incoming, pa.array([4]), pa.array([True]), Ordering.EVENT_TIME)
    assert (late.keep_base, late.deleted, late.ignored) == (None, 0, 1)
    sure = plan_merge(base, pa.array([5]), incoming, None, pa.array([True]), Ordering.EVENT_TIME)
    assert sure.keep_base is not None
    assert (sure.keep_base.tolist(), sure.deleted, len(sure.take_incoming)) == ([False], 1, 0)


@pytest.mark.parametrize(("old", "new", "wins"), [(5, None, False), (None, 5, True), (None, None, True), (5, 5, True)])
def test_nulls_are_smaller_than_values(old: int | None, new: int | None, wins: bool) -> None:
    plan = plan_merge(
        pa.array(["a"]),
        pa.array([old], pa.int64()),
        pa.array(["a"]),
        pa.array([new], pa.int64()),
        None,
        Ordering.EVENT_TIME,
    )
    assert (plan.updated, plan.ignored) == ((1, 0) if wins else (0, 1))


def test_base_with_a_key_twice_is_replaced_only_when_all_its_rows_lose() -> None:
    base = pa.array(["a", "a"])
    loses = plan_merge(base, pa.array([1, 9]), pa.array(["a"]), pa.array([5]), None, Ordering.EVENT_TIME)
    assert (loses.keep_base, len(loses.take_incoming)) == (None, 0)
    wins = plan_merge(base, pa.array([1, 9]), pa.array(["a"]), pa.array([9]), None, Ordering.EVENT_TIME)
    assert wins.keep_base is not None
    assert (wins.keep_base.tolist(), wins.updated) == ([False, False], 1)


def test_key_types_may_differ_and_ordering_types_must_fit() -> None:
    base = pa.array(["a", "b"], pa.large_string()).dictionary_encode()
    plan = plan_merge(
        base, pa.array([1, 1], pa.int64()), pa.array(["b"]), pa.array([2], pa.int32()), None, Ordering.EVENT_TIME
    )
    assert plan.keep_base is not None
    assert plan.keep_base.tolist() == [True, False]
    with pytest.raises(InvalidRequest, match="ordering values"):
        plan_merge(pa.array(["b"]), pa.array([1]), pa.array(["b"]), pa.array(["x"]), None, Ordering.EVENT_TIME)


def test_existing_and_empty_sides() -> None:
    assert existing(pa.chunked_array([["a"], ["c"]]), pa.array(["b", "c", "a"])).tolist() == [False, True, True]
    nothing = pa.array([], pa.string())
    assert existing(nothing, pa.array(["a"])).tolist() == [False]
    assert existing(pa.chunked_array([], pa.string()), pa.array(["a"])).tolist() == [False]
    plan = plan_merge(pa.array(["a"]), pa.array([1]), nothing, pa.array([], pa.int64()), None, Ordering.EVENT_TIME)
    assert (plan.keep_base, plan.take_incoming.dtype, len(plan.take_incoming)) == (None, np.int64, 0)


def test_an_append_takes_every_row_that_does_not_delete() -> None:
    plan = plan_append(4, pa.array([None, True, False, True]))
    assert (plan.keep_base, plan.take_incoming.tolist()) == (None, [0, 2])
    assert (plan.inserted, plan.updated, plan.deleted, plan.ignored, plan.missed_deletes) == (2, 0, 0, 0, 2)
    assert plan_append(2, None).take_incoming.tolist() == [0, 1]
