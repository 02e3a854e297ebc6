"""Wedged states that Apache Hudi leaves, made by it, and repaired by `hudi-ops repair`: rows stay, and it writes on.

A state is made by a call of Apache Hudi, by a commit of it that fails, or by the death of its process at a point.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_ops.cli.main import main
from hudi_ops.concurrency.lease.lease import lease_path
from hudi_ops.services.repair.repair import repairable
from tests.interop.apache_hudi import HudiPeer, HudiPeerError
from tests.interop.dead_writes import LAZY
from tests.interop.wedges import Wedged, copies, killed_when, moved_when, pause_when
from tests.tables import versioned

MANY = 60_000
_METADATA = re.compile(r"^hoodie\.table\.metadata\.partitions=.", re.MULTILINE)


def repaired(wedged: Wedged, capsys: pytest.CaptureFixture[str], *options: str, finds: str) -> None:
    """Repair by the command what `verify` finds; verify is clean, rows are those of the dict, and Apache Hudi writes on."""
    found = wedged.findings()
    assert set(finds.split()) <= found, found
    capsys.readouterr()
    code = main(["repair", str(wedged.path), "--yes", "--json", *options])
    told = capsys.readouterr().out
    assert code == 0, told
    assert all(one["is_done"] for one in json.loads(told)["repairs"]), told
    left = wedged.findings() - {"foreign-instant"}
    assert not left & repairable(), left
    assert main(["verify", str(wedged.path), "--deep"]) == 0, capsys.readouterr().out
    wedged.check()
    wedged.theirs()
    wedged.ours()
    wedged.theirs()
    wedged.check()
    assert main(["verify", str(wedged.path), "--deep"]) == 0, capsys.readouterr().out


def newest(wedged: Wedged) -> str:
    return wedged.table._session.loader.load().timeline.completed_writes[-1].time


def grow_old(wedged: Wedged, instant: str) -> None:
    """Let a heartbeat be ten minutes old."""
    file, then = wedged.path / lease_path(instant), time.time() - 600
    os.utime(file, (then, then))


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize(("kind", "metadata"), [("cow", False), ("mor", True)])
def test_a_rollback_of_a_savepoint_is_repaired(
    tmp_path: Path, apache_hudi: HudiPeer, capsys: pytest.CaptureFixture[str], kind: str, metadata: bool
) -> None:
    """Apache Hudi plans the rollback, then refuses it, and each later write of it tries it again."""
    wedged = Wedged(tmp_path / "wedged", apache_hudi, kind, metadata=metadata)
    instant = newest(wedged)
    apache_hudi.sql(f"call create_savepoint(path => '{wedged.path}', commit_time => '{instant}')")
    conf = {"hoodie.metadata.enable": str(metadata).lower()}
    with pytest.raises(HudiPeerError, match="savepoint"):
        apache_hudi.sql(
            f"call rollback_to_instant(table => 'wedged', instant_time => '{instant}')",
            tables={"wedged": wedged.path},
            conf=conf,
        )
    assert wedged.pending("rollback")
    with pytest.raises(HudiPeerError, match="savepoint"):
        apache_hudi.write(wedged.path, versioned(0, 1, 1), buckets=1, options=wedged.options)
    repaired(wedged, capsys, "--abandoned", finds="rollback-refused")


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize(("kind", "metadata"), [("cow", True), ("mor", False)])
def test_a_failed_commit_that_was_passed_is_repaired(
    tmp_path: Path, apache_hudi: HudiPeer, capsys: pytest.CaptureFixture[str], kind: str, metadata: bool
) -> None:
    """A writer that cleans eagerly refuses to roll back what was passed, and leaves its own rollback pending."""
    wedged = Wedged(tmp_path / "wedged", apache_hudi, kind, metadata=metadata)
    wedged.fails()
    wedged.theirs(**LAZY)
    with pytest.raises(HudiPeerError, match="rollback greater commits first"):
        apache_hudi.write(wedged.path, versioned(0, 1, 1), buckets=1, options=wedged.options)
    assert wedged.pending("rollback")
    repaired(wedged, capsys, "--abandoned", finds="pending-unowned rollback-pending")


@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize(("kind", "metadata"), [("cow", False), ("cow", True), ("mor", True)])
def test_files_of_a_rollback_without_markers_are_repaired(
    tmp_path: Path, apache_hudi: HudiPeer, capsys: pytest.CaptureFixture[str], kind: str, metadata: bool
) -> None:
    """Apache Hudi's rollback goes by markers: without them it deletes nothing, and completes."""
    wedged = Wedged(tmp_path / "wedged", apache_hudi, kind, metadata=metadata)
    instant = wedged.fails()
    shutil.rmtree(wedged.path / ".hoodie" / ".temp" / instant)
    wedged.theirs()
    assert list(wedged.path.glob(f"part=*/*{instant}*"))
    repaired(wedged, capsys, finds="rollback-orphan")
    assert not list(wedged.path.glob(f"part=*/*{instant}*"))


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("is_beating", [True, False], ids=["heartbeat", "no heartbeat"])
def test_a_killed_writer_is_repaired(
    tmp_path: Path, apache_hudi: HudiPeer, capsys: pytest.CaptureFixture[str], is_beating: bool
) -> None:
    wedged = Wedged(tmp_path / "wedged", apache_hudi, metadata=True)
    known = {file.name for file in (wedged.path / "part=p0").iterdir()}
    options = {**wedged.options, **(LAZY if is_beating else {})}
    rows = versioned(0, MANY, 99)

    def has_begun() -> bool:
        names = {file.name for file in (wedged.path / "part=p0").iterdir()} - known
        return any(name.endswith(".parquet") and not name.startswith(".") for name in names)

    assert killed_when(lambda peer: peer.write(wedged.path, rows, buckets=1, options=options), has_begun)
    instant = wedged.pending("commit")
    if is_beating:
        grow_old(wedged, instant)
        repaired(wedged, capsys, finds="pending-dead")
    else:
        repaired(wedged, capsys, "--abandoned", finds="pending-unowned")


