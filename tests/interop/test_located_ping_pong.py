"""Apache Hudi and we write one table in turn, with its bloom or simple index, against a dict: nothing is lost, nothing doubled.

Either finds the keys that the other wrote, wherever it put them. In merge-on-read tables rows come in order.

The other two games are played again with a metadata table in test_metadata_ping_pong.py; without one the soak has them, too.
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

ROUNDS = 30 if SOAK else 6
GAMES = [("simple", "cow", False), ("bloom", "mor", False), ("bloom", "cow", True), ("simple", "mor", True)]
"""Index, type of table, whether we begin."""


@pytest.mark.rotate(shares=4)
@pytest.mark.parametrize(("index", "kind", "we_begin"), GAMES)
def test_either_finds_what_the_other_wrote(
    index: IndexName,
    kind: Literal["cow", "mor"],
    we_begin: bool,
    tmp_path: Path,
    apache_hudi: HudiPeer,
    hudi_rs: HudiRsReader,
) -> None:
    game = Game(tmp_path / "table", Rules.looking_up(kind, index), 7, apache_hudi)
    for _ in game.play(ROUNDS, we_begin=we_begin):
        game.check(apache_hudi.read, hudi_rs)
    game.refuse_errors()
