"""Which log blocks count: by the instants of their writers, and by what later blocks say of earlier ones."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hudi_ops.config.table import TableConfig
from hudi_ops.errors import Unsupported
from hudi_ops.files.log.log_file import LogBlock
from hudi_ops.files.log.visible_blocks import BlockInstants, visible_blocks
from hudi_ops.formats.log.blocks import BlockKind, HeaderKey
from hudi_ops.timeline.active import timeline_of
from hudi_ops.timeline.names import parse_file_name

ALL = BlockInstants("9")


def block(number: int, instant: str, kind: BlockKind = BlockKind.PARQUET_DATA, **headers: str) -> LogBlock:
    named: Mapping[HeaderKey, str] = {HeaderKey[key]: value for key, value in headers.items()}
    return LogBlock(number, kind, instant, named, 0, 0, 0)


def rollback(number: int, target: str) -> LogBlock:
    return block(number, "8", BlockKind.COMMAND, TARGET_INSTANT_TIME=target, COMMAND_BLOCK_TYPE="0")


def shown(instants: BlockInstants, *blocks: LogBlock) -> list[int]:
    return [one.number for one in visible_blocks(blocks, instants, "p", "t")]


def test_blocks_of_later_instants_are_passed_over() -> None:
    blocks = [block(0, "1"), block(1, "5", BlockKind.DELETE), block(2, "6")]
    assert shown(BlockInstants("5"), *blocks) == [0, 1]
    # A file named by a completed instant is seen whole: its blocks' writers need not be known.
    assert shown(BlockInstants("6"), *blocks) == [0, 1, 2]


def test_blocks_of_writers_that_have_not_completed_are_passed_over() -> None:
    """They are in log files that carry the instant of a resize, which completed before their writers."""
    assert shown(BlockInstants("5", pending=frozenset({"2"})), block(0, "1"), block(1, "2"), block(2, "3")) == [0, 2]


def test_in_layout_1_each_blocks_writer_must_have_completed() -> None:
    blocks = [block(0, "1"), block(1, "3"), block(2, "4"), block(3, "5")]
    assert shown(BlockInstants("5", completed=frozenset({"3", "5"}), start="2"), *blocks) == [0, 1, 3]


def test_for_changes_only_those_writers_count() -> None:
    blocks = [block(0, "1"), block(1, "3"), block(2, "4")]
    assert shown(BlockInstants("9", only=frozenset({"3"})), *blocks) == [1]


def test_a_rollback_takes_back_what_stands_before_it() -> None:
    assert shown(ALL, block(0, "1"), block(1, "2"), rollback(2, "2"), block(3, "2")) == [0, 3]
    assert shown(ALL, rollback(0, "1"), block(1, "1")) == [1]


def test_a_compacted_block_stands_for_the_instants_that_it_names() -> None:
    compacted = block(3, "5", COMPACTED_BLOCK_TIMES="1, 2")
    assert shown(ALL, block(0, "1"), block(1, "2", BlockKind.DELETE), block(2, "3"), compacted, block(4, "6")) == [
        2,
        3,
        4,
    ]
    # A compaction of compacted blocks names them, and they name others.
    assert shown(ALL, block(0, "1"), compacted, block(4, "7", COMPACTED_BLOCK_TIMES="5")) == [4]


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        (block(0, "1", BlockKind.HFILE_DATA), "HFILE_DATA"),
        (block(0, "1", BlockKind.CDC_DATA), "CDC_DATA"),
        (block(0, "1", IS_PARTIAL="true"), "IS_PARTIAL"),
        (block(0, "1", BlockKind.COMMAND, COMMAND_BLOCK_TYPE="7"), "command block of type 7"),
    ],
)
def test_what_cannot_be_merged_is_refused(odd: LogBlock, says: str) -> None:
    with pytest.raises(Unsupported) as refused:
        shown(ALL, odd)
    assert says in refused.value.found
    assert (refused.value.table, refused.value.instant) == ("t", "1")
    assert "compact" in refused.value.next_step


def test_what_does_not_count_is_not_refused() -> None:
    assert shown(BlockInstants("5"), block(0, "6", BlockKind.HFILE_DATA), block(1, "1", IS_PARTIAL="false")) == [1]
    assert shown(ALL, block(0, "1", BlockKind.HFILE_DATA), rollback(1, "1")) == []


def config(layout: int) -> TableConfig:
    return TableConfig(name="t", version=9 if layout == 2 else 6, layout=layout, raw={})


def test_instants_of_a_timeline() -> None:
    names = ["1_2.deltacommit", "3_9.deltacommit", "5.deltacommit.inflight", "6_7.commit"]
    timeline = timeline_of([file for name in names if (file := parse_file_name(name, 2))], ".hoodie/timeline", 2)
    assert BlockInstants.of(config(2), timeline) == BlockInstants(
        "6", None, "1", None, frozenset({"1", "3"}), frozenset({"5"})
    )
    assert BlockInstants.of(config(2), timeline, as_of="4") == BlockInstants(
        "3", None, "1", None, frozenset({"1", "3"}), frozenset({"5"})
    )
    names = ["1.deltacommit", "3.deltacommit", "5.deltacommit.inflight"]
    timeline = timeline_of([file for name in names if (file := parse_file_name(name, 1))], ".hoodie", 1)
    assert BlockInstants.of(config(1), timeline) == BlockInstants("3", frozenset({"1", "3"}), "1")
    assert BlockInstants.of(config(1), timeline, as_of="2") == BlockInstants("1", frozenset({"1"}), "1")
