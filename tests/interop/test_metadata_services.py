"""Apache Hudi reads and writes what our builds and compactions of a metadata table made, and we go on upon its own.

After every step the rows are read by everybody by the metadata table; after those that make it anew, filtered on columns that have
statistics, too. The soak asks everything after every step, and of both types of table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from hudi_ops.errors import Cancelled
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.writer.compaction import compactions
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import HudiPeer
from tests.interop.conftest import HudiRsReader
from tests.interop.game import Game, Rules

EVERY = ("files", "column_stats", "partition_stats", "bloom_filters", "record_index")
COMPACTS_SOON = {"hoodie.metadata.compact.max.delta.commits": "2"}


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_builds_and_compactions_of_ours_are_believed_and_built_upon(
    kind: Literal["cow", "mor"], tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: HudiRsReader
) -> None:
    rules = Rules.looking_up(kind, "bloom", metadata=True, has_all_partitions=True)
    game = Game(tmp_path / "table", rules, 11, apache_hudi)
    table = game.begin(ours=True, metadata=False, metadata_compact_after=2)

    def check(said: str = "", *, is_made_anew: bool = False, is_last: bool = False) -> None:
        if said:
            game.played.append(said)
        game.check_metadata(hudi_rs, is_filtered=is_made_anew, is_listed=is_last)
        game.refuse_errors(index=True)

    assert set(table.indexing.run(partitions=EVERY).partitions) == set(EVERY)
    check("built", is_made_anew=True)
    for number in range(1, 7):
        game.turn(number * 10, ours=number % 2 == 0)
        check()
        if number == 2:
            table.metadata.compact()
            check("compacted")
        elif number == 4:
            table.indexing.drop(["record_index", "bloom_filters"])
            table.indexing.run(partitions=["record_index", "bloom_filters"])
            check("dropped and built again", is_made_anew=True)
    # Those that are there: of a key that it brings back by a log file Apache Hudi tells its record index nothing.
    live = {one["id"] for _, one in game.model.rows.values()}
    rows = [held for number in rules.numbers if (held := rules.row(number, 99, 99))["id"] in live]
    game.model.apply("upsert", rows, "they")
    game.theirs(rows, "upsert", options=COMPACTS_SOON)
    check("compacted by Apache Hudi", is_made_anew=True, is_last=True)
    assert len(compactions(load_metadata_timeline(table.context.storage))) >= 3
    assert set(table.config.metadata_partitions) == set(EVERY)


def test_a_build_after_a_cancelled_rebuild_is_believed(
    tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: HudiRsReader
) -> None:
    """A rebuild is cancelled behind its drop; a plain build restores every partition, and Apache Hudi reads by them."""
    rules = Rules.looking_up("mor", "bloom", metadata=True, has_all_partitions=True)
    game = Game(tmp_path / "table", rules, 12, apache_hudi)
    table = game.begin(ours=True, metadata=False)
    table.indexing.run(partitions=EVERY)
    game.turn(10, ours=True)
    before = table.config.metadata_partitions

    def stop(progress: object) -> None:
        raise Cancelled("stopped on request", next_step="run it again")

    with pytest.raises(Cancelled, match="the table has no metadata table now"):
        table.indexing.run(rebuild=True, progress=stop)
    found = verify_table(table.context.storage, index=True)
    assert [one.invariant for one in found.errors] == ["metadata-dropped"]
    game.turn(20, ours=True)
    table.indexing.run()
    assert table.config.metadata_partitions == before
    game.played.append("cancelled and restored")
    game.check_metadata(hudi_rs, is_filtered=False, is_listed=False)
    game.refuse_errors(index=True)
