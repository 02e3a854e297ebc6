"""Slices of tables with log files: which logs are seen, to which slice they belong, in which order they are merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hudi_ops.config.table import TableConfig
from hudi_ops.files.names import parse_data_file
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.slices import visible_slices
from hudi_ops.view.file_group import DataFile


def base(group: str, time: str) -> str:
    return f"{group}_0-0-0_{time}.parquet"


def log(group: str, time: str, version: int = 1, token: str = "0-0-0", suffix: str = "") -> str:
    return f".{group}_{time}.log.{version}_{token}{suffix}"


class Written:
    """A table of one partition, as files of a timeline and names of data files."""

    def __init__(self, layout: int = 2) -> None:
        self.storage = MemoryStorage()
        self.config = TableConfig(
            name="t",
            version=9 if layout == 2 else 6,
            layout=layout,
            timeline_folder=".hoodie/timeline" if layout == 2 else ".hoodie",
            raw={},
        )
        self.files: list[str] = []

    def completed(
        self,
        name: str,
        *files: str,
        lies: Sequence[str] = (),
        replaced: Mapping[str, Sequence[str]] | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        """A completed write that names files, and further ones that only lie there."""
        stats = tuple(WriteStat(file_id="", path=f"p/{file}", partition_path="p") for file in files)
        groups = {key: tuple(ids) for key, ids in replaced.items()} if replaced is not None else None
        body = CommitMetadata(operation="UPSERT", stats=stats, replaced=groups, extra=extra or {}).to_bytes()
        self.storage.put(f"{self.config.timeline_folder}/{name}", body)
        self.files += [*files, *lies]

    def pending(self, name: str, *lies: str) -> None:
        """A pending instant, and files that lie there."""
        self.storage.put(f"{self.config.timeline_folder}/{name}", b"")
        self.files += lies

    def slices(self, as_of: str | None = None) -> dict[str, tuple[str, list[str]]]:
        """By group: name of the base file, names of the logs."""
        listed = []
        for file in sorted(self.files):
            name = parse_data_file(file)
            assert name is not None
            listed.append(DataFile("p", f"p/{file}", name.file_id, name.instant, 1, name.is_log))
        timeline, commits = load_timeline(self.storage, self.config), CommitReader(self.storage)
        found = visible_slices(self.config, timeline, commits, {"p": listed}, as_of)
        return {one.file_id: (one.base.name if one.base else "", [file.name for file in one.logs]) for one in found}


def test_logs_are_merged_in_the_order_of_requests_and_versions() -> None:
    table = Written()
    table.completed("1_2.deltacommit", base("a", "1"))
    table.completed("4_5.deltacommit", log("a", "4"))
    table.completed("3_6.deltacommit", log("a", "3", 10), log("a", "3", 9, "1-0-0"), log("a", "3", 9, "0-9-0"))
    ordered = [log("a", "3", 9, "0-9-0"), log("a", "3", 9, "1-0-0"), log("a", "3", 10), log("a", "4")]
    assert table.slices() == {"a": (base("a", "1"), ordered)}
    assert table.slices("3") == {"a": (base("a", "1"), ordered[:-1])}
    assert table.slices("2") == {"a": (base("a", "1"), [])}


def test_leftovers_of_failed_tasks_never_show() -> None:
    table = Written()
    table.completed("1_2.deltacommit", base("a", "1"), lies=[base("b", "1")])
    table.completed("3_4.deltacommit", log("a", "3"), lies=[log("a", "3", 1, "7-0-0"), log("c", "3")])
    table.pending("5.deltacommit.requested", log("a", "5"))
    assert table.slices() == {"a": (base("a", "1"), [log("a", "3")])}


def test_logs_of_archived_writes_show() -> None:
    table = Written()
    table.files = [base("a", "1"), log("a", "2")]
    table.completed("3_4.deltacommit", log("a", "3"))
    assert table.slices() == {"a": (base("a", "1"), [log("a", "2"), log("a", "3")])}


def test_a_log_belongs_to_the_slice_that_was_newest_when_it_completed() -> None:
    table = Written()
    table.completed("1_2.deltacommit", base("a", "1"))
    table.completed("3_4.deltacommit", log("a", "3"))
    table.completed("5_9.deltacommit", log("a", "5"))
    table.completed("6_8.commit", base("a", "6"))
    assert table.slices() == {"a": (base("a", "6"), [log("a", "5")])}
    assert table.slices("5") == {"a": (base("a", "1"), [log("a", "3"), log("a", "5")])}


def test_groups_of_logs_alone() -> None:
    table = Written()
    table.completed("1_2.deltacommit", log("a", "1"))
    assert table.slices() == {"a": ("", [log("a", "1")])}
    table.completed("3_4.commit", base("a", "3"))
    assert table.slices() == {"a": (base("a", "3"), [])}
    table.completed("5_6.replacecommit", replaced={"p": ["a"]})
    assert table.slices() == {}


def test_logs_of_changes_are_no_logs_of_rows() -> None:
    table = Written()
    table.completed("1_2.deltacommit", log("a", "1"), log("a", "1", suffix=".cdc"))
    assert table.slices() == {"a": ("", [log("a", "1")])}


def test_what_was_written_twice_shows_once_the_resize_completed() -> None:
    table = Written()
    table.completed("1_2.deltacommit", log("old", "1"))
    table.pending("3.clustering.requested")
    table.completed("4_5.deltacommit", log("old", "4"), log("new", "3"))
    assert table.slices() == {"old": ("", [log("old", "1"), log("old", "4")])}
    table.completed("3_6.replacecommit", base("new", "3"), replaced={"p": ["old"]})
    assert table.slices() == {"new": (base("new", "3"), [log("new", "3")])}
    # As of an instant between: the old groups are still there, and the new ones not yet.
    assert table.slices("2") == {"old": ("", [log("old", "1")])}


def test_what_was_written_for_a_group_that_a_resize_left_out_never_shows() -> None:
    table = Written()
    table.completed("1_2.deltacommit", base("one-0", "1"), base("two-0", "1"))
    table.pending("3.clustering.requested")
    table.completed("4_5.deltacommit", log("one-0", "4"), log("two-0", "4"), log("new-0", "3"), log("left-0", "3"))
    made = {"hudi_ops.ring_children": '{"p":[[7,"new"],[9,null]]}'}
    table.completed("3_6.replacecommit", base("new-0", "3"), replaced={"p": ["one-0"]}, extra=made)
    assert table.slices() == {
        "new-0": (base("new-0", "3"), [log("new-0", "3")]),
        "two-0": (base("two-0", "1"), [log("two-0", "4")]),
    }


def test_logs_of_version_6_name_their_slice() -> None:
    table = Written(layout=1)
    table.completed("1.deltacommit", base("a", "1"))
    table.completed("2.deltacommit", log("a", "1", 1))
    table.files.append(log("a", "1", 2))  # of a failed write, or of a rollback: its blocks tell
    assert table.slices() == {"a": (base("a", "1"), [log("a", "1", 1), log("a", "1", 2)])}
    table.pending("3.compaction.requested")
    table.completed("4.deltacommit", log("a", "3", 1))
    assert table.slices() == {"a": (base("a", "1"), [log("a", "1", 1), log("a", "1", 2), log("a", "3", 1)])}
    assert table.slices("2") == {"a": (base("a", "1"), [log("a", "1", 1), log("a", "1", 2)])}
    table.completed("3.commit", base("a", "3"))
    assert table.slices() == {"a": (base("a", "3"), [log("a", "3", 1)])}


def test_a_group_of_version_6_that_only_has_logs() -> None:
    table = Written(layout=1)
    table.completed("1.deltacommit", log("a", "1"))
    table.pending("2.deltacommit.inflight", log("b", "2"))
    assert table.slices() == {"a": ("", [log("a", "1")])}
