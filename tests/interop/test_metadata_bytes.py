"""What we would have told the metadata table of a commit of Apache Hudi, held against what it told it itself, field by field.

Apache Hudi commits; from that commit's data files and its commit file our delta maker makes the delta of the same instant, which
is decoded by the independent reader of `metadata_dump`. Partition, file group, kind of record, key and every field have to be the
same, but for what docs/format §14.9 lists.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest

from hudi_ops.commit.apply.metadata_delta import WriteDeltaMaker, wanted_facts
from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.config.table import IndexName
from hudi_ops.files.base.base_file import stored_schema
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.statistics.collect import FileStatisticsTask, statistics_of_file
from hudi_ops.metadata.writer.delta import MetadataDelta
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import table_schema
from tests.interop.apache_hudi import HudiPeer
from tests.interop.game import Game, Rules
from tests.interop.metadata_dump import FOLDER, MetadataRow, metadata_rows
from tests.interop.our_rows import Row, row

Identity = tuple[str, str, str, str]
Record = dict[str, Any]
PARTITIONS = {"files", "column_stats", "partition_stats", "bloom_filters", "record_index"}
ALONE = {
    ("record_index", "log", "ours"): "keys of log files that are there already: nobody looked up which they are",
    (
        "record_index",
        "delete",
        "theirs",
    ): "deletes of log files that are ordered, or beside another index: a row elsewhere may live",
    ("partition_stats", "log", "theirs"): "of a log file of deletes: it changes no range",
}
"""What only one of both writes, and only where there are log files."""
CASES = [("bloom", "mor"), ("record_index", "cow"), ("bloom", "cow"), ("record_index", "mor")]
ENDS = ("minValue", "maxValue")
COUNTS = ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")
NOTHINGS = (None, False, 0, b"\x00")
"""What Apache Hudi says of a column of nulls."""


@pytest.mark.rotate(shares=4)
@pytest.mark.parametrize(("index", "kind"), CASES)
def test_our_records_of_a_commit_are_those_of_apache_hudi(
    index: IndexName, kind: Literal["cow", "mor"], tmp_path: Path, apache_hudi: HudiPeer
) -> None:
    rules = Rules.looking_up(kind, index, metadata=True, has_all_partitions=True)
    game = Game(tmp_path / "table", rules, 3, apache_hudi)
    table = game.begin(ours=False)
    session = table._session
    found: Counter[str] = Counter()
    for number, (operation, rows) in enumerate(_writes(), 1):
        before = _completed(session.loader.load())
        game.theirs(rows, operation)
        state = session.loader.load()
        (time,) = _completed(state) - before
        theirs = [one for one in metadata_rows(game.path) if one.instant == time]
        shadow = tmp_path / f"ours-{number}"
        _lay_out(_our_delta(session, state, time), shadow)
        ours = metadata_rows(shadow)
        said = f"{operation} at {time}"
        found += _compare(_identified(ours), _identified(theirs), said)
    assert kind == "mor" or not found.pop("alone", 0)
    assert set(found) - {"alone"} == PARTITIONS


def _writes() -> Iterator[tuple[str, list[Row]]]:
    yield "upsert", [row(number, 1, 10) for number in range(0, 60, 2)]  # updates, and new keys
    yield "upsert", [row(number, 2, 20) for number in (3, 6, 12)]  # few rows of one partition
    yield "delete", [row(number, 2, 30) for number in (0, 6, 10, 30)]
    yield "upsert", [row(number, 3, 40, deleted=number % 4 == 0 or None) for number in range(8, 40, 4)]


def _completed(state: TableState) -> set[str]:
    return {one.time for one in state.timeline.completed_writes}


def _our_delta(session: Session, state: TableState, time: str) -> MetadataDelta:
    """The delta of this commit as our writer would have made it, who knows its own files."""
    (instant,) = (one for one in state.timeline.completed_writes if one.time == time)
    metadata = session.commits.metadata(state.timeline, instant)
    assert metadata is not None
    plain = table_schema(state.config, state.timeline, session.commits)
    wanted = wanted_facts(session, state, plain)
    template = FileStatisticsTask(
        session.ctx.storage,
        "",
        0,
        stored_schema(plain, state.config.populate_meta_fields),
        wanted,
        rules=MergeRules.of(state.config, plain),
    )
    facts = [statistics_of_file(_task(template, stat)) for stat in metadata.stats]
    write = Write(metadata.operation, metadata.stats, facts=facts, wanted=wanted)
    attempt = cast(Attempt, SimpleNamespace(instant=time, epoch=0, begun=state))
    maker = WriteDeltaMaker(session, attempt, write, plain)
    maker.make(state)
    assert maker.fits(state)
    path = maker.path_at("", state)
    return MetadataDelta.from_bytes(session.ctx.storage.get(path), path)


def _task(template: FileStatisticsTask, stat: WriteStat) -> FileStatisticsTask:
    previous = None
    if stat.prev_base_file and not stat.file_name.startswith("."):
        previous = f"{stat.partition_path}/{stat.prev_base_file}"
    return FileStatisticsTask(
        template.storage,
        stat.path,
        stat.file_size_in_bytes,
        template.schema,
        template.wanted,
        rules=template.rules,
        previous=previous,
    )


def _lay_out(delta: MetadataDelta, folder: Path) -> None:
    for path, body in delta.files:
        assert path.startswith(FOLDER)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(body)
    assert CommitMetadata.from_bytes(delta.commit, "delta commit").stats


def _identified(rows: Sequence[MetadataRow]) -> dict[Identity, Record]:
    found = {(one.partition, one.group, one.kind, one.key): one.record for one in rows}
    assert len(found) == len(rows), "a key twice in one group"
    return found


def _compare(ours: dict[Identity, Record], theirs: dict[Identity, Record], said: str) -> Counter[str]:
    """Compares all, and counts: by partition the records of both, and those of one alone."""
    found: Counter[str] = Counter()
    for place in ours.keys() ^ theirs.keys():
        whose = "ours" if place in ours else "theirs"
        assert (place[0], place[2], whose) in ALONE, f"{said}: only {whose}: {place}"
        found["alone"] += 1
    for place in ours.keys() & theirs.keys():
        mine, other = dict(ours[place]), dict(theirs[place])
        if place[2] != "delete" and place[0] in {"column_stats", "partition_stats"}:
            range_, of_hudi = mine.pop("ColumnStatsMetadata"), other.pop("ColumnStatsMetadata")
            compare = _compare_file if place[0] == "column_stats" else _compare_partition
            compare(range_, of_hudi, f"{said}: {place}")
        assert mine == other, f"{said}: {place}"
        found[place[0]] += 1
    return found


def _compare_file(mine: Record, theirs: Record, said: str) -> None:
    """The range of a file: ends are compared unless Apache Hudi's tell nothing; all else is the same."""
    told = _ends_told(mine, theirs, said)
    for name, value in theirs.items():
        assert mine[name] == value or (name in ENDS and not told), f"{said}: {name}: {mine} is not {theirs}"


