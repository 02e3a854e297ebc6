"""The view that a process keeps equals one built anew after every step of random histories (RFC-03, V1 and V5).

The histories are those of `tests/services/histories`: all actions, processes that die, cancels, restores, archives. Readers of the
game use the kept view, too, and are compared with the rows of its model.
"""

from __future__ import annotations

import random
from pathlib import Path
from unittest.mock import patch

import pytest

from hudi_ops.config.write_settings import ViewSettings
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.view.columns import files, table_view
from hudi_ops.view.columns.files import FEW
from hudi_ops.view.columns.kept import keep_views
from tests.bounds import bound
from tests.services.histories.moves import Game
from tests.services.histories.world import Rows, World
from tests.tables import DEFINITION, LOGGED_WITH_METADATA, MERGE_ON_READ, WITH_METADATA
from tests.views import assert_cleans_equal_those_of_a_listing, assert_view_is_synced

KINDS = {"cow": DEFINITION, "mor": MERGE_ON_READ, "cow-mdt": WITH_METADATA, "mor-mdt": LOGGED_WITH_METADATA}
STORES = ("memory", "spill", "disk")


class Viewed(World):
    """A world whose view is compared after every move; with the store `disk`, each time as another process finds it."""

    synced = 0
    dropped = 0
    settings = ViewSettings()
    _seen: Storage | None = None

    def _settle(self, before: Rows, after: Rows, *, is_done: bool) -> None:
        super()._settle(before, after, is_done=is_done)
        if self.restoring:
            return
        if self.settings.store == "memory":
            self._seen = self.storage
        elif self.settings.store == "disk" or self._seen is None:
            self._seen = FaultyStorage(self.storage)
            keep_views(self._seen, self.settings)
        self.synced += assert_view_is_synced(self._seen)
        self.dropped += assert_cleans_equal_those_of_a_listing(self._seen, self.clock.now_ms())


@pytest.mark.timeout(bound(600, 600, 7_200))
@pytest.mark.parametrize("kind", KINDS)
def test_the_kept_view_equals_one_built_anew(kind: str, tmp_path: Path) -> None:
    synced = 0
    for seed in range(bound(1, 2, 200)):
        (landing := tmp_path / str(seed)).mkdir()
        world = Viewed(KINDS[kind], random.Random(f"view {kind} {seed}"), landing)
        store = STORES[(seed + [*KINDS].index(kind)) % len(STORES)]
        world.settings = ViewSettings.model_construct(store=store, memory_mb=0, folder=str(tmp_path / "views"))
        game = Game(world)
        # Half of the histories take the way of many files, which Arrow parses and compares.
        few = 0 if (seed + len(kind)) % 2 else FEW
        try:
            with patch.object(files, "FEW", few), patch.object(table_view, "FEW", few):
                for _ in range(bound(20, 40, 60)):
                    game.step()
        except Exception as error:
            error.add_note(f"kind {kind}, seed {seed}, store {store}")
            raise
        synced += world.synced
    print(f"{kind}: {synced} views were synced")
    assert synced >= bound(8, 30, 3_000)
