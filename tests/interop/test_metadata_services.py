"""Apache Hudi reads and writes what our builds and compactions of a metadata table made, and we go on upon its own.

After every step the rows are read by everybody by the metadata table; after those that make it anew, filtered on columns that have
statistics, too. The soak asks everything after every step, and of both types of table.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.writer.compaction import compactions
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import HudiPeer
from tests.interop.our_rows import as_table, row
from tests.interop.test_located_ping_pong import NUMBERS, SCHEMA, SHAPE
from tests.interop.test_metadata_ping_pong import SOAK, IndexedGame

EVERY = ("files", "column_stats", "partition_stats", "bloom_filters", "record_index")
COMPACTS_SOON = {"hoodie.metadata.compact.max.delta.commits": "2"}


@pytest.mark.parametrize("kind", ["cow", "mor"] if SOAK else ["mor"])
def test_builds_and_compactions_of_ours_are_believed_and_built_upon(
    kind: Literal["cow", "mor"], tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: Callable[..., pa.Table]
) -> None:
    game = IndexedGame(tmp_path / "table", "bloom", kind, 11, apache_hudi)
    game.more = True
    rows = [row(number, 0, 0) for number in range(0, len(NUMBERS), 3)]
    game.model.apply("upsert", rows, "first")
    table = Table.create(
        str(game.path),
        name="ping_pong",
        record_key=SHAPE.keys,
        schema=SCHEMA,
        partition_by=SHAPE.partitions,
        ordering=SHAPE.ordering,
        table_type=kind,
        index="bloom",
        metadata=False,
        metadata_compact_after=2,
    )
    table.ingest(as_table(rows, SCHEMA))

    def check(said: str, *, is_made_anew: bool = False, is_last: bool = False) -> None:
        game.check(table, hudi_rs, is_filtered=is_made_anew, is_listed=is_last, said=said)
        findings = verify_table(table.context.storage, deep=True, index=True).findings
        assert [str(one) for one in findings if one.severity == "error"] == [], said

    assert set(table.build_metadata(EVERY).partitions) == set(EVERY)
    check("built", is_made_anew=True)
    for number in range(1, 7):
        game.turn(table, number * 10, ours=number % 2 == 0)
        check(f"after {game.played[-1]}")
        if number == 2:
            table.compact_metadata()
            check("compacted")
        elif number == 4:
            table.drop_metadata(["record_index", "bloom_filters"])
            table.build_metadata(["record_index", "bloom_filters"])
            check("dropped and built again", is_made_anew=True)
    # Those that are there: of a key that it brings back by a log file Apache Hudi tells its record index nothing.
    live = {one["id"] for _, one in game.model.rows.values()}
    rows = [one for number in NUMBERS if (one := row(number, 99, 99))["id"] in live]
    game.model.apply("upsert", rows, "they")
    game.theirs(rows, "upsert", options=COMPACTS_SOON)
    check("compacted by Apache Hudi", is_made_anew=True, is_last=True)
    assert len(compactions(load_metadata_timeline(table.context.storage))) >= 3
    assert set(table.config.metadata_partitions) == set(EVERY)