def _compare_partition(mine: Record, theirs: Record, said: str) -> None:
    """The range of a partition: ours is of the write's files and widens what is there, theirs is of all files, and replaces it."""
    assert (mine["isTightBound"], theirs["isTightBound"]) == (False, True), said
    for name in theirs.keys() - {*ENDS, *COUNTS, "isTightBound"}:
        assert mine[name] == theirs[name], f"{said}: {name}"
    assert all(mine[name] <= theirs[name] for name in COUNTS), said
    if mine["valueCount"] == theirs["valueCount"]:  # the write's files are all there are
        _compare_file({**mine, "isTightBound": True}, theirs, said)
    elif _ends_told(mine, theirs, said) and "BytesWrapper" not in (mine["minValue"] or (theirs["minValue"] or ""))[0]:
        (_, least), (_, greatest) = theirs["minValue"], theirs["maxValue"]
        assert mine["minValue"] is None or least <= mine["minValue"][1], said
        assert mine["maxValue"] is None or mine["maxValue"][1] <= greatest, said


def _ends_told(mine: Record, theirs: Record, said: str) -> bool:
    """Whether Apache Hudi's ends tell something: not of a column of nulls, and not of one with NaN."""
    if mine["nullCount"] == mine["valueCount"]:
        assert mine["minValue"] is None is mine["maxValue"], said
        assert theirs["nullCount"] < theirs["valueCount"] or _value(theirs["minValue"]) in NOTHINGS, said
        return mine["valueCount"] == 0
    has_nan = mine["maxValue"] is not None and mine["maxValue"][1] == math.inf
    return not (has_nan and (theirs["maxValue"][1] == 0 or math.isnan(theirs["maxValue"][1])))


def _value(end: tuple[str, Any] | None) -> Any:
    return None if end is None else end[1]
