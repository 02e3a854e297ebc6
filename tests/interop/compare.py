"""Exact, order-insensitive comparison of Arrow tables from different readers, with a readable difference.

Readers differ in physical types for the same values (string views, dictionary encoding, timestamp units, decimal
precision, integer widths of what Avro stores as int): those are brought to one type first. A naive and a zoned
timestamp stay different, and so do null and empty.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops import Table
from hudi_ops.errors import InvalidRequest, Unsupported

META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
_SHOWN = 5


def assert_same_rows(left: pa.Table, right: pa.Table, *, with_meta: bool = False) -> None:
    """Asserts that both tables hold the same rows, each the same number of times, in any order.

    Args:
        left: one table, called `left` in the message.
        right: the other.
        with_meta: also compare the `_hoodie_*` meta columns that both tables have.
    """
    left_names, right_names = _compared(left, right, with_meta)
    assert set(left_names) == set(right_names), (
        f"columns differ: only left {sorted(set(left_names) - set(right_names))}, "
        f"only right {sorted(set(right_names) - set(left_names))}"
    )
    assert len(left_names) == len(set(left_names)), f"column names repeat: {left_names}"
    types = {
        name: _common_type(left.schema.field(name).type, right.schema.field(name).type, name) for name in left_names
    }
    left, right = _cast(left, types), _cast(right, types)
    if left.num_rows == right.num_rows and _sorted(left).equals(_sorted(right)):
        return
    # Not equal column by column: NaN, ties among nested values, or a real difference. Count whole rows.
    left_rows, right_rows = _row_counts(left), _row_counts(right)
    only_left, only_right = list((left_rows - right_rows).elements()), list((right_rows - left_rows).elements())
    if only_left or only_right:
        raise AssertionError(_difference(left, right, only_left, only_right))


def _compared(left: pa.Table, right: pa.Table, with_meta: bool) -> tuple[list[str], list[str]]:
    meta = [name for name in META_COLUMNS if name in left.column_names and name in right.column_names]
    assert meta or not with_meta, "with_meta asked for, but the tables share no meta column"
    kept = meta if with_meta else []

    def names(table: pa.Table) -> list[str]:
        return [name for name in table.column_names if name not in META_COLUMNS or name in kept]

    return names(left), names(right)


def _common_type(left: pa.DataType, right: pa.DataType, where: str) -> pa.DataType:
    """The one type in which both columns are compared; an assertion error when the types mean different things."""
    left, right = _canonical(left), _canonical(right)
    if pa.types.is_null(left) or left.equals(right):
        return right
    if pa.types.is_null(right):
        return left
    if pa.types.is_decimal(left) and pa.types.is_decimal(right):
        return pa.decimal256(76, max(left.scale, right.scale))
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        names = [field.name for field in left]
        other = [field.name for field in right]
        assert names == other, f"{where}: struct fields differ: {names} and {other}"
        return pa.struct([
            (name, _common_type(left.field(name).type, right.field(name).type, f"{where}.{name}")) for name in names
        ])
    if pa.types.is_list(left) and pa.types.is_list(right):
        return pa.list_(_common_type(left.value_type, right.value_type, f"{where}[]"))
    if pa.types.is_map(left) and pa.types.is_map(right):
        return pa.map_(
            _common_type(left.key_type, right.key_type, f"{where}.key"),
            _common_type(left.item_type, right.item_type, f"{where}.value"),
        )
    raise AssertionError(f"column {where}: left is {left}, right is {right}")


def _canonical(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_dictionary(kind):
        return _canonical(kind.value_type)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_fixed_size_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_integer(kind):
        return pa.int64()
    if types.is_floating(kind):
        return pa.float64()  # a widened float32 is exact, so equal values stay equal and others stay different
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if types.is_time(kind):
        return pa.time64("us")
    if types.is_decimal(kind):
        return pa.decimal256(76, kind.scale)
    if types.is_large_list(kind) or types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_list_view(kind):
        return pa.list_(_canonical(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([(field.name, _canonical(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_canonical(kind.key_type), _canonical(kind.item_type))
    return kind


def _cast(table: pa.Table, types: dict[str, pa.DataType]) -> pa.Table:
    # Safe casts: a value that the common type cannot hold exactly is an error, not a rounded match.
    columns = [
        pa.chunked_array([pc.cast(chunk, kind) for chunk in table[name].chunks], kind) for name, kind in types.items()
    ]
    return pa.table(columns, schema=pa.schema(list(types.items())))


def _sorted(table: pa.Table) -> pa.Table:
    flat = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    if not flat or table.num_rows == 0:
        return table
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in flat])).combine_chunks()


def _row_counts(table: pa.Table) -> Counter[tuple[Any, ...]]:
    columns = [[_hashable(value) for value in column.to_pylist()] for column in table.columns]
    return Counter(zip(*columns, strict=True)) if columns else Counter({(): table.num_rows})


def _hashable(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"  # equal to itself, unlike the float
    if isinstance(value, dict):
        return tuple((key, _hashable(item)) for key, item in value.items())
    if isinstance(value, list):
        items = [_hashable(item) for item in value]
        is_map = bool(value) and all(isinstance(item, tuple) for item in value)  # structs are dicts, lists are lists
        return tuple(sorted(items, key=repr)) if is_map else tuple(items)  # entries of a map have no order
    return tuple(_hashable(item) for item in value) if isinstance(value, tuple) else value


def _difference(left: pa.Table, right: pa.Table, only_left: list[Any], only_right: list[Any]) -> str:
    names = left.column_names
    lines = [
        f"rows differ: left has {left.num_rows}, {len(only_left)} of them only there; "
        f"right has {right.num_rows}, {len(only_right)} of them only there"
    ]
    rest = sorted(only_right, key=repr)
    for row in sorted(only_left, key=repr)[:_SHOWN]:
        twin = max(rest, key=lambda other: sum(a == b for a, b in zip(row, other, strict=True)), default=None)
        if twin is None or sum(a == b for a, b in zip(row, twin, strict=True)) * 2 < len(names):
            lines.append(f"  only left:  {_show(names, row)}")
            continue
        rest.remove(twin)
        same = {name: a for name, a, b in zip(names, row, twin, strict=True) if a == b}
        lines.append(f"  row {same}")
        lines += [f"    {name}: left {a!r}, right {b!r}" for name, a, b in zip(names, row, twin, strict=True) if a != b]
    lines += [f"  only right: {_show(names, row)}" for row in rest[:_SHOWN]]
    return "\n".join(lines)


def _show(names: list[str], row: tuple[Any, ...]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in zip(names, row, strict=True))


def found_or_refused(table: Table, begin: str, end: str | None) -> pa.Table | str:
    try:
        return table.changes(begin, end, meta_columns=True).to_arrow()
    except (InvalidRequest, Unsupported) as error:
        return str(error)
