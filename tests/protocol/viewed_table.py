"""A table of two partitions, whose view tests keep and compare with one built anew."""

from __future__ import annotations

from hudi_ops import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.kept import kept_view
from hudi_ops.view.columns.table_view import View
from tests.definitions import Definition
from tests.tables import BY_HAND, DEFINITION, START_MS, made, rows, table_of
from tests.views import assert_view_is_synced


class Played:
    """A table with two partitions, and readers of one process."""

    def __init__(self, definition: Definition = DEFINITION) -> None:
        self.clock = ManualClock(START_MS, tick_ms=1)
        self.storage = made(definition, clock=self.clock)
        self.number = 0
        for _ in range(2):
            self.write()
        assert not assert_view_is_synced(self.storage), "the first view is built"

    def table(self) -> Table:
        return table_of(self.storage, self.clock, "writer", upkeep=BY_HAND)

    def write(self) -> str:
        self.number += 1
        self.clock.advance_ms(1_000)
        part = f"p{self.number % 2}"
        done = self.table().ingest(rows((f"k{part}", part, self.number, self.number, None)))
        assert done.instant is not None
        return done.instant

    def view(self) -> View:
        """Return the kept view, synced."""
        config = load_config(self.storage)
        found = kept_view(self.storage, config, load_timeline(self.storage, config), CommitReader(self.storage))
        assert found is not None
        return found

    def syncs(self) -> bool:
        """Compare the kept view with one built anew; return whether it could be synced."""
        return assert_view_is_synced(self.storage)
