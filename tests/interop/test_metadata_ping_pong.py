"""Apache Hudi and we write one table in turn, with its metadata table on, against a dict; with each of its indexes.

After every turn the rows are read by everybody by the metadata table, in the end without it, too, and after the last turns they are
filtered on columns that have statistics: what either wrote is in the metadata table, or its rows would be missing. In the end the
metadata table is compared with the files. The soak plays longer, and asks everything after every turn.

Columns of floats are not filtered on: Apache Hudi's own statistics of a column with NaN lose rows (docs/format.md §14.7).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.config.table import IndexName
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import BELIEVED, HudiPeer, bucket_options
from tests.interop.compare import assert_same_rows
from tests.interop.our_rows import Row, as_table, row
from tests.interop.test_located_ping_pong import NUMBERS, SCHEMA, SHAPE, THEIRS, Game

HudiRsReader = Callable[..., pa.Table]

SOAK = bool(os.environ.get("HUDI_OPS_SOAK"))
ROUNDS = 20 if SOAK else 6
BUCKETS = 2
MORE = {"hoodie.metadata.record.index.enable": "true", "hoodie.metadata.index.bloom.filter.enable": "true"}
FILTERS: list[tuple[str, Callable[[Row], bool]]] = [
    ("small = 7", lambda one: one["small"] == 7),
    ("big < 0", lambda one: one["big"] is not None and one["big"] < 0),
    ("seq >= 30", lambda one: one["seq"] >= 30),
    ("text is null", lambda one: one["text"] is None),
    ("id = 'k016' or id = 'k022'", lambda one: one["id"] in {"k016", "k022"}),
]


WITHOUT_BULK = tuple(one for one in THEIRS["cow"] if one != "bulk_insert")
"""With the bucket index Apache Hudi's bulk_insert gives a bucket a second file group."""


class IndexedGame(Game):
    """The game with a metadata table; `more` says that it has a record index and bloom filters, too."""

    more = False

    def begin(self, *, ours: bool) -> Table:
        """The table, made by one of the two, with some rows written by its maker."""
        if not ours:
            table = super().begin(ours=False)
            return Table.open(str(self.path), index=self.index, buckets=self._buckets)
        rows = [row(n, 0, 0) for n in range(0, len(NUMBERS), 3)]
        self.model.apply("upsert", rows, "first")
        table = Table.create(
            str(self.path),
            name="ping_pong",
            record_key=SHAPE.keys,
            schema=SCHEMA,
            partition_by=SHAPE.partitions,
            ordering=SHAPE.ordering,
            table_type=self.kind,
            index=self.index,
            buckets=BUCKETS if self.index == "bucket" else 1,
        )
        table.ingest(as_table(rows, SCHEMA))
        return table

    def operations(self, *, ours: bool) -> tuple[str, ...]:
        """What one of the two may do."""
        if self.index == "bucket" and self.kind == "cow" and not ours:
            return WITHOUT_BULK
        return super().operations(ours=ours)

    @property
    def _buckets(self) -> int | None:
        return BUCKETS if self.index == "bucket" else None

    def theirs(
        self, rows: list[Row], operation: str, mode: str = "append", options: dict[str, str] | None = None
    ) -> None:
        """A write of Apache Hudi, with the index and its metadata table."""
        index = bucket_options(BUCKETS, "id") if self.index == "bucket" else {}
        more = MORE if self.more else {}
        super().theirs(rows, operation, mode, {**index, "hoodie.metadata.enable": "true", **more, **(options or {})})

    def check(self, table: Table, hudi_rs: HudiRsReader, *, is_filtered: bool, is_listed: bool, said: str) -> None:
        """Everybody reads the model's rows by the metadata table.

        Args:
            table: ours.
            hudi_rs: reads by the `hudi` package.
            is_filtered: Apache Hudi filters on columns that have statistics, too.
            is_listed: it reads without the metadata table, too.
            said: what was done.
        """
        rows = [one for _, one in self.model.rows.values()]
        ours = table.read(listing="metadata")
        assert ours.num_rows == len(rows), said
        assert_same_rows(ours, as_table(rows, SCHEMA))
        readers = [lambda path: self.hudi.read(path, options=BELIEVED), hudi_rs]
        for read in [*readers, self.hudi.read] if is_listed or SOAK else readers:
            assert_same_rows(read(self.path), ours, with_meta=True)
        for where, holds in FILTERS if is_filtered or SOAK else []:
            wanted = sorted(one["id"] for one in rows if holds(one))
            found = self.hudi.read(self.path, columns=["id"], where=where, options=BELIEVED)
            assert sorted(found.column("id").to_pylist()) == wanted, f"{where}, {said}"


@pytest.mark.parametrize(
    ("index", "kind", "we_begin", "more"),
    [
        ("bloom", "cow", False, False),
        ("simple", "mor", True, False),
        ("record_index", "cow", False, True),
        ("record_index", "mor", False, True),
        ("bucket", "mor", False, False),
        ("bucket", "cow", True, False),
    ],
)
def test_what_either_wrote_is_in_the_metadata_table(
    index: IndexName,
    kind: Literal["cow", "mor"],
    we_begin: bool,
    more: bool,
    tmp_path: Path,
    apache_hudi: HudiPeer,
    hudi_rs: HudiRsReader,
) -> None:
    game = IndexedGame(tmp_path / "table", index, kind, 7, apache_hudi)
    game.more = more
    table = game.begin(ours=we_begin)
    for number in range(1, ROUNDS + 1):
        game.turn(table, number * 10, ours=(number % 2 == 0) == we_begin)
        said = f"after {'; '.join(game.played)}"
        # One of the last two turns was ours, the other theirs.
        game.check(table, hudi_rs, is_filtered=number > ROUNDS - 2, is_listed=number == ROUNDS, said=said)
    assert {play.split()[0] for play in game.played} == {"we", "they"}
    names = {"files", "column_stats", "partition_stats"} | ({"record_index", "bloom_filters"} if more else set())
    assert names <= set(table.config.metadata_partitions)
    findings = verify_table(table.context.storage, deep=True, index=True).findings
    # Apache Hudi's bounds of bytes in log files are in the order of signed bytes: too narrow for everybody else.
    errors = [str(one) for one in findings if one.severity == "error" and "column raw of ." not in one.what]
    assert errors == [], "\n".join(errors)
