"""Apache Hudi and we write one table in turn, with its bloom or simple index, against a dict: nothing is lost, nothing doubled.

Either finds the keys that the other wrote, wherever it put them. In merge-on-read tables rows come in order, and nobody writes
without looking keys up: where a log file deleted a key in one group, and an insert put it into another, Apache Hudi's next upsert
doubles it.

The other two games are played again with a metadata table in test_metadata_ping_pong.py; without one the soak has them, too.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.config.table import IndexName
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows
from tests.interop.our_rows import SCHEMAS, Row, as_table, row
from tests.property.table_model import Shape, TableModel

HudiRsReader = Callable[..., pa.Table]

SOAK = bool(os.environ.get("HUDI_OPS_SOAK"))
ROUNDS = 30 if SOAK else 6
GAMES = [("simple", "cow", False), ("bloom", "mor", False)]
"""Index, type of table, whether we begin."""
if SOAK:
    GAMES += [("bloom", "cow", True), ("simple", "mor", True)]
SCHEMA = SCHEMAS["csv"]
NUMBERS = range(60)
SHAPE = Shape(("id",), ("month",), "seq", 1)
LOOKING = ("upsert", "upsert", "upsert", "delete", "insert_overwrite")
OURS = {"cow": (*LOOKING, "insert", "bulk_insert"), "mor": (*LOOKING, "insert", "compact")}
THEIRS = {"cow": (*LOOKING, "insert", "bulk_insert"), "mor": LOOKING}


class Game:
    """One table, its model, and the dice."""

    def __init__(self, path: Path, index: IndexName, kind: Literal["cow", "mor"], seed: int, hudi: HudiPeer) -> None:
        self.path, self.index, self.kind, self.hudi = path, index, kind, hudi
        self.dice = random.Random(seed)
        self.model = TableModel(SHAPE)
        self.played: list[str] = []

    def begin(self, *, ours: bool) -> Table:
        """The table, made by one of the two, with some rows written by its maker."""
        rows = [row(n, 0, 0) for n in range(0, len(NUMBERS), 3)]
        self.model.apply("upsert", rows, "first")
        if ours:
            table = Table.create(
                str(self.path),
                name="ping_pong",
                record_key=SHAPE.keys,
                schema=SCHEMA,
                partition_by=SHAPE.partitions,
                ordering=SHAPE.ordering,
                table_type=self.kind,
                index=self.index,
                metadata=False,
            )
            table.ingest(as_table(rows, SCHEMA))
            return table
        self.theirs(
            rows,
            "upsert",
            "overwrite",
            {
                "hoodie.table.name": "ping_pong",
                "hoodie.datasource.write.table.type": {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[self.kind],
                "hoodie.datasource.write.recordkey.field": "id",
                "hoodie.datasource.write.partitionpath.field": "month",
                "hoodie.datasource.write.precombine.field": "seq",
                "hoodie.datasource.write.hive_style_partitioning": "true",
            },
        )
        return Table.open(str(self.path), index=self.index)

    def operations(self, *, ours: bool) -> tuple[str, ...]:
        """What one of the two may do."""
        return (OURS if ours else THEIRS)[self.kind]

    def theirs(
        self, rows: list[Row], operation: str, mode: str = "append", options: dict[str, str] | None = None
    ) -> None:
        """A write of Apache Hudi, with the index."""
        options = {"hoodie.index.type": self.index.upper(), **(options or {})}
        self.hudi.write(self.path, as_table(rows, SCHEMA), operation, mode=mode, options=options)

    def turn(self, table: Table, time: int, *, ours: bool) -> None:
        """One random write by one of the two, and by the model."""
        operation = self.dice.choice(self.operations(ours=ours))
        rows = self.rows(operation, time)
        self.played.append(f"{'we' if ours else 'they'} {operation} {len(rows)}")
        if operation == "compact":
            table.compact()
            return
        if operation == "insert_overwrite":
            months = {one["month"] for one in rows}
            for identity in [one for one in self.model.rows if one[0] in months]:
                del self.model.rows[identity]
        self.model.apply("delete" if operation == "delete" else "upsert", rows, str(time))
        if ours:
            table.ingest(as_table(rows, SCHEMA), operation)
        else:
            self.theirs(rows, operation)

    def rows(self, operation: str, time: int) -> list[Row]:
        """Rows that fit the operation: new keys for inserts, keys of any age for the rest."""
        held = {one["id"] for _, one in self.model.rows.values()}
        if operation in {"insert", "bulk_insert"}:
            free = [n for n in NUMBERS if row(n, 0, 0)["id"] not in held]
            return [row(n, time, time) for n in self.dice.sample(free, min(len(free), 9))]
        chosen = self.dice.sample(NUMBERS, self.dice.randint(1, 20))
        if operation != "upsert":
            return [row(n, time, time) for n in chosen]
        times = (time, time, time, 1) if self.kind == "cow" else (time,)
        return [
            row(n, time, self.dice.choice(times), deleted=self.dice.choice((None, None, None, True))) for n in chosen
        ]


@pytest.mark.parametrize(("index", "kind", "we_begin"), GAMES)
def test_either_finds_what_the_other_wrote(
    index: IndexName,
    kind: Literal["cow", "mor"],
    we_begin: bool,
    tmp_path: Path,
    apache_hudi: HudiPeer,
    hudi_rs: HudiRsReader,
) -> None:
    game = Game(tmp_path / "table", index, kind, 7, apache_hudi)
    table = game.begin(ours=we_begin)
    for number in range(1, ROUNDS + 1):
        game.turn(table, number * 10, ours=(number % 2 == 0) == we_begin)
        said = f"after {'; '.join(game.played)}"
        ours = table.read()
        assert ours.num_rows == len(game.model.rows), said
        assert_same_rows(ours, as_table((one for _, one in game.model.rows.values()), SCHEMA))
        for read in (apache_hudi.read, hudi_rs):
            assert_same_rows(read(game.path), ours, with_meta=True)
    assert {play.split()[0] for play in game.played} == {"we", "they"}
    findings = verify_table(table.context.storage, deep=True).findings
    assert [str(one) for one in findings if one.severity == "error"] == []
