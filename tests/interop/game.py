"""Games of alternating writers: one table that Apache Hudi and we write, a model of its rows, and the comparison of all readers.

`Game` throws dice for each write; `Script` is for tests that order the writes themselves.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from hudi_ops import Table
from hudi_ops.config.table import IndexName
from hudi_ops.storage.open import open_storage
from hudi_ops.verify import verify_table
from tests.bounds import SOAK
from tests.interop.apache_hudi import BELIEVED, HudiPeer
from tests.interop.compare import assert_same_rows
from tests.interop.dead_writes import timeline
from tests.interop.our_rows import SCHEMAS, Row, as_table, row
from tests.property.table_model import Shape, TableModel
from tests.tables import VERSIONED, versioned

Reader = Callable[..., pa.Table]

LOOKING = ("upsert", "upsert", "upsert", "delete", "insert_overwrite")
"""Operations that look keys up, or need not.

In merge-on-read tables with such an index no player writes in another way: where a log file deleted a key in one group, and an
insert put it into another, Apache Hudi's next upsert doubles it.
"""
MORE = {"hoodie.metadata.record.index.enable": "true", "hoodie.metadata.index.bloom.filter.enable": "true"}
# Columns of floats are not filtered on: Apache Hudi's own statistics of a column with NaN lose rows (docs/format §14.7).
_FILTERS: list[tuple[str, Callable[[Row], bool]]] = [
    ("small = 7", lambda held: held["small"] == 7),
    ("big < 0", lambda held: held["big"] is not None and held["big"] < 0),
    ("seq >= 30", lambda held: held["seq"] >= 30),
    ("text is null", lambda held: held["text"] is None),
    ("id = 'k016' or id = 'k022'", lambda held: held["id"] in {"k016", "k022"}),
]


@dataclass(frozen=True)
class Rules:
    """A table that both can write, and what each may do with it. A row is made of number, version and time."""

    ours: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()
    kind: Literal["cow", "mor"] = "cow"
    index: IndexName = "bucket"
    buckets: int = 1
    metadata: bool = False
    has_all_partitions: bool = False
    """The metadata table has a record index and bloom filters, too."""
    schema: pa.Schema = SCHEMAS["csv"]
    row: Callable[..., Row] = row
    numbers: range = range(60)
    first: range = range(0, 60, 3)
    """What the one who makes the table writes into it."""
    most: int = 20
    """Rows in one write."""
    late: bool = True
    """Some rows lose by their ordering value."""
    partition: str = "month"
    ordering: str | None = "seq"

    @property
    def of_bucket_index(self) -> int | None:
        """The number of buckets, if the index has such."""
        return self.buckets if self.index == "bucket" else None

    @classmethod
    def looking_up(cls, kind: Literal["cow", "mor"], index: IndexName, **more: Any) -> Rules:
        """Rules for a table in which either has to find what the other wrote.

        With the bucket index Apache Hudi's bulk_insert gives a bucket a second file group.
        """
        ours = (*LOOKING, "insert", *(["bulk_insert"] if kind == "cow" else ["compact"]))
        bulk = [] if index == "bucket" else ["bulk_insert"]
        theirs = (*LOOKING, "insert", *bulk) if kind == "cow" else LOOKING
        buckets = 2 if index == "bucket" else 1
        return cls(ours, theirs, kind=kind, index=index, buckets=buckets, late=kind == "cow", **more)


class Game:
    """One table, its model, and the dice."""

    def __init__(self, path: Path, rules: Rules, seed: int, hudi: HudiPeer) -> None:
        self.path, self.rules, self.hudi = path, rules, hudi
        self.dice = random.Random(seed)
        self.model: Any = TableModel(Shape(("id",), (rules.partition,), rules.ordering, rules.buckets))
        self.played: list[str] = []
        self.table: Table

    @property
    def said(self) -> str:
        """What was played so far."""
        return f"after {'; '.join(self.played)}"

    def create(self, **settings: Any) -> Table:
        """Make the table, empty, as ours."""
        rules = self.rules
        settings = {"metadata": rules.metadata, **settings}
        self.table = Table.create(
            str(self.path),
            name="ping_pong",
            record_key=["id"],
            schema=rules.schema,
            partition_by=[rules.partition],
            ordering=rules.ordering,
            table_type=rules.kind,
            index=rules.index,
            buckets=rules.buckets,
            **settings,
        )
        return self.table

    def open(self, **settings: Any) -> Table:
        """Open the table that Apache Hudi made."""
        self.table = Table.open(str(self.path), index=self.rules.index, buckets=self.rules.of_bucket_index, **settings)
        return self.table

    def make(self, *, ours: bool, **settings: Any) -> list[Row]:
        """Make the table by one of the two, and return the rows that its maker wrote."""
        rules = self.rules
        rows = [rules.row(number, 0, 0) for number in rules.first]
        if ours:
            self.create(**settings).ingest(self.batch(rows))
            return rows
        options = {
            "hoodie.table.name": "ping_pong",
            "hoodie.datasource.write.table.type": {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[rules.kind],
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": rules.partition,
            "hoodie.datasource.write.hive_style_partitioning": "true",
            **({"hoodie.datasource.write.precombine.field": rules.ordering} if rules.ordering else {}),
        }
        self.theirs(rows, mode="overwrite", options=options)
        self.open(**settings)
        return rows

    def begin(self, *, ours: bool, **settings: Any) -> Table:
        """Make the table by one of the two, with some rows, and begin the model."""
        self.model.apply("upsert", self.make(ours=ours, **settings), "first")
        return self.table

    def play(self, rounds: int, *, we_begin: bool, **settings: Any) -> Iterator[int]:
        """Begin, and let both write in turn; yields the number of each turn after it."""
        self.begin(ours=we_begin, **settings)
        for number in range(1, rounds + 1):
            self.turn(number * 10, ours=(number % 2 == 0) == we_begin)
            yield number
        assert {play.split()[0] for play in self.played} == {"we", "they"}

    def turn(self, time: int, *, ours: bool) -> None:
        """One random write by one of the two, and by the model."""
        operation = self.dice.choice(self.rules.ours if ours else self.rules.theirs)
        if operation == "delete_partition" and not self.model.rows:
            operation = "upsert"  # there is none to delete
        rows = self.rows(operation, time)
        self.played.append(f"{'we' if ours else 'they'} {operation} {len(rows)}")
        if operation == "compact":
            self.table.compaction.run()
            return
        self.model.apply(operation, rows, str(time))
        paths = sorted({f"{self.rules.partition}={held[self.rules.partition]}" for held in rows})
        if ours and operation == "delete_partition":
            self.table.delete_partition(paths)
        elif ours:
            self.table.ingest(self.batch(rows), operation)
        else:
            deleted = {"hoodie.datasource.write.partitions.to.delete": ",".join(paths)}
            self.theirs(rows, operation, options=deleted if operation == "delete_partition" else None)

    def theirs(
        self, rows: list[Row], operation: str = "upsert", mode: str = "append", options: dict[str, str] | None = None
    ) -> None:
        """A write of Apache Hudi with the index, and with the metadata table if there is one."""
        rules = self.rules
        given = {} if rules.index == "bucket" else {"hoodie.index.type": rules.index.upper()}
        given |= {"hoodie.metadata.enable": "true"} if rules.metadata else {}
        given |= {**(MORE if rules.has_all_partitions else {}), **(options or {})}
        buckets = rules.of_bucket_index
        self.hudi.write(self.path, self.batch(rows), operation, mode=mode, buckets=buckets, options=given)

    def rows(self, operation: str, time: int) -> list[Row]:
        """Rows that fit the operation: new keys for inserts, keys of any age for the rest; some late, some deleting."""
        dice, made, numbers = self.dice, self.rules.row, self.rules.numbers
        if operation in {"insert", "bulk_insert"}:
            known = {held["id"] for _, held in self.model.rows.values()}
            free = [number for number in numbers if made(number, 0, 0)["id"] not in known]
            return [made(number, time, time) for number in dice.sample(free, min(len(free), 9))]
        if operation == "delete_partition":
            value = dice.choice(sorted({identity[0] for identity in self.model.rows}))
            rows = (made(number, time, time) for number in numbers)
            return [next(held for held in rows if held[self.rules.partition] == value)]
        chosen = dice.sample(numbers, dice.randint(1, self.rules.most))
        if operation != "upsert":
            return [made(number, time, time) for number in chosen]
        times = (time, time, time, 1) if self.rules.late else (time,)
        return [
            made(number, time, dice.choice(times), deleted=dice.choice((None, None, None, True))) for number in chosen
        ]

    def batch(self, rows: list[Row]) -> pa.Table:
        """Rows as they are given to either."""
        return as_table(rows, self.rules.schema)

    def check(self, *readers: Reader, listing: str = "auto") -> None:
        """All read the model's rows, each once, and the same meta columns."""
        held = [shown for _, shown in self.model.rows.values()]
        ours = self.table.read(listing=listing, meta_columns=True)
        assert ours.num_rows == len(held), self.said
        assert_same_rows(ours, self.batch(held))
        for read in readers:
            assert_same_rows(read(self.path), ours, with_meta=True)

    def check_metadata(self, hudi_rs: Reader, *, is_filtered: bool, is_listed: bool) -> None:
        """All read the model's rows by the metadata table.

        Args:
            hudi_rs: reads by the `hudi` package.
            is_filtered: Apache Hudi filters on columns that have statistics, too.
            is_listed: it reads without the metadata table, too.
        """
        readers = [lambda path: self.hudi.read(path, options=BELIEVED), hudi_rs]
        self.check(*readers, *([self.hudi.read] if is_listed or SOAK else []), listing="metadata")
        for where, holds in _FILTERS if is_filtered or SOAK else []:
            wanted = sorted(held["id"] for _, held in self.model.rows.values() if holds(held))
            found = self.hudi.read(self.path, columns=["id"], where=where, options=BELIEVED)
            assert sorted(found.column("id").to_pylist()) == wanted, f"{where}, {self.said}"

    def refuse_errors(self, *ignored: str, index: bool = False) -> None:
        """Verify the table, with its indexes if `index`; findings with a text of `ignored` do not count."""
        errors = map(str, verify_table(self.table.context.storage, deep=True, index=index).errors)
        assert [error for error in errors if not any(text in error for text in ignored)] == [], self.said


class Script:
    """A table that both write as a test says, and its rows by key; each write has values of its own."""

    def __init__(self, path: Path, peer: HudiPeer) -> None:
        self.path, self.peer, self.written = path, peer, 0
        self.model: dict[str, dict[str, object]] = {}

    def next(self, first: int, last: int, *, counts: bool = True) -> pa.Table:
        """Rows of the next write; they are in the model unless that write is to die."""
        self.written += 1
        made = versioned(first, last, self.written)
        if counts:
            self.model |= {str(held["id"]): held for held in made.to_pylist()}
        return made

    def check(self, ours: Table, options: dict[str, str] | None = None) -> None:
        """Both read the model; nothing is pending, and nothing is wrong."""
        wanted = [self.model[key] for key in sorted(self.model)]
        for found in (self.peer.read(self.path, options=options), ours.read()):
            assert found.select(VERSIONED.names).sort_by("id").to_pylist() == wanted
        assert timeline(self.path).pending == ()
        assert verify_table(open_storage(str(self.path)), deep=True).errors == ()
