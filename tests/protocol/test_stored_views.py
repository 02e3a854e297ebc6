"""Views in files: what a process finds in a folder, and what it does where a file or the folder may not be used (RFC-03, D.4 11).

A process of its own is played by a storage of its own: views are kept by storage.
"""

from __future__ import annotations

import errno
import gc
import json
import logging
import os
import shutil
import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from hudi_ops.config.tables_file import locate_table
from hudi_ops.config.write_settings import ViewSettings
from hudi_ops.errors import InvalidRequest, Unavailable
from hudi_ops.read.plan import ReadRequest, plan_read
from hudi_ops.services.inspect.stored_view import describe_view, drop_views, refresh_view
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import CommitReader
from hudi_ops.verify.data.listing import check_view
from hudi_ops.view.columns import kept
from hudi_ops.view.columns.kept import keep_views, kept_view, view_source
from hudi_ops.view.columns.slices import newest_slices
from hudi_ops.view.columns.table_view import View
from hudi_ops.view.stores import view_file
from hudi_ops.view.stores.view_file import write_view
from tests import tables
from tests.definitions import create_table
from tests.fault_plans import MoveBefore
from tests.protocol.viewed_table import Played
from tests.tables import BY_HAND, DEFINITION, LOGGED_WITH_METADATA, by_key, rows, table_of
from tests.views import view_anew

ROOT = Path(__file__).resolve().parents[2]


class Machine(Played):
    """A table, and processes of one machine that share a folder of views."""

    def __init__(self, folder: Path, definition: object = DEFINITION) -> None:
        super().__init__(definition)  # type: ignore[arg-type]
        self.folder = folder
        kept._warned.clear()

    def process(self, store: str = "disk") -> FaultyStorage:
        """Return the storage of a new process."""
        found = FaultyStorage(self.storage)
        keep_views(found, ViewSettings.model_construct(store=store, memory_mb=1, folder=str(self.folder)))
        return found

    def plan(self, process: FaultyStorage | None = None) -> str:
        """Plan a read in a process, a new one by default, compare its files; return how the view was found."""
        process = process or self.process()
        planned = plan_read(process, ReadRequest())
        wanted = {one.base.path for one in newest_slices(view_anew(self.storage)).objects() if one.base is not None}
        assert {task.path for task in planned.tasks} == wanted
        return view_source(process)

    def files(self) -> list[Path]:
        """Return the stored views."""
        return sorted(self.folder.glob("*.view"))


def test_the_next_process_continues_the_stored_view(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "views")
    assert machine.plan() == "built"
    assert machine.plan() == "stored, 0 instants applied"
    for _ in range(3):
        machine.write()
    assert machine.plan() == "stored, 3 instants applied"
    assert machine.plan() == "stored, 3 instants applied", "little is new, so the view is not stored again"
    for _ in range(3):
        for _ in range(11):
            machine.write()
        machine.plan()
        assert machine.plan() == "stored, 0 instants applied"
    assert len(machine.files()) == 2, "older files go"
    assert (machine.folder.stat().st_mode & 0o777, machine.files()[0].stat().st_mode & 0o777) == (0o700, 0o600)
    found = describe_view(machine.process())
    assert (found.store, found.builds, found.hits, found.stored[0].behind) == ("disk", 1, 9, 0)
    assert check_view(machine.process()).is_same
    assert len(drop_views(machine.process())) == 2
    assert machine.plan() == "built"


