"""Log records among themselves, and the one that is left of each key against the base rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from hudi_ops.errors import Unsupported
from hudi_ops.kernels.merging.log_merge import LogBaseJoin, LogEntries
from hudi_ops.kernels.merging.merge import Ordering
from hudi_ops.kernels.merging.ordering import ordering_of_deletes

EVENT, COMMIT = Ordering.EVENT_TIME, Ordering.COMMIT_TIME


def entries(*records: tuple[str, int | None, str]) -> LogEntries:
    """(key, ordering value, kind): `row`; `flagged`, a row that deletes; `delete`, or `always`, an unconditional one."""
    keys, ordering, kinds = ([record[at] for record in records] for at in range(3))
    return LogEntries(
        pa.array(keys, pa.string()),
        pa.array(ordering, pa.int64()),
        np.array([kind != "row" for kind in kinds], bool),
        np.array([kind in {"delete", "always"} for kind in kinds], bool),
        np.array([kind == "always" for kind in kinds], bool),
    )


def left(records: LogEntries, mode: Ordering) -> dict[str, int]:
    """The place of what is left of each key, where nothing else was; deletes are shown as rows."""
    shown = LogEntries(
        records.keys, records.ordering, np.zeros(len(records), bool), records.of_delete_block, records.is_unconditional
    )
    return {records.keys[place].as_py(): place for place in LogBaseJoin(shown, mode).taken().tolist()}


@pytest.mark.parametrize(
    ("records", "place"),
    [
        ([("k", 1, "row"), ("k", 1, "row")], 1),
        ([("k", 2, "row"), ("k", 1, "row")], 0),
        ([("k", None, "row"), ("k", 1, "row"), ("k", None, "row")], 1),
        ([("k", None, "row"), ("k", None, "row")], 1),
        ([("k", 2, "row"), ("k", 1, "delete")], 0),
        ([("k", 2, "delete"), ("k", 1, "row")], 0),
        ([("k", 2, "delete"), ("k", 2, "row")], 1),
        ([("k", 9, "row"), ("k", None, "always")], 1),
        ([("k", 9, "row"), ("k", None, "always"), ("k", 1, "row")], 2),
        ([("k", 9, "row"), ("k", None, "always"), ("k", None, "row")], 2),
        (
            [
                ("k", None, "always"),
                ("k", 5, "row"),
                ("k", 9, "row"),
                ("k", None, "always"),
                ("k", 2, "row"),
                ("k", 1, "row"),
            ],
            4,
        ),
        ([("k", 5, "row"), ("k", None, "always"), ("k", None, "always")], 2),
        # A delete of what is deleted says nothing; a row that deletes is a row.
        ([("k", None, "always"), ("k", 7, "delete")], 0),
        ([("k", None, "always"), ("k", 7, "delete"), ("k", 6, "row")], 2),
        ([("k", None, "always"), ("k", 5, "row"), ("k", 7, "delete"), ("k", 6, "row")], 2),
        ([("k", None, "always"), ("k", 7, "flagged"), ("k", 6, "row")], 1),
    ],
)
def test_by_event_time_the_larger_value_is_left(records: Sequence[tuple[str, int | None, str]], place: int) -> None:
    others = [("a", 1, "row"), *records, ("z", None, "always")]
    assert left(entries(*others), EVENT) == {"a": 0, "k": place + 1, "z": len(others) - 1}
    assert left(entries(*others), COMMIT) == {"a": 0, "k": len(records), "z": len(others) - 1}


def test_without_ordering_values_the_later_is_left() -> None:
    records = LogEntries(pa.array(["a", "b", "a"]), None, np.array([True, False, False]), *[np.zeros(3, bool)] * 2)
    assert left(records, EVENT) == {"a": 2, "b": 1}


def test_nothing_is_left_of_no_records() -> None:
    nothing = LogEntries.joined([], pa.int64())
    meeting = LogBaseJoin(nothing, EVENT)
    meeting.add(pa.array(["a"]), pa.array([1]))
    assert (len(nothing), meeting.keep_base(), meeting.taken().tolist()) == (0, None, [])


def met(records: LogEntries, base: Sequence[tuple[str, int | None]], mode: Ordering, runs: int = 1) -> LogBaseJoin:
    meeting = LogBaseJoin(records, mode)
    for part in np.array_split(np.arange(len(base)), runs):
        keys = pa.array([base[at][0] for at in part], pa.string())
        meeting.add(keys, pa.array([base[at][1] for at in part], pa.int64()))
    return meeting


@pytest.mark.parametrize("runs", [1, 3])
def test_what_is_left_meets_the_base(runs: int) -> None:
    records = entries(
        ("late", 1, "row"),
        ("equal", 5, "row"),
        ("new", 1, "row"),
        ("gone", 6, "delete"),
        ("kept", 4, "delete"),
        ("always", None, "always"),
        ("unknown", 1, "delete"),
        ("null", None, "row"),
        ("over null", None, "row"),
    )
    base = [
        ("x", 1),
        ("late", 5),
        ("equal", 5),
        ("gone", 5),
        ("kept", 5),
        ("always", 5),
        ("null", 5),
        ("over null", None),
    ]
    meeting = met(records, base, EVENT, runs)
    keep = meeting.keep_base()
    assert keep is not None
    assert [key for (key, _), stays in zip(base, keep, strict=True) if stays] == ["x", "late", "kept", "null"]
    assert meeting.taken().tolist() == [1, 2, 8]
    assert (meeting.inserted, meeting.updated, meeting.deleted, meeting.ignored) == (1, 2, 2, 3)


def test_by_commit_time_the_log_wins() -> None:
    meeting = met(entries(("a", 1, "row"), ("b", 1, "delete")), [("a", 5), ("b", 5), ("c", 5)], COMMIT)
    keep = meeting.keep_base()
    assert keep is not None
    assert (keep.tolist(), meeting.taken().tolist()) == ([False, False, True], [0])


def test_a_row_after_an_unconditional_delete_loses_to_a_newer_base_row() -> None:
    """As in both other readers: the delete is forgotten, and the old base row is back."""
    meeting = met(entries(("k", None, "always"), ("k", 3, "row")), [("k", 5)], EVENT)
    assert (meeting.keep_base(), meeting.taken().tolist(), meeting.ignored) == (None, [], 1)


def test_a_key_that_the_base_holds_twice_is_replaced_whole_or_not() -> None:
    both = [("k", 1), ("k", 9)]
    loses = met(entries(("k", 5, "row")), both, EVENT, 2)
    assert (loses.keep_base(), loses.taken().tolist()) == (None, [])
    wins = met(entries(("k", 9, "row")), both, EVENT, 2)
    keep = wins.keep_base()
    assert keep is not None
    assert (keep.tolist(), wins.taken().tolist()) == ([False, False], [0])


@pytest.mark.parametrize(
    ("values", "kind", "found"),
    [
        (pa.array([5, None], pa.int32()), pa.int64(), [5, None]),
        (pa.array([5], pa.int32()), pa.date32(), [5]),
        (pa.array([5], pa.int64()), pa.timestamp("us", "UTC"), [5]),
        (pa.array([5], pa.int64()), pa.timestamp("ms"), [5]),
        (pa.array([5000], pa.timestamp("us", "UTC")), pa.timestamp("ms"), [5]),
        (pa.array([5.5], pa.float32()), pa.float64(), [5.5]),
        (pa.array(["1.5"]).cast(pa.decimal128(30, 15)), pa.decimal128(6, 2), ["1.50"]),
    ],
)
def test_ordering_values_of_deletes_take_the_tables_type(
    values: pa.Array, kind: pa.DataType, found: Sequence[int | str | None]
) -> None:
    converted = ordering_of_deletes(values, kind)
    plain = (
        converted.view(pa.int32() if kind == pa.date32() else pa.int64()) if pa.types.is_temporal(kind) else converted
    )
    shown = plain.to_pylist()
    assert converted.type == kind
    assert [str(one) if isinstance(found[0], str) else one for one in shown] == list(found)


def test_ordering_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(Unsupported, match="do not fit"):
        ordering_of_deletes(pa.array(["x"]), pa.int64())
