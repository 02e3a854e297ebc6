"""Apache Hudi and we write one table in turn, with its metadata table on, against a dict; with each of its indexes.

After every turn the rows are read by everybody by the metadata table, in the end without it, too, and after the last turns they are
filtered on columns that have statistics: what either wrote is in the metadata table, or its rows would be missing. In the end the
metadata table is compared with the files. The soak plays longer, and asks everything after every turn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from hudi_ops.config.table import IndexName
from tests.bounds import SOAK
from tests.interop.apache_hudi import HudiPeer
from tests.interop.conftest import HudiRsReader
from tests.interop.game import Game, Rules

ROUNDS = 20 if SOAK else 4
FEWER = 20 if SOAK else 2
"""Of tables without a record index: a turn of ours and one of Apache Hudi."""


@pytest.mark.rotate(shares=3)
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
    rules = Rules.looking_up(kind, index, metadata=True, has_all_partitions=more)
    game = Game(tmp_path / "table", rules, 7, apache_hudi)
    rounds = ROUNDS if more else FEWER
    for number in game.play(rounds, we_begin=we_begin):
        # One of the last two turns was ours, the other theirs.
        game.check_metadata(hudi_rs, is_filtered=number > rounds - 2, is_listed=number == rounds)
    names = {"files", "column_stats", "partition_stats"} | ({"record_index", "bloom_filters"} if more else set())
    assert names <= set(game.table.config.metadata_partitions)
    # Apache Hudi's bounds of bytes in log files are in the order of signed bytes: too narrow for everybody else.
    game.refuse_errors("column raw of .", index=True)
