"""Goal: a view asks a commit for its files' names once, not once for each file that it lists, and only the newest of a group."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from hudi_ops.read.plan import Opened
from hudi_ops.table.table import Table
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.listing import StorageListing
from hudi_ops.view.snapshot import TableView


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
    view = TableView(opened.config, opened.timeline, commits, files)
    assert len(view.base_files()) == 30
    assert len(view.base_files()) == 30
    assert commits.asked <= 2


def test_commits_of_older_files_are_not_read(tmp_path: Any) -> None:
    table = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=pa.schema([("id", pa.int64())]))
    for number in range(5):
        table.ingest(pa.table({"id": [number]}))
    commits = CountingReader(table.context.storage)
    opened = Opened.of(table.context.storage, commits)
    files = StorageListing(table.context.storage, is_partitioned=False).files([""])
    assert len(files[""]) == 5
    (newest,) = TableView(opened.config, opened.timeline, commits, files).base_files()
    assert newest.instant == opened.timeline.completed_writes[-1].time
    assert commits.asked == 1


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
    seen = [file.instant for file in TableView(opened.config, opened.timeline, commits, files).log_files()]
    assert seen == [write.time for write in opened.timeline.completed_writes[2:]]
    # Another program undoes the newest write, and the one before is pending again.
    newest, before = opened.timeline.completed_writes[:-3:-1]
    for name in [newest.file_name, before.file_name]:
        storage.delete(opened.timeline.path(name))
    now = Opened.of(storage, commits)
    left = [file.instant for file in TableView(now.config, now.timeline, commits, files).log_files()]
    assert left == seen[:-2]
    # It completes again, at another time and under another name: it counts, by its metadata as it is now.
    storage.put(now.timeline.path(f"{before.time}_{newest.completion_time}.deltacommit"), b"{}")
    again = Opened.of(storage, commits)
    found = [file.instant for file in TableView(again.config, again.timeline, commits, files).log_files()]
    assert found == seen[:-2]
