"""A timeline that grows because something cannot be archived is reported, with the reason."""

from __future__ import annotations

from hudi_ops.config.upkeep_settings import ArchiveSettings, CleanSettings, UpkeepSettings
from tests.services.archive.archived_tables import known_times, long_table
from tests.tables import DEFINITION, table_of


def test_verify_says_that_archiving_stands_still_and_why() -> None:
    storage, clock = long_table(DEFINITION)
    times, table = known_times(storage), table_of(storage, clock, "saver")
    table.savepoints.create(times[3])
    for keep_max, is_told in ((2, True), (4, False)):
        upkeep = UpkeepSettings(archive=ArchiveSettings(keep_min=2, keep_max=keep_max), clean=CleanSettings(retain=1))
        found = table_of(storage, clock, "user", upkeep=upkeep).verify().findings
        assert [(one.invariant, one.where) for one in found] == ([("archive-blocked", times[3])] if is_told else [])
        assert not is_told or table.archive.explain(keep_min=2, keep_max=2).stopped_by in found[0].what
