"""Rounds in turn with Apache Hudi on version 9, and its last release for version 8: rows stay a dict's in every reader.

In each round one side writes, and either cleans, archives, saves, restores, merges, or finishes the other's pending clean, in an
order that a seed shuffles. Full plays few rounds of one table for each version; the soak plays 20 of each kind of table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from tests.bounds import SOAK
from tests.interop.apache_hudi import HudiPeer
from tests.interop.conftest import HudiRsReader
from tests.interop.rounds import ACTIONS, Rounds, Terms

pytestmark = pytest.mark.timeout(1800)

ROUNDS = 20 if SOAK else 4
EACH = [(kind, metadata, version) for version in (9, 8) for kind in ("cow", "mor") for metadata in (False, True)]
"""Type of table, whether it has a metadata table, and its version."""


@pytest.mark.rotate(shares=8)
@pytest.mark.parametrize(("kind", "metadata", "version"), EACH)
def test_rounds_in_turn_keep_every_row(
    tmp_path: Path,
    hudi_rs: HudiRsReader,
    request: pytest.FixtureRequest,
    kind: Literal["cow", "mor"],
    metadata: bool,
    version: Literal[8, 9],
) -> None:
    hudi: HudiPeer = request.getfixturevalue("apache_hudi" if version == 9 else "apache_hudi_1_0")
    game = Rounds(tmp_path / "table", Terms(kind, metadata, version, seed=18), hudi, hudi_rs)
    try:
        game.play(ROUNDS)
    except BaseException as error:
        error.add_note(str(game))
        raise
    print(game)
    if SOAK:
        wanted = {f"{side} {action}" for side in ("we", "they") for action in ACTIONS if action != "merge"}
        assert wanted <= game.counts.keys()
