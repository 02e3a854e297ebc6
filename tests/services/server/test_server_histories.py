"""Every answer of a timeline server equals a view built from scratch at its digest, in random histories (RFC-03, V1).

The histories are those of `tests/services/histories`. Callers ask for the newest state and for earlier ones, so that several
instants complete between two syncs of the server.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.kept import kept_settings
from hudi_ops.view.columns.slices import newest_slices
from hudi_ops.view.columns.table_view import View
from hudi_ops.view.remote.client import client_of
from hudi_ops.view.remote.served import Wish, served_view
from tests.bounds import bound
from tests.servers import TABLE, Served, asking, forget_servers, serving
from tests.services.histories.moves import Game
from tests.services.histories.world import Rows, World
from tests.tables import DEFINITION, LOGGED_WITH_METADATA, MERGE_ON_READ, WITH_METADATA
from tests.views import view_anew

KINDS = {"cow": DEFINITION, "mor": MERGE_ON_READ, "cow-mdt": WITH_METADATA, "mor-mdt": LOGGED_WITH_METADATA}
EARLIER = 6
"""Earlier states that callers may still ask for."""


class Asked(World):
    """A world whose states are asked of a server after some of its moves."""

    served: Served
    past_views: list[View]
    asked: Counter[str]

    def _settle(self, before: Rows, after: Rows, *, is_done: bool) -> None:
        super()._settle(before, after, is_done=is_done)
        if self.restoring:
            self.past_views.clear()
            return
        anew = view_anew(self.storage)
        self.past_views = [*self.past_views, anew][-EARLIER:]
        if self.chance.random() < 0.5:
            return  # the next sync has more to apply
        for view in self.past_views[:-1] if self.chance.random() < 0.6 else ():
            self._compare(view, is_newest=False)
        self._compare(anew, is_newest=True)

    def _compare(self, anew: View, *, is_newest: bool) -> None:
        process = asking(self.storage, self.served.url)
        wanted = newest_slices(anew).objects()
        found = served_view(process, anew.config, anew.timeline, CommitReader(process))
        counts = client_of(kept_settings(process).server).counts  # type: ignore[arg-type]
        assert not counts["bad"], "an answer of the server did not pass the checks"
        if found is None:
            assert not is_newest, f"the newest state was not answered: {counts}"
            self.asked["unknown"] += 1
            return
        assert found.timeline is anew.timeline
        self.asked["newest" if is_newest else "earlier"] += 1
        assert newest_slices(found).objects() == wanted
        paths = self.chance.sample(anew.files.partitions, self.chance.randint(0, len(anew.files.partitions)))
        some = served_view(
            asking(self.storage, self.served.url),
            anew.config,
            anew.timeline,
            CommitReader(process),
            Wish(lambda every: [path in paths for path in every], is_newest=True),
        )
        assert some is not None
        assert some.files.partitions == found.files.partitions
        assert newest_slices(some).objects() == [one for one in wanted if one.partition_path in paths]


@pytest.mark.timeout(bound(600, 600, 7_200))
@pytest.mark.parametrize("kind", KINDS)
def test_each_answer_equals_a_view_built_anew(kind: str, tmp_path: Path) -> None:
    asked: Counter[str] = Counter()
    for seed in range(bound(1, 1, 100)):
        forget_servers()
        (landing := tmp_path / str(seed)).mkdir()
        world = Asked(KINDS[kind], random.Random(f"server {kind} {seed}"), landing)
        world.past_views, world.asked = [], asked
        with serving({TABLE: FaultyStorage(world.storage)}) as world.served:
            game = Game(world)
            try:
                for _ in range(bound(20, 50, 60)):
                    game.step()
            except Exception as error:
                error.add_note(f"kind {kind}, seed {seed}")
                raise
            syncs = world.served.server.tables[TABLE].reader
            asked["builds"] += syncs.builds
            asked["syncs"] += syncs.syncs
    print(f"{kind}: {dict(asked)}")
    assert asked["newest"] >= bound(4, 10, 1_000)
    assert asked["earlier"] >= bound(2, 4, 400)