@pytest.mark.parametrize("count", [0, 1, 4])
def test_the_first_plan_of_a_process_makes_few_storage_calls(tmp_path: Path, count: int) -> None:
    """Goal: with a stored view k instants older, at most 8 + k calls, and no listing of a partition."""
    machine = Machine(tmp_path / "views", LOGGED_WITH_METADATA)
    plan_read(machine.process(), ReadRequest())
    for _ in range(count):
        machine.write()
    process = machine.process()
    plan_read(process, ReadRequest())
    assert view_source(process) == f"stored, {count} instant{'' if count == 1 else 's'} applied"
    print(f"{count} instants: {dict(Counter(call.partition(':')[0] for call in process.history))}")
    assert len(process.history) <= 8 + count, process.history
    assert not [call for call in process.history if "list" in call.partition(":")[0] and "part=" in call]


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_by_one(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def flip(path: Path, part: float) -> None:
    body = bytearray(path.read_bytes())
    body[int(part * (len(body) - 1))] ^= 0x10
    path.write_bytes(body)


def open_to_others(path: Path) -> None:
    path.chmod(0o622)


def link(path: Path) -> None:
    target = path.with_name("elsewhere")
    path.rename(target)
    path.symlink_to(target)


DAMAGES: dict[str, Callable[[Path], None]] = {
    **{one.__name__: one for one in (cut, cut_by_one, empty, open_to_others, link)},
    **{f"flip {part}": lambda path, part=part: flip(path, part) for part in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0)},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_may_not_be_used_is_named_and_built_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    machine = Machine(tmp_path / "views")
    machine.plan()
    (path,) = machine.files()
    mapped = machine.process()
    assert machine.plan(mapped) == "stored, 0 instants applied"
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    DAMAGES[damage](copy)  # the files of other processes are never written in place
    copy.rename(path)
    with caplog.at_level(logging.WARNING):
        assert machine.plan() == "built"
    (said,) = [one.getMessage() for one in caplog.records if "is not used" in one.getMessage()]
    assert machine.files()[0].name[:40] in said
    assert machine.plan() == "stored, 0 instants applied"
    assert machine.plan(mapped) == "kept, 0 instants applied"


def test_11_a_file_of_another_format_or_with_foreign_names_is_not_used(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "views")
    with patch.object(view_file, "VERSION", 0):
        assert machine.plan() == "built"
    assert machine.plan() == "built"
    (path,) = machine.files()
    renamed = path.rename(path.with_name(path.name.replace(path.stem[-8:], "0" * 8)))
    assert machine.plan() == "built", "its name is not that of its state"
    renamed.unlink()
    config = load_config(machine.storage)
    view = kept_view(machine.process(), config, load_timeline(machine.storage, config), CommitReader(machine.storage))
    assert view is not None
    rows = view.files.rows
    names = pa.array([f"../{name}" for name in rows["name"].to_pylist()])
    foreign = type(view.files)(
        view.files.partitions, view.files.offsets, (rows.set_column(1, rows.schema.field(1), names),)
    )
    digest = path.stem.rpartition("-")[2]
    write_view(str(tmp_path / "made"), view.with_files(foreign), digest)
    (tmp_path / "made").replace(path)
    assert machine.plan() == "built"


def not_a_folder(folder: Path) -> None:
    folder.write_text("")


def below_a_file(folder: Path) -> None:
    folder.parent.rmdir()
    folder.parent.write_text("")


def linked(folder: Path) -> None:
    (target := folder.with_name("target")).mkdir()
    folder.symlink_to(target)


def writable_by_a_group(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o770)


@pytest.mark.parametrize("store", ["disk", "spill"])
@pytest.mark.parametrize("spoil", [not_a_folder, below_a_file, linked, writable_by_a_group, None])
def test_without_a_folder_a_view_is_kept_in_memory_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[Path], None] | None, store: str
) -> None:
    (tmp_path / "of").mkdir()
    machine = Machine(tmp_path / "of" / "views")
    if spoil is not None:
        spoil(machine.folder)
    full = OSError(errno.ENOSPC, "No space left on device")
    processes = [machine.process(store) for _ in range(2)]
    for process in processes:
        kept.kept_settings(process).__dict__["memory_mb"] = 0
    with caplog.at_level(logging.WARNING), patch.object(view_file.pa, "OSFile", side_effect=full):
        for process in processes:
            assert machine.plan(process) == "built"
            machine.write()
            assert machine.plan(process) == "kept, 1 instant applied"
    assert len([one for one in caplog.records if "kept in memory" in one.getMessage()]) == 1
    assert not [*tmp_path.rglob(".hudi-ops-view-*")]


def test_leftovers_of_a_process_that_died_go_after_a_day(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "views")
    machine.plan()
    other = f"{'0' * 32}-v1-{'0' * 64}.view"
    names = (".hudi-ops-view-old", ".hudi-ops-view-young", other, "tmp-of-others", "of-others.view")
    for path in (machine.folder / name for name in names):
        path.write_bytes(b"ARROW")
        if "young" not in path.name:
            os.utime(path, (1, 1))
    (machine.folder / ".hudi-ops-view-folder").mkdir()
    drop_views(machine.process())
    assert machine.plan() == "built"
    left = {path.name for path in machine.folder.iterdir()} - {path.name for path in machine.files()}
    assert {one for one in left if not one.endswith(".events")} == {*names[1:2], *names[3:4], ".hudi-ops-view-folder"}
    assert (machine.folder / "of-others.view").exists()
    assert not (machine.folder / other).exists()


def test_a_clock_that_went_back_removes_no_new_file(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "views")
    for number in range(3):
        machine.plan()
        for path in machine.files():
            os.utime(path, (2**32 - number, 2**32 - number))
        for _ in range(11):
            machine.write()
    assert machine.plan() == "stored, 11 instants applied"
    assert machine.plan() == "stored, 0 instants applied"


