"""Of each file group that some writes wrote: the newest base file among theirs, and the logs that it does not hold yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from hudi_ops.errors import Unsupported
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.view.changes import CompletedWrite, changed_slices, resizes_named


def write(
    time: str,
    completed: str,
    *files: str,
    replaced: Mapping[str, Sequence[str]] | None = None,
    partition: str = "p",
    extra: Mapping[str, str] | None = None,
) -> CompletedWrite:
    stats = tuple(
        WriteStat(file_id="", path=f"{partition}/{name}" if name else "", partition_path=partition) for name in files
    )
    groups = {key: tuple(ids) for key, ids in replaced.items()} if replaced is not None else None
    metadata = CommitMetadata(operation="UPSERT", stats=stats, replaced=groups, extra=extra or {})
    return CompletedWrite(time, completed, "commit", metadata)


def base(group: str, time: str) -> str:
    return f"{group}_0-0-0_{time}.parquet"


def log(group: str, time: str) -> str:
    return f".{group}_{time}.log.1_0-0-0"


def shown(writes: Sequence[CompletedWrite], **options: bool) -> dict[str, tuple[str, list[str]]]:
    return {
        one.file_id: (one.base.instant if one.base else "", [each.instant for each in one.logs])
        for one in changed_slices(writes, **options)
    }


def test_the_newest_base_file_of_each_group() -> None:
    writes = [write("5", "6", base("a", "5")), write("1", "2", base("a", "1"), base("b", "1"), "")]
    assert shown(writes) == {"a": ("5", []), "b": ("1", [])}


def test_replaced_groups_are_left_out() -> None:
    writes = [write("1", "2", base("a", "1"), base("b", "1")), write("3", "4", base("c", "3"), replaced={"p": ["a"]})]
    assert shown(writes) == {"b": ("1", []), "c": ("3", [])}
    assert shown([*writes, write("5", "6", replaced={"q": ["b"]})]) == {"b": ("1", []), "c": ("3", [])}


def test_logs_that_a_compaction_took_are_in_its_base_file() -> None:
    before, after = write("1", "2", log("a", "1")), write("4", "7", log("a", "4"))
    assert shown([before]) == {"a": ("", ["1"])}
    assert shown([before, write("3", "5", base("a", "3")), after]) == {"a": ("3", ["4"])}
    # Requested before the compaction was planned, completed after: it belongs to the new slice.
    assert shown([write("1", "4", log("a", "1")), write("3", "5", base("a", "3"))]) == {"a": ("3", ["1"])}


def test_logs_of_version_6_name_their_base() -> None:
    writes = [write("1", "1", base("a", "1")), write("2", "2", log("a", "1"))]
    assert shown(writes, logs_name_their_base=True) == {"a": ("1", ["1"])}
    assert shown([*writes, write("3", "3", base("a", "3"))], logs_name_their_base=True) == {"a": ("3", [])}


def test_what_a_resize_under_way_was_given_counts_once() -> None:
    twice = write("4", "5", log("old", "4"), log("new", "3"), log("new", "3").replace(".log.1", ".log.2") + ".cdc")
    resize = write("3", "6", base("new", "3"), replaced={"p": ["old"]})
    assert resizes_named([twice]) == ["3"]
    assert resizes_named([twice, resize]) == []
    assert shown([twice]) == {"old": ("", ["4"])}
    assert shown([twice, resize]) == {"new": ("3", ["3"])}
    # It completed before the interval: its groups are the ones that are left, though it is no write of the interval.
    assert {one.file_id for one in changed_slices([twice], earlier=[resize])} == {"new"}


def test_what_was_written_for_a_group_that_a_resize_left_out_is_no_change() -> None:
    twice = write("4", "5", log("two-0", "4"), log("left-0", "3"), log("one-0", "4"), log("new-0", "3"))
    made = {"hudi_ops.ring_children": '{"p":[[7,"new"],[9,null]]}'}
    resize = write("3", "6", base("new-0", "3"), replaced={"p": ["one-0"]}, extra=made)
    assert shown([twice, resize]) == {"new-0": ("3", ["3"]), "two-0": ("", ["4"])}
    assert {one.file_id for one in changed_slices([twice], earlier=[resize])} == {"new-0", "two-0"}


def test_logs_come_in_the_order_in_which_they_are_merged() -> None:
    tenth = log("a", "1").replace(".log.1", ".log.10")
    assert shown([write("2", "3", log("a", "2")), write("1", "4", tenth, log("a", "1"))]) == {
        "a": ("", ["1", "1", "2"])
    }
    (found,) = changed_slices([write("1", "4", tenth, log("a", "1"))])
    assert [one.name for one in found.logs] == [log("a", "1"), tenth]


def test_other_files_are_refused() -> None:
    with pytest.raises(Unsupported, match="a file of an unknown kind"):
        changed_slices([write("1", "2", "a_0-0-0_1.lance")])
