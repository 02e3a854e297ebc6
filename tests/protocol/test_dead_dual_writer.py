"""A dead writer beside a pending resize of buckets: its files under the resize's instant go with its own, and nobody else's do."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from hudi_ops import Table
from hudi_ops.concurrency.lease.lease import lease_path
from hudi_ops.storage.open import open_storage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import CommitReader

RESIZE = "20261121021917676"
BEFORE = "20261121021918079"
DEAD = "20261121021919199"


@dataclass
class Left:
    """The table after its newest write died."""

    path: Path
    files: list[str]
    """Those of the dead writer."""
    others: list[str]
    """Those of the write before it."""

    def announce(self, files: Iterable[str]) -> None:
        """Write its markers anew."""
        folder = self.path / ".hoodie" / ".temp" / DEAD
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
        (folder / "MARKERS0").write_text("".join(f"{one}.marker.CREATE\n" for one in files))

    def recover(self) -> set[str]:
        """What a recovery of ours rolls back."""
        (undone,) = Table.open(str(self.path), services_only=True, timezone="UTC").recover().rolled_back
        return set(undone.files)

    def ahead(self) -> list[str]:
        """Its files under the resize's instant."""
        return [one for one in self.files if RESIZE in one]

    def stay(self, files: Iterable[str]) -> bool:
        return all((self.path / one).exists() for one in files)


@pytest.fixture
def left(hudi_fixtures: Callable[[str], Path], tmp_path: Path) -> Left:
    path = tmp_path / "resized"
    shutil.copytree(hudi_fixtures("v9_bucket_consistent_pending_resize"), path)
    storage = open_storage(str(path))
    timeline, commits = load_timeline(storage, load_config(storage)), CommitReader(storage)
    files = {}
    for instant in timeline.completed_writes:
        metadata = commits.metadata(timeline, instant)
        assert metadata is not None
        files[instant.time] = [stat.path for stat in metadata.stats]
    (completed,) = (path / ".hoodie" / "timeline").glob(f"{DEAD}_*")
    completed.unlink()
    heartbeat = path / lease_path(DEAD)
    heartbeat.parent.mkdir(exist_ok=True)
    heartbeat.touch()
    os.utime(heartbeat, (time.time() - 600,) * 2)
    found = Left(path, files[DEAD], files[BEFORE])
    found.announce(found.files)
    assert (len(found.files), len(found.ahead())) == (5, 3)
    return found


def test_its_files_under_the_resizes_instant_go_with_its_own(left: Left) -> None:
    assert left.recover() == set(left.files)
    assert not any(left.stay([one]) for one in left.files)
    assert left.stay(left.others)


def test_without_markers_its_files_under_the_resizes_instant_are_told_by_their_blocks(left: Left) -> None:
    for marker in (left.path / ".hoodie" / ".temp" / DEAD).iterdir():
        marker.unlink()
    assert left.recover() == set(left.files)
    assert left.stay(left.others)


def test_half_a_file_that_it_announced_goes(left: Left) -> None:
    half = left.path / left.ahead()[0]
    half.write_bytes(half.read_bytes()[:40])
    assert left.recover() == set(left.files)
    assert not half.exists()


def test_a_file_that_a_completed_write_names_stays(left: Left) -> None:
    shared = [one for one in left.others if RESIZE in one]
    left.announce([*left.files, *shared])
    assert left.recover() == set(left.files)
    assert left.stay(left.others)


def test_a_file_whose_blocks_are_another_writers_stays(left: Left) -> None:
    """Two programs may choose the same name: tokens count the partitions, stages and tasks of one program."""
    taken, theirs = left.ahead()[0], next(one for one in left.others if RESIZE in one)
    (left.path / taken).write_bytes((left.path / theirs).read_bytes())
    assert left.recover() == set(left.files) - {taken}
    assert left.stay([taken])


def test_a_file_of_a_group_that_the_resize_does_not_make_stays(left: Left) -> None:
    strange = f"p=a/.00000000-0000-0000-0000-000000000000-0_{RESIZE}.log.1_0-1-1"
    (left.path / strange).write_bytes((left.path / left.ahead()[0]).read_bytes())
    left.announce([*left.files, strange])
    assert left.recover() == set(left.files)
    assert left.stay([strange])


def test_a_file_of_an_instant_that_is_no_resize_stays(left: Left) -> None:
    strange = left.ahead()[0].replace(RESIZE, "20261121021916759")
    (left.path / strange).write_bytes((left.path / left.ahead()[0]).read_bytes())
    left.announce([*left.files, strange])
    assert left.recover() == set(left.files)
    assert left.stay([strange])


def test_beside_a_resize_whose_plan_cannot_be_read_only_its_own_files_go(left: Left) -> None:
    (left.path / ".hoodie" / "timeline" / f"{RESIZE}.clustering.requested").write_bytes(b"no plan")
    assert left.recover() == set(left.files) - set(left.ahead())
    assert left.stay([*left.others, *left.ahead()])
