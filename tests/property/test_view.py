"""The view that a process keeps equals one built anew after every step of random histories (RFC-03, V1 and V5).

The histories are those of `tests/services/histories`: all actions, processes that die, cancels, restores, archives. Readers of the
game use the kept view, too, and are compared with the rows of its model.
"""

from __future__ import annotations

import random
from pathlib import Path
from unittest.mock import patch

import pytest

from hudi_ops.view.columns import files, table_view
from hudi_ops.view.columns.files import FEW
from tests.bounds import bound
from tests.services.histories.moves import Game
from tests.services.histories.world import Rows, World
from tests.tables import DEFINITION, LOGGED_WITH_METADATA, MERGE_ON_READ, WITH_METADATA
from tests.views import assert_cleans_equal_those_of_a_listing, assert_view_is_synced

KINDS = {"cow": DEFINITION, "mor": MERGE_ON_READ, "cow-mdt": WITH_METADATA, "mor-mdt": LOGGED_WITH_METADATA}


class Viewed(World):
    """A world whose view is compared after every move."""

    synced = 0
    dropped = 0

    def _settle(self, before: Rows, after: Rows, *, is_done: bool) -> None:
        super()._settle(before, after, is_done=is_done)
        if not self.restoring:
            self.synced += assert_view_is_synced(self.storage)
            self.dropped += assert_cleans_equal_those_of_a_listing(self.storage, self.clock.now_ms())


@pytest.mark.timeout(bound(600, 600, 7_200))
@pytest.mark.parametrize("kind", KINDS)
def test_the_kept_view_equals_one_built_anew(kind: str, tmp_path: Path) -> None:
    synced = 0
    for seed in range(bound(1, 2, 200)):
        (landing := tmp_path / str(seed)).mkdir()
        game = Game(Viewed(KINDS[kind], random.Random(f"view {kind} {seed}"), landing))
        # Half of the histories take the way of many files, which Arrow parses and compares.
        few = 0 if (seed + len(kind)) % 2 else FEW
        try:
            with patch.object(files, "FEW", few), patch.object(table_view, "FEW", few):
                for _ in range(bound(20, 40, 60)):
                    game.step()
        except Exception as error:
            error.add_note(f"kind {kind}, seed {seed}")
            raise
        assert isinstance(game.world, Viewed)
        synced += game.world.synced
    print(f"{kind}: {synced} views were synced")
    assert synced >= bound(8, 30, 3_000)