def test_a_table_that_was_made_again_does_not_use_the_view_of_the_old_one(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "views")
    machine.plan()
    for info in list(machine.storage.list()):
        machine.storage.delete(info.path)
    create_table(machine.table()._session, DEFINITION)
    machine.write()
    assert machine.plan() == "built"


def test_a_table_with_the_same_instants_does_not_use_the_view_of_another(tmp_path: Path) -> None:
    first = Machine(tmp_path / "views")
    with patch.object(tables, "table_of", lambda *given, **named: table_of(*given[:2], "another", *given[3:], **named)):
        second = Machine(tmp_path / "views")
    assert first.process().uri == second.process().uri
    first.plan()
    assert second.plan() == "built"
    assert len(first.files()) == 2


def test_a_stored_view_with_a_lost_file_is_built_anew(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "views")
    process = machine.process()
    machine.plan(process)
    kept.forget_view(process)
    assert machine.plan() == "built", "no process opens it again"
    assert machine.plan(process) == "stored, 0 instants applied"


@pytest.mark.parametrize("store", ["memory", "disk"])
def test_a_write_that_came_and_was_archived_unseen_is_not_missed(tmp_path: Path, store: str) -> None:
    """A writer slept before it showed its instant; a later one completed, and a view was kept then."""
    machine = Machine(tmp_path / "views", LOGGED_WITH_METADATA)
    machine.write()
    reader = machine.process(store)

    def meanwhile() -> None:
        machine.write()
        plan_read(reader, ReadRequest())

    slow = FaultyStorage(machine.storage, MoveBefore(".deltacommit.requested", meanwhile))
    machine.clock.advance_ms(1000)
    written = table_of(slow, machine.clock, "slow", upkeep=BY_HAND).ingest(rows(("kw", "p7", 777, 777, None))).instant
    assert written is not None
    for _ in range(9):
        machine.write()
    for keep in range(12, 2, -1):
        machine.table().archive.run(keep_min=keep, keep_max=keep)
        timeline = load_timeline(machine.storage, load_config(machine.storage))
        if timeline.find(written) is None:
            break
    for process in (reader, machine.process(store)):
        assert by_key(table_of(process, machine.clock, "reader"))["kw"] == 777
        assert newest_slices(view_anew(machine.storage)).paths() == newest_slices(kept_at(process)).paths()


def kept_at(process: FaultyStorage) -> View:
    """Return the view that a process keeps, synced."""
    config = load_config(process)
    found = kept_view(process, config, load_timeline(process, config), CommitReader(process))
    assert found is not None
    return found


def test_views_keep_no_storage_alive(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "views")
    left = []
    for _ in range(3):
        process = machine.process()
        plan_read(process, ReadRequest())
        left.append(weakref.ref(process))
    del process
    gc.collect()
    assert [one() for one in left] == [None] * 3


def test_without_a_home_a_view_is_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path / "views")
    process = FaultyStorage(machine.storage)
    keep_views(process, ViewSettings(store="disk", folder="~nosuchuser/views"))
    assert machine.plan(process) == "built"
    machine.write()
    assert machine.plan(process) == "kept, 1 instant applied"
    machine.folder.write_text("")
    with pytest.raises(Unavailable, match="could not be stored"):
        refresh_view(machine.process())


def test_a_refresh_needs_a_store_and_settings_are_checked(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "views")
    with pytest.raises(InvalidRequest, match="store: disk"):
        refresh_view(machine.process("memory"))
    assert refresh_view(machine.process()) == view_anew(machine.storage).files.count
    wrongs = ({"store": "tape"}, "store"), ({"memory_mb": 0}, "memory_mb"), ({"folder": "s3://b/views"}, "folder")
    for wrong, field in wrongs:
        file = tmp_path / "tables.yaml"
        file.write_text(
            f"tables:\n  t: {{path: t, record_key: [id], view: {{{', '.join(f'{k}: {v}' for k, v in wrong.items())}}}}}\n"
        )
        with pytest.raises(InvalidRequest, match=rf"{file}[\s\S]*tables\.t\.view\.{field}"):
            locate_table("t", file)


@pytest.mark.parametrize("store", ["spill", "disk"])
def test_a_view_of_a_million_slices_takes_little_memory(tmp_path: Path, store: str) -> None:
    command = [sys.executable, "-m", "tests.protocol.view_memory", store, "1000000", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    grown = json.loads(done.stdout)
    print(store, grown)
    assert grown["build"] <= 512
    assert grown["syncs and partitions"] <= 64
    assert grown["whole table"] <= 256
