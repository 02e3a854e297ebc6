"""Kinds of tables, and small histories of them: made and written by us, modelled by a dict, read and written by Apache Hudi.

A shape is everything that can be chosen when a table is made. `ShapedTable` plays writes on the table and on the model side by
side, and gives what each reader must show: Apache Hudi reads the column of a time-based partition as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_ops import Table
from hudi_ops.config.key_generators import TimePartition
from tests.interop.apache_hudi import HudiPeer
from tests.property.table_model import Shape, TableModel

Row = dict[str, Any]
DELETED = "_hoodie_is_deleted"
SCHEMA = pa.schema([
    ("id", pa.string()),
    ("number", pa.int64()),
    ("region", pa.string()),
    ("plain", pa.string()),
    ("code", pa.string()),
    ("month", pa.int32()),
    ("week", pa.date32()),
    ("ms", pa.int64()),
    ("seconds", pa.int64()),
    ("days", pa.int32()),
    ("day", pa.date32()),
    ("text_time", pa.string()),
    ("seq", pa.int64()),
    ("at", pa.timestamp("us", "UTC")),
    ("value", pa.string()),
    ("paid", pa.decimal128(12, 2)),
    ("tags", pa.list_(pa.string())),
    (DELETED, pa.bool_()),
])

# Values whose folders must be escaped, one beyond ASCII, the default partition; and values that need no escape.
REGIONS = ("a/b", "10:30 50%", "München 日本", None, "x=y", "#{'q'}", "a+b&c d")
# Apache Hudi 1.0.2 cannot merge into a partition whose value is beyond ASCII, in tables that it made itself too.
CODES = tuple(one for one in REGIONS if one is None or one.isascii())
PLAIN = ("Oslo", "São Paulo", None, "a+b&c d", "0012")
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
# Before 1970, at it, and in its first second; the rest are days of 2024. A null has the folder of 1970-01-01.
_MOMENTS = (datetime(1969, 12, 31, 23, 59, 59, 999000, UTC), datetime(1901, 10, 13, tzinfo=UTC), None)

MS_BY_DAY = TimePartition(input="EPOCHMILLISECONDS", output="yyyy/MM/dd")
SECONDS_BY_HOUR = TimePartition(input="UNIX_TIMESTAMP", output="yyyy-MM-dd HH")
DAYS_BY_MONTH = TimePartition(input="SCALAR", unit="DAYS", output="yyyyMM")
TEXT_BY_DAY = TimePartition(input="DATE_STRING", input_format="yyyy-MM-dd'T'HH:mm:ss", output="yyyy-MM-dd")


@dataclass(frozen=True)
class TableShape:
    """One kind of table. `key_generator` and the rest mean what they mean in `Table.create`."""

    keys: tuple[str, ...] = ("id",)
    partitions: tuple[str, ...] = ("region",)
    ordering: str | None = "seq"
    buckets: int = 2
    table_type: str = "cow"
    version: int = 9
    key_generator: str = "auto"
    time: TimePartition | None = None
    hive_style: bool = True
    url_encode: bool = True
    meta_fields: bool = True

    def __str__(self) -> str:
        words = [f"v{self.version}", self.table_type, "+".join(self.keys), "by", "+".join(self.partitions) or "nothing"]
        words += [self.ordering or "commit time"] + ([self.key_generator] if self.key_generator != "auto" else [])
        words += [self.time.input.lower(), self.time.output.replace("/", "|")] if self.time is not None else []
        flags = {"hive": self.hive_style, "encode": self.url_encode, "meta": self.meta_fields}
        return " ".join([*words, *(f"no-{name}" for name, on in flags.items() if not on)])

    def create(self, path: Path) -> Table:
        """Makes the table with our library."""
        return Table.create(
            str(path),
            name="ours",
            schema=SCHEMA,
            record_key=self.keys,
            partition_by=self.partitions,
            ordering=self.ordering,
            table_type=self.table_type,  # type: ignore[arg-type]
            buckets=self.buckets,
            version=self.version,  # type: ignore[arg-type]
            key_generator=self.key_generator,  # type: ignore[arg-type]
            time=self.time,
            hive_style=self.hive_style,
            url_encode=self.url_encode,
            meta_fields=self.meta_fields,
        )

    def folder_of(self, row: Row) -> tuple[object, ...]:
        """What decides a row's partition: the values, or the text of a time, made by Python's own calendar."""
        if self.time is None:
            return tuple(row[name] for name in self.partitions)
        value = row[self.partitions[0]]
        moment = datetime(1970, 1, 1, tzinfo=UTC)
        if value is not None and self.time.input == "DATE_STRING":
            moment = datetime.fromisoformat(value).replace(tzinfo=UTC)
        elif isinstance(value, date):
            moment = datetime(value.year, value.month, value.day, tzinfo=UTC)
        elif value is not None:
            unit = {"EPOCHMILLISECONDS": "milliseconds", "UNIX_TIMESTAMP": "seconds", "SCALAR": self.time.unit.lower()}
            moment += timedelta(**{unit[self.time.input]: value})
        return tuple(getattr(moment, part) for part, word in _PARTS.items() if word in self.time.output)


_PARTS = {"year": "yyyy", "month": "MM", "day": "dd", "hour": "HH"}


def row(number: int, version: int, seq: int, *, deleted: bool | None = None) -> Row:
    """One row. Key and partition follow from `number`, `seq` orders; the rest from number and version.

    The time columns move by a few seconds with the version, inside the hour: such a row stays in its partition.
    """
    moment = _MOMENTS[number] if number < len(_MOMENTS) else EPOCH + timedelta(days=number % 40, hours=number % 24)
    later = moment + timedelta(seconds=version) if moment is not None and number >= len(_MOMENTS) else moment
    ms = None if later is None else (later - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    return {
        "id": f"k{number:03d}" if number % 7 else f"日本:{number}",
        "number": number * 1_000_000_007 - 5_000_000_000,
        "region": REGIONS[number % len(REGIONS)],
        "plain": PLAIN[number % len(PLAIN)],
        "code": CODES[number % len(CODES)],
        "month": 1 + number // 4 % 2,
        "week": date(2024, 1, 1) + timedelta(weeks=number % 3),
        "ms": ms,
        "seconds": None if ms is None else ms // 1000,
        "days": None if ms is None else ms // 86_400_000,
        "day": None if later is None else later.date(),
        "text_time": None if later is None else later.strftime("%Y-%m-%dT%H:%M:%S"),
        "seq": seq,
        "at": EPOCH + timedelta(minutes=seq),
        "value": (f"v{version} of {number}", "", "日本 🎌", None)[(number + version) % 4],
        "paid": Decimal(number * version) / 4 if version % 3 else None,
        "tags": ([], ["a", "é"], None)[(number + version) % 3],
        DELETED: deleted,
    }


def rows(numbers: Iterable[int], version: int, seq: int, *, deleted: bool | None = None) -> list[Row]:
    """Rows of several numbers."""
    return [row(number, version, seq, deleted=deleted) for number in numbers]


def as_table(content: Iterable[Row]) -> pa.Table:
    """Rows as Arrow."""
    return pa.Table.from_pylist(list(content), schema=SCHEMA)


@dataclass
class ShapedModel(TableModel):
    """The dict model, which knows where a row of a time-based partition lies."""

    table_shape: TableShape = field(default_factory=TableShape)

    def identity(self, row: Row) -> tuple[Any, ...]:
        """Partition and key."""
        return (*self.place(row), *(row[name] for name in self.table_shape.keys))

    def place(self, row: Row) -> tuple[Any, ...]:
        """The partition."""
        return self.table_shape.folder_of(row)


class ShapedTable:
    """A table of ours and its model side by side."""

    def __init__(self, shape: TableShape, path: Path) -> None:
        self.shape = shape
        self.path = path
        self.table = shape.create(path)
        plain = Shape(shape.keys, shape.partitions, shape.ordering, shape.buckets)
        self.model = ShapedModel(plain, table_shape=shape)

    def ingest(self, operation: str, content: Sequence[Row], engine: str = "auto") -> None:
        """One ingest by us; its counts must be the model's, as far as they can be told: log files meet nothing yet."""
        data = as_table(content)
        if operation == "delete":
            data = data.select(list(dict.fromkeys(self.shape.keys + self.shape.partitions)))
        result = self.table.ingest(data, operation, engine=engine)  # type: ignore[arg-type]
        counted = {name: getattr(result, name) for name in ("inserted", "updated", "deleted", "ignored")}
        wanted = self.model.apply(operation, content, str(result.instant))
        if self.shape.table_type == "mor":
            assert counted["inserted"] <= wanted["inserted"]
            assert sum(counted.values()) + result.logged >= sum(wanted.values()), f"counts of {operation}"
            assert counted["updated"] == counted["ignored"] == counted["deleted"] == 0
        else:
            assert counted == wanted, f"counts of {operation}"

    def write_by(self, peer: HudiPeer, content: Sequence[Row], operation: str = "upsert", **options: str) -> None:
        """The same by Apache Hudi, with the same bucket index; options with `__` for their dots."""
        more = {f"hoodie.{name.replace('__', '.')}": value for name, value in options.items()}
        peer.write(self.path, as_table(content), operation, buckets=self.shape.buckets, options=more)
        self.model.apply(operation, content, "foreign")

    def play(self) -> None:
        """Inserts, updates, late rows and deletes of every kind by us."""
        self.ingest("upsert", rows(range(24), 1, 10))
        self.ingest("insert", rows(range(24, 30), 1, 10))
        self.ingest("upsert", rows(range(8), 2, 20) + rows(range(8, 11), 2, 5) + rows((11, 12), 2, 20, deleted=True))
        self.ingest("delete", rows((13, 14, 40), 0, 0))

    def play_by(self, peer: HudiPeer, **options: str) -> None:
        """Updates, late rows, inserts and deletes by Apache Hudi."""
        mixed = rows(range(4, 8), 3, 30) + rows((15, 16), 3, 1) + rows((50, 51, 52), 3, 30)
        self.write_by(peer, mixed + rows((1, 17), 3, 30, deleted=True), **options)

    def expected(self) -> pa.Table:
        """The model's rows, as we and the `hudi` package read them."""
        return as_table(one for _, one in self.model.rows.values())

    def expected_of_apache_hudi(self) -> pa.Table:
        """The model's rows as Apache Hudi reads them (docs/format §6.6)."""
        return self.as_apache_hudi_reads(self.expected())

    def as_apache_hudi_reads(self, content: pa.Table) -> pa.Table:
        """Rows with the column of a time-based partition as text."""
        if self.shape.time is None:
            return content
        at = content.schema.get_field_index(self.shape.partitions[0])
        return content.set_column(at, self.shape.partitions[0], content.column(at).cast(pa.string()))
