"""What the change times of a timeline's files say of its writers' time zone, and how far that is to be trusted."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hudi_ops.config.table import TableConfig
from hudi_ops.services.create.zone_evidence import ZoneEvidence, zone_evidence
from hudi_ops.storage.local import LocalStorage
from hudi_ops.timeline.names import completed_name, instant_of_ms

DAY_MS = 86_400_000
WINTER_MS = int(datetime(2026, 1, 10, tzinfo=UTC).timestamp() * 1000)
SUMMER_MS = int(datetime(2026, 7, 10, tzinfo=UTC).timestamp() * 1000)


def evidence(path: Path, moments: list[int], zone: str, late_ms: int = 40, moved: int = 0) -> ZoneEvidence:
    """Of commits that completed at these moments in a zone; the first `moved` files were changed at another time."""
    config = TableConfig.from_properties({
        "hoodie.table.name": "t",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
    })
    folder = path / config.timeline_folder
    folder.mkdir(parents=True)
    for at, moment in enumerate(moments):
        file = folder / completed_name(instant_of_ms(moment - 1_000, zone), "commit", instant_of_ms(moment, zone))
        file.write_bytes(b"")
        changed_s = (moment + late_ms + (777_777 if at < moved else 0)) / 1000
        os.utime(file, (changed_s, changed_s))
    return zone_evidence(LocalStorage(str(path)), config)


def test_commits_in_winter_and_summer_tell_zones_with_the_same_summer_time(tmp_path: Path) -> None:
    moments = [start + day * DAY_MS for start in (WINTER_MS, SUMMER_MS) for day in range(3)]
    found = evidence(tmp_path, moments, "America/New_York")
    assert (found.compared, found.agreeing, found.offsets, found.confidence) == (6, 6, ("-04:00", "-05:00"), "high")
    assert "America/New_York" in found.candidates
    assert not {"America/Bogota", "America/Caracas", "America/Chicago"} & set(found.candidates)


def test_commits_of_one_season_leave_more_zones(tmp_path: Path) -> None:
    found = evidence(tmp_path, [WINTER_MS + day * DAY_MS for day in range(6)], "Asia/Kolkata")
    assert (found.offsets, found.confidence) == (("+05:30",), "high")
    assert {"Asia/Kolkata", "Asia/Colombo"} <= set(found.candidates)
    assert "Asia/Kathmandu" not in found.candidates


def test_few_files_or_some_that_differ_are_a_low_confidence(tmp_path: Path) -> None:
    assert evidence(tmp_path / "few", [WINTER_MS], "UTC").confidence == "low"
    moments = [WINTER_MS + day * DAY_MS for day in range(8)]
    found = evidence(tmp_path / "some", moments, "Europe/Berlin", moved=2)
    assert (found.agreeing, found.confidence) == (6, "low")


@pytest.mark.parametrize("late_ms", [400_000, -300_000, 30 * DAY_MS + 123_456])
def test_a_copied_table_gives_no_evidence(tmp_path: Path, late_ms: int) -> None:
    moments = [WINTER_MS + day * DAY_MS for day in range(6)]
    found = evidence(tmp_path, moments, "Europe/Berlin", late_ms)
    assert (found.compared, found.agreeing, found.candidates, found.confidence) == (6, 0, (), "none")
    assert "copied" in str(found)


def test_a_table_without_commits_gives_no_evidence(tmp_path: Path) -> None:
    assert evidence(tmp_path, [], "UTC") == ZoneEvidence()


def test_many_commits_are_sampled(tmp_path: Path) -> None:
    found = evidence(tmp_path, [WINTER_MS + minute * 60_000 for minute in range(200)], "UTC")
    assert found.compared == 40
    assert found.candidates[0] == "UTC"
