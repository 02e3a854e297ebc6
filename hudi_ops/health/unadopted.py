"""Look at a table that was never adopted, without the facts that its writers would need."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.config.logged_settings import settings_of
from hudi_ops.config.table import TableConfig, TableFacts
from hudi_ops.services.create.adoption import Adoption, facts_of_services
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.log.entries import ADOPTS, Properties
from hudi_ops.timeline.state import CommitReader, SlotZero

NOTE = "this table was not adopted: Apache Hudi mends it, or hudi-ops once it is adopted (`hudi-ops adopt`)"
"""Note of the verdict on such a table."""


@dataclass(frozen=True)
class WithoutAdoption:
    """Proposes a first entry of the commit log that no process puts.

    `adopter` compares the caller's facts with those of a table that was adopted.
    """

    adopter: SlotZero | None

    def propose(self, config: TableConfig, timeline: Timeline, commits: CommitReader) -> Properties:
        """Return the entry of a table whose rows only Apache Hudi writes.

        Instants in local time count as UTC, unless the caller names the time zone.
        """
        named = self.adopter.options.timezone if isinstance(self.adopter, Adoption) else None
        zone = (named if config.is_in_local_time else None) or "UTC"
        return Properties(
            table_id="",
            decision_id=f"{ADOPTS}none",
            owner="",
            at_ms=0,
            properties_slot=-1,
            archive_slot=-1,
            facts=facts_of_services(config).model_copy(update={"timezone": zone}),
            settings=settings_of(config.raw),
        )

    def accept(self, config: TableConfig, facts: TableFacts) -> None:
        """Compare the facts of the caller with those of the commit log.

        Raises:
            InvalidRequest: they differ.
        """
        if self.adopter is not None:
            self.adopter.accept(config, facts)
