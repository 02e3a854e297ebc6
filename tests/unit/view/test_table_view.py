"""Goal: a view asks a commit for its files' names once, not once for each file that it lists, and only the newest of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from hudi_ops.read.plan import Opened
from hudi_ops.table.table import Table
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.files import FileColumns
from hudi_ops.view.columns.slices import newest_slices
from hudi_ops.view.columns.table_view import view_of
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.listing import StorageListing


class CountingReader(CommitReader):
    """Counts how often a commit's metadata is asked for."""

    asked = 0

    def metadata(self, *given: Any, **named: Any) -> Any:
        self.asked += 1
        return super().metadata(*given, **named)


def test_names_of_a_commit_are_put_together_once(tmp_path: Any) -> None:
    table = Table.create(
        str(tmp_path / "t"), name="t", record_key=["id"], schema=pa.schema([("id", pa.int64())]), buckets=30
    )
    table.ingest(pa.table({"id": list(range(500))}))
    commits = CountingReader(table.context.storage)
    opened = Opened.of(table.context.storage, commits)
    files = StorageListing(table.context.storage, is_partitioned=False).files([""])
    view = view_of(opened.config, opened.timeline, commits, files)
    for _ in range(2):
        assert len(newest_slices(view).bases) == 30
    assert commits.asked <= 2


def test_commits_of_older_files_are_not_read(tmp_path: Any) -> None:
    table = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=pa.schema([("id", pa.int64())]))
    for number in range(5):
        table.ingest(pa.table({"id": [number]}))
    commits = CountingReader(table.context.storage)
    opened = Opened.of(table.context.storage, commits)
    files = StorageListing(table.context.storage, is_partitioned=False).files([""])
    assert len(files[""]) == 5
    (newest,) = newest_slices(view_of(opened.config, opened.timeline, commits, files)).objects()
    assert newest.base is not None
    assert newest.base.instant == opened.timeline.completed_writes[-1].time
    assert commits.asked == 1


def _logs(opened: Opened, files: Mapping[str, Sequence[DataFile]]) -> list[str]:
    (found,) = newest_slices(
        view_of(opened.config, opened.timeline, opened.commits, FileColumns.of_files(files))
    ).objects()
    return [file.instant for file in found.logs]


def test_log_files_of_an_undone_write_that_was_read_before_are_not_visible(tmp_path: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64())])
    table = Table.create(
        str(tmp_path / "t"), name="t", record_key=["id"], schema=schema, ordering="ts", table_type="mor"
    )
    for number in range(4):
        table.ingest(pa.table({"id": [1], "ts": [number]}, schema=schema))
    storage, commits = table.context.storage, CommitReader(table.context.storage)
    opened = Opened.of(storage, commits)
    files = StorageListing(storage, is_partitioned=False).files([""])
    for write in opened.timeline.completed_writes:
        commits.metadata(opened.timeline, write)
    seen = _logs(opened, files)
    assert seen == [write.time for write in opened.timeline.completed_writes[2:]]
    # Another program undoes the newest write, and the one before is pending again.
    newest, before = opened.timeline.completed_writes[:-3:-1]
    for name in [newest.file_name, before.file_name]:
        storage.delete(opened.timeline.path(name))
    now = Opened.of(storage, commits)
    left = _logs(now, files)
    assert left == seen[:-2]
    # It completes again, at another time and under another name: it counts, by its metadata as it is now.
    storage.put(now.timeline.path(f"{before.time}_{newest.completion_time}.deltacommit"), b"{}")
    again = Opened.of(storage, commits)
    found = _logs(again, files)
    assert found == seen[:-2]