def test_a_killed_rollback_is_repaired(
    tmp_path: Path, apache_hudi: HudiPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed between the rollback's plan and its end."""
    wedged = Wedged(tmp_path / "wedged", apache_hudi, metadata=True)
    instant = wedged.fails()
    timeline = wedged.path / ".hoodie" / "timeline"
    options, rows = wedged.options, versioned(0, 3, 99)
    for _ in copies(wedged.path):
        has_begun = _appears(timeline, ".rollback.inflight")
        if killed_when(lambda peer: peer.write(wedged.path, rows, buckets=1, options=options), has_begun) and (
            not list(timeline.glob("*_*.rollback")) and list(timeline.glob(f"{instant}*"))
        ):
            break
    assert wedged.pending("rollback")
    repaired(wedged, capsys, "--abandoned", finds="rollback-pending")


def test_a_plan_that_was_taken_from_its_executor_is_repaired(
    tmp_path: Path, apache_hudi: HudiPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its requested file is deleted while Apache Hudi begins to execute it: Apache Hudi reads the table no more.

    Without a metadata table this execution completes all the same.
    """
    wedged = Wedged(tmp_path / "wedged", apache_hudi, "mor", metadata=True)
    options = "hoodie.metadata.enable=true,hoodie.compact.inline.max.delta.commits=1"
    call = f"call run_compaction(op => '{{}}', path => '{wedged.path}', options => '{options}')"
    apache_hudi.sql(call.format("schedule"))
    timeline = wedged.path / ".hoodie" / "timeline"
    (requested,) = timeline.glob("*.compaction.requested")
    begun = _appears(timeline, ".compaction.inflight")
    for _ in copies(wedged.path):
        moved_when(lambda: apache_hudi.sql(call.format("run")), begun, requested.unlink)
        if list(timeline.glob("*.compaction.inflight")) and not list(timeline.glob("*_*.commit")):
            break
    with pytest.raises(HudiPeerError):
        apache_hudi.read(wedged.path)
    repaired(wedged, capsys, "--abandoned", finds="inflight-without-requested")


def test_what_a_killed_drop_of_the_metadata_table_left_is_repaired(
    tmp_path: Path, apache_hudi: HudiPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed between the line of the properties and the last file of the folder."""
    wedged = Wedged(tmp_path / "wedged", apache_hudi, metadata=True)
    properties = wedged.path / ".hoodie" / "hoodie.properties"
    folder = wedged.path / ".hoodie" / "metadata"

    def is_dropped() -> bool:
        try:
            text = properties.read_text()
        except FileNotFoundError:
            return False
        return "hoodie.table.checksum=" in text and _METADATA.search(text) is None

    call = "call delete_metadata_table(table => 'wedged')"
    for _ in copies(wedged.path):
        killed_when(lambda peer: peer.sql(call, tables={"wedged": wedged.path}), is_dropped)
        if is_dropped() and folder.exists() and any(folder.rglob("*.log.*")):
            break
    wedged.metadata = False
    repaired(wedged, capsys, finds="metadata-left")
    assert not [file for file in folder.rglob("*") if file.is_file()]


def test_a_metadata_table_without_a_write_is_repaired(
    tmp_path: Path, apache_hudi: HudiPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Apache Hudi builds a metadata table; once it has listed the files, another process of it completes a write."""
    wedged = Wedged(tmp_path / "wedged", apache_hudi)
    files = wedged.path / ".hoodie" / "metadata" / "files"
    pause_when(
        lambda peer: peer.sql("call create_metadata_table(table => 'wedged')", tables={"wedged": wedged.path}),
        lambda: files.exists() and any(files.iterdir()),
        wedged.theirs,
    )
    wedged.metadata = True
    assert "files" in wedged.table.config.metadata_partitions
    repaired(wedged, capsys, finds="metadata-files")


def _appears(folder: Path, end: str) -> Callable[[], bool]:
    return lambda: any(file.name.endswith(end) for file in folder.iterdir())
