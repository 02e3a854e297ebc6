"""Every type that a table can hold, at its extremes, value by value: written by us and by Apache Hudi, read by us, by it and by
the `hudi` package. What a program cannot do stands here as an expectation that fails once it can."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.errors import Unsupported
from tests.interop.apache_hudi import RELEASE, HudiPeer, HudiPeerError

HudiRsReader = Callable[..., pa.Table]

ROWS = 8
_DAYS = [
    date(1, 1, 1),
    date(9999, 12, 31),
    date(1582, 10, 4),
    date(1582, 10, 10),
    date(1582, 10, 15),
    date(1969, 12, 31),
    None,
]
_DAYS.append(date(1970, 1, 1))
_TIMES = [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1582, 10, 10, 1, 2, 3, 4, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1900, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2024, 2, 29, 12, tzinfo=UTC),
    None,
]
_MILLIS = [None if time is None else time.replace(microsecond=time.microsecond // 1000 * 1000) for time in _TIMES]
_FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, None]

FLAT: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False, None]),
    "int": (pa.int32(), [0, -1, 2**31 - 1, -(2**31), None]),
    "long": (pa.int64(), [0, -1, 2**63 - 1, -(2**63), None]),
    "float": (pa.float32(), [*_FLOATS, float(np.float32(1e-45)), float(np.finfo(np.float32).max)]),
    "double": (pa.float64(), [*_FLOATS, 5e-324, np.finfo(np.float64).max.item()]),
    "text": (pa.string(), ["", "a", None, "日本 🎌", "\x00nul\x00", " a ", "two\r\n\tlines", "e\u0301\ufeff"]),
    "raw": (pa.binary(), [b"", b"\x00", None, bytes(range(256)), b"\xff\xfe"]),
    "day": (pa.date32(), _DAYS),
    "micros": (pa.timestamp("us", "UTC"), _TIMES),
    "millis": (pa.timestamp("ms", "UTC"), _MILLIS),
}


def _decimal(digits: str, scale: int) -> Decimal:
    return Decimal((0, tuple(map(int, digits)), -scale))


for _precision in range(1, 39):
    _scale = (0, _precision // 2, _precision)[_precision % 3]
    _largest, _least = _decimal("9" * _precision, _scale), _decimal("1", _scale)
    FLAT[f"dec{_precision}_{_scale}"] = (
        pa.decimal128(_precision, _scale),
        [_largest, _largest.copy_negate(), _decimal("0", _scale), _least, _least.copy_negate(), None],
    )

_INNER = pa.struct([("c", pa.int32()), ("d", pa.decimal128(20, 3)), ("t", pa.timestamp("us", "UTC"))])
_DEEP = pa.struct([("a", pa.struct([("b", _INNER), ("x", pa.string())]))])
NESTED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "deep": (_DEEP, [None, {"a": None}, {"a": {"b": None, "x": None}}, {"a": {"b": {"c": None, "d": None, "t": None}, "x": ""}},
                     {"a": {"b": {"c": 1, "d": Decimal("1.234"), "t": _TIMES[1]}, "x": "y"}}]),
    "records": (pa.list_(pa.struct([("a", pa.int32()), ("m", pa.map_(pa.string(), pa.float64()))])),
                [None, [], [{"a": None, "m": None}], [{"a": 1, "m": []}, {"a": 2, "m": [("k", 1.5), ("l", None)]}]]),
    "lists": (pa.list_(pa.list_(pa.string())), [None, [], [[]], [["a", ""], [], ["b"]], [["é"]]]),
    "map": (pa.map_(pa.string(), pa.struct([("l", pa.list_(pa.int64())), ("d", pa.date32())])),
            [None, [], [("", None)], [("a", {"l": None, "d": None}), ("b", {"l": [1], "d": _DAYS[0]})]]),
    "maps": (pa.map_(pa.string(), pa.list_(pa.map_(pa.string(), pa.binary()))), [None, [], [("k", [[("x", b"\xff")], []])]]),
    "times": (pa.list_(pa.timestamp("us", "UTC")), [None, [], _TIMES[:7]]),
}  # fmt: skip
# Apache Hudi reads these, and cannot write a file that holds them again.
READ_ONLY: dict[str, tuple[pa.DataType, list[Any]]] = {
    "gaps": (pa.list_(pa.list_(pa.string())), [None, [None], [["a", None], None]]),
}
NULLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    f"null_{name}": (kind, [None]) for name, (kind, _) in [*list(FLAT.items())[:12], *NESTED.items()]
}


def table_of(columns: dict[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    """Eight rows; shorter lists of values are repeated."""
    arrays = [pa.array([values[at % len(values)] for at in range(ROWS)], kind) for kind, values in columns.values()]
    return pa.table([pa.array(range(ROWS), pa.int32()), *arrays], names=["id", *columns])


def exact(rows: pa.Table, names: list[str]) -> dict[str, list[Any]]:
    """Values by column, in the order of ids; the sign of a zero counts, every NaN is the same, entries of maps have no order."""
    ordered = rows.sort_by("id")
    return {
        name: [_exact(value, rows.schema.field(name).type) for value in ordered.column(name).to_pylist()]
        for name in names
    }


def _exact(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value.hex()
    if pa.types.is_struct(kind):
        return {field.name: _exact(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return {key: _exact(item, kind.item_type) for key, item in value}
    if pa.types.is_nested(kind):
        return [_exact(item, kind.value_type) for item in value]
    return value


def assert_exact(rows: pa.Table, expected: pa.Table) -> None:
    """Every value of every column, but for meta columns, is the expected one."""
    names = expected.column_names
    assert [name for name in rows.column_names if not name.startswith("_hoodie_")] == names
    found, wanted = exact(rows, names), exact(expected, names)
    different = {name: (found[name], wanted[name]) for name in names if found[name] != wanted[name]}
    assert not different


@pytest.fixture
def modern(apache_hudi: HudiPeer) -> Iterator[HudiPeer]:
    """Apache Hudi that takes old dates as they are: its own files do not say which calendar they are in."""
    setting = "spark.sql.parquet.datetimeRebaseModeInRead"
    apache_hudi.sql(f"SET {setting}=CORRECTED")
    yield apache_hudi
    apache_hudi.sql(f"RESET {setting}")


def create(path: Path, rows: pa.Table, **options: Any) -> Table:
    return Table.create(str(path), name="types", record_key=["id"], schema=rows.schema, **options)


def test_what_we_write_everybody_reads(tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: HudiRsReader) -> None:
    rows = table_of(FLAT | NESTED | READ_ONLY | NULLS)
    table = create(tmp_path / "t", rows)
    table.ingest(rows)
    assert_exact(table.read(), rows)
    assert_exact(hudi_rs(tmp_path / "t"), rows)
    assert_exact(apache_hudi.read(tmp_path / "t"), rows)


def test_what_apache_hudi_writes_everybody_reads(tmp_path: Path, modern: HudiPeer, hudi_rs: HudiRsReader) -> None:
    rows = table_of(FLAT | NESTED)
    shared = create(tmp_path / "shared", rows)
    shared.ingest(rows)
    modern.write(tmp_path / "shared", rows.slice(0, 1), buckets=1)  # rewrites the other seven
    modern.write(
        tmp_path / "theirs",
        rows,
        "insert",
        mode="overwrite",
        options={
            "hoodie.table.name": "theirs",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        },
    )
    for path in (tmp_path / "shared", tmp_path / "theirs"):
        assert_exact(Table.open(str(path)).read(), rows)
        assert_exact(hudi_rs(path), rows)
        assert_exact(modern.read(path), rows)


def test_wide_rows_and_long_values(tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: HudiRsReader) -> None:
    kinds = [pa.int32(), pa.string(), pa.float64(), pa.decimal128(10, 2)]
    values: list[list[Any]] = [[1, None], ["é" * 20, ""], [0.5, None], [Decimal("1.25"), None]]
    wide = table_of({f"c{at}": (kinds[at % 4], values[at % 4]) for at in range(998)})
    mega = "日本語x" * 100_000
    rows = wide.append_column("long", pa.array([mega if at % 2 else "" for at in range(ROWS)]))
    rows = rows.append_column("blob", pa.array([mega.encode() if at % 3 else None for at in range(ROWS)], pa.binary()))
    table = create(tmp_path / "t", rows, buckets=2)
    table.ingest(rows)
    table.ingest(rows.slice(0, 1))
    assert_exact(table.read(), rows)
    assert_exact(hudi_rs(tmp_path / "t"), rows)
    some = ["id", *rows.column_names[-30:]]  # Spark compiles a projection a column: all of them take it a minute
    assert_exact(apache_hudi.read(tmp_path / "t", columns=some), rows.select(some))


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (pa.array([-128, 127], pa.int8()), pa.int32()),
        (pa.array([-(2**15), 2**15 - 1], pa.int16()), pa.int32()),
        (pa.array([0, 255], pa.uint8()), pa.int32()),
        (pa.array([0, 2**16 - 1], pa.uint16()), pa.int32()),
        (pa.array([0, 2**32 - 1], pa.uint32()), pa.int64()),
        (pa.array(np.array([0.5, -0.0], np.float16)), pa.float32()),
        (pa.array(["", "é"], pa.large_string()), pa.string()),
        (pa.array(["", "é"], pa.string_view()), pa.string()),
        (pa.array(["a", "a"]).dictionary_encode(), pa.string()),
        (pa.array([b"", b"\xff"], pa.large_binary()), pa.binary()),
        (pa.array([b"\x00\x01", b"\xff\xfe"], pa.binary(2)), pa.binary()),
        (pa.array([_DAYS[0], _DAYS[1]], pa.date64()), pa.date32()),
        (pa.array([_MILLIS[0], _MILLIS[6]], pa.timestamp("s", "Asia/Tokyo")), pa.timestamp("ms", "UTC")),
        (pa.array([datetime(2024, 1, 1), None], pa.timestamp("us")), pa.timestamp("us", "UTC")),
        (pa.array([0, 10**9], pa.timestamp("ns")), pa.timestamp("us", "UTC")),
        (pa.array([[1], []], pa.large_list(pa.int16())), pa.list_(pa.field("element", pa.int32()))),
        (pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), pa.list_(pa.field("element", pa.int32()))),
        (pa.array([[datetime(2024, 1, 1)], None], pa.list_(pa.timestamp("ms"))),
         pa.list_(pa.field("element", pa.timestamp("ms", "UTC")))),
    ],
    ids=lambda one: str(one.type) if isinstance(one, pa.Array) else "",
)  # fmt: skip
def test_other_types_become_these(given: pa.Array, stored: pa.DataType, tmp_path: Path, hudi_rs: HudiRsReader) -> None:
    rows = pa.table([pa.array([1, 2], pa.int32()), given], names=["id", "v"])
    table = create(tmp_path / "t", rows)
    table.ingest(rows)
    assert table.schema.field("v").type == stored
    for read in (table.read(), hudi_rs(tmp_path / "t")):
        found = [_utc(value) for value in read.column("v").to_pylist()]
        assert found == [_utc(value) for value in given.to_pylist()]


def _utc(value: Any) -> Any:
    if isinstance(value, list):
        return [_utc(one) for one in value]
    if hasattr(value, "nanosecond"):
        value = value.to_pydatetime()
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    return value


@pytest.mark.parametrize(
    "kind",
    [
        pa.time32("ms"),
        pa.time64("us"),
        pa.duration("us"),
        pa.month_day_nano_interval(),
        pa.decimal256(39, 0),
        pa.decimal128(5, -2),
        pa.null(),
        pa.map_(pa.int32(), pa.string()),
        pa.struct([]),
        pa.dense_union([pa.field("a", pa.int32())]),
    ],
    ids=str,
)
def test_what_no_table_can_hold_is_refused_by_name(kind: pa.DataType, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="'v'"):
        Table.create(
            str(tmp_path / "t"), name="t", record_key=["id"], schema=pa.schema([("id", pa.int32()), ("v", kind)])
        )
    assert not (tmp_path / "t").exists()


def test_lists_that_hold_nulls_are_beyond_apache_hudis_writer(tmp_path: Path, apache_hudi: HudiPeer) -> None:
    rows = table_of(READ_ONLY)
    create(tmp_path / "t", rows).ingest(rows)
    with pytest.raises(HudiPeerError, match="Array contains a null element"):
        apache_hudi.write(tmp_path / "t", rows.slice(0, 1), buckets=1)


def test_apache_hudi_refuses_old_dates_of_its_own_files(tmp_path: Path, apache_hudi: HudiPeer) -> None:
    """Ours say that their calendar is the modern one; once it has rewritten them, only a setting of Spark helps."""
    rows = table_of({"day": FLAT["day"]})
    create(tmp_path / "t", rows).ingest(rows)
    assert_exact(apache_hudi.read(tmp_path / "t"), rows)
    apache_hudi.write(tmp_path / "t", rows.slice(0, 1), buckets=1)
    with pytest.raises(HudiPeerError, match="READ_ANCIENT_DATETIME"):
        apache_hudi.read(tmp_path / "t")


def test_apache_hudi_before_1_2_cannot_rewrite_lists_of_decimals_beside_records_and_milliseconds(
    tmp_path: Path, apache_hudi: HudiPeer
) -> None:
    """Its Parquet reader names the items of both lists `element` when the file's times are not in its own unit."""
    amounts = (pa.list_(pa.decimal128(5, 1)), [[Decimal("1.5")]])
    rows = table_of({
        "records": NESTED["records"],
        "amounts": amounts,
        "times": (pa.list_(pa.timestamp("ms", "UTC")), [[]]),
    })
    create(tmp_path / "t", rows).ingest(rows)
    if RELEASE >= "1.2":
        apache_hudi.write(tmp_path / "t", rows.slice(0, 1), buckets=1)
        assert_exact(apache_hudi.read(tmp_path / "t"), rows)
        return
    with pytest.raises(HudiPeerError, match="Can't redefine: element"):
        apache_hudi.write(tmp_path / "t", rows.slice(0, 1), buckets=1)
