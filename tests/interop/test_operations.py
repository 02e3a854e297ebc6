"""Every write operation: ours read by Apache Hudi and the `hudi` package, as of every instant; then theirs and ours in turn.

The expected rows are a dict's. Upserts carry a larger ordering value each time, so the dict needs no rule but the operation's own.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows
from tests.interop.expected import completed_instants, readable_instants, some
from tests.tables import VERSIONED as SCHEMA

HudiRsReader = Callable[..., pa.Table]
BUCKETS = 2
REPLACING = {"insert_overwrite", "insert_overwrite_table", "delete_partition", "truncate"}


def place(number: int) -> str:
    return f"p{number % 3}"


class Story:
    """A table, what it must hold, and what it held at every instant."""

    def __init__(self, folder: Path, table_type: Any, partitioned: bool) -> None:
        self.path = folder / "table"
        self.table = Table.create(
            str(self.path),
            name="ops",
            record_key=["id"],
            schema=SCHEMA,
            partition_by=["part"] if partitioned else [],
            ordering="ts",
            table_type=table_type,
            buckets=BUCKETS,
            metadata=False,
            clean={"automatic": False},  # the checks read as of every instant
            archive={"automatic": False},
        )
        self._partitioned = partitioned
        self._time = 0
        self.rows: dict[str, dict[str, Any]] = {}
        self.history: dict[str, list[dict[str, Any]]] = {}
        self.note()

    def note(self) -> None:
        """Remembers the rows as those of the newest instant."""
        instant = completed_instants(self.path)[-1]
        assert instant not in self.history
        self.history[instant] = list(self.rows.values())

    def batch(self, numbers: list[int]) -> pa.Table:
        """Rows with values of their own, newer than all before."""
        self._time += 1
        rows = [
            {"id": f"k{n}", "part": place(n), "value": n + 1000 * self._time, "ts": self._time}
            for n in sorted(set(numbers))
        ]
        return pa.Table.from_pylist(rows, schema=SCHEMA)

    def expect(self, operation: str, numbers: list[int], data: pa.Table | None) -> None:
        """What an operation does to the rows."""
        touched = {place(n) for n in numbers}
        if operation in {"insert_overwrite_table", "truncate"} or (operation in REPLACING and not self._partitioned):
            self.rows = {}
        elif operation in REPLACING:
            self.rows = {key: row for key, row in self.rows.items() if row["part"] not in touched}
        if operation == "delete":
            for n in numbers:
                self.rows.pop(f"k{n}", None)
        elif data is not None:
            self.rows |= {row["id"]: row for row in data.to_pylist()}
        self.note()

    def ours(self, operation: str, *numbers: int) -> None:
        """One write by us."""
        data = None
        if operation == "truncate":
            self.table.truncate()
        elif operation == "delete_partition":
            self.table.delete_partition(sorted({f"part={place(n)}" for n in numbers}))
        else:
            data = self.batch(list(numbers))
            self.table.ingest(data, operation)
        self.expect(operation, list(numbers), data)

    def theirs(self, hudi: HudiPeer, operation: str, *numbers: int) -> None:
        """One write by Apache Hudi, with the same buckets."""
        data = self.batch(list(numbers))
        options = {}
        if operation == "delete_partition":
            names = ",".join(sorted({f"part={place(n)}" for n in numbers}))
            options = {"hoodie.datasource.write.partitions.to.delete": names}
        hudi.write(self.path, data, operation, buckets=BUCKETS, options=options)
        self.expect(operation, list(numbers), None if operation in {"delete_partition", "delete"} else data)

    def check(self, instant: str | None, *readers: Callable[..., pa.Table]) -> None:
        """Everybody reads the same rows; at an instant, those that it held."""
        rows = self.history[instant or max(self.history)]
        ours = self.table.read(as_of=instant, meta_columns=True)
        assert_same_rows(ours, pa.Table.from_pylist(rows, schema=SCHEMA))
        for read in readers:
            assert_same_rows(read(self.path, instant), ours, with_meta=True)


TABLES = [("cow", True), ("cow", False)]


@pytest.fixture(params=TABLES, ids=["cow-partitioned", "cow-flat"])
def story(request: pytest.FixtureRequest, tmp_path: Path) -> Story:
    return Story(tmp_path, *request.param)


@pytest.mark.rotate(shares=2)
def test_each_operation_by_us_then_by_apache_hudi(story: Story, apache_hudi: HudiPeer, hudi_rs: HudiRsReader) -> None:
    readers = (apache_hudi.read, hudi_rs)
    partitioned = story._partitioned
    story.ours("bulk_insert", *range(12))
    story.ours("upsert", 0, 1, 2, 13)
    story.ours("bulk_insert", 20, 21)  # into buckets that exist
    story.ours("insert_overwrite", 0, 3, 30)
    story.ours("upsert", 0, 33, 1)
    if partitioned:
        story.ours("delete_partition", 1)
    story.ours("insert", 100, 103, 104)
    story.ours("insert_overwrite_table", 2, 5, 40)
    story.ours("delete", 5)
    story.ours("truncate")
    instants = sorted(story.history) if partitioned else []
    asked = {None, *some(instants, 0)} if partitioned else {None}
    for instant in (None, *instants):
        story.check(instant, *(readers if instant in asked else (hudi_rs,)))
    # Apache Hudi writes on from what we replaced, and we from what it replaced.
    story.theirs(apache_hudi, "upsert", *range(9))
    story.ours("upsert", 0, 4, 50)
    story.theirs(apache_hudi, "insert_overwrite", 0, 6, 60)
    story.check(None, *readers)
    story.ours("upsert", 0, 61, 60, 1)
    story.ours("insert_overwrite", 0, 63)
    story.theirs(apache_hudi, "upsert", 0, 63, 64, 66, 2)
    story.check(None, *readers)
    if partitioned:
        story.theirs(apache_hudi, "delete_partition", 0)
        story.ours("upsert", 0, 1, 69)
        story.ours("delete_partition", 0, 1)
        story.theirs(apache_hudi, "upsert", 0, 3, 70)
        story.check(None, *readers)
    story.theirs(apache_hudi, "insert_overwrite_table", 1, 2)
    story.ours("insert", 0, 4)
    story.theirs(apache_hudi, "upsert", 0, 1, 2, 4, 80)
    story.ours("insert_overwrite_table", 0, 90)
    story.theirs(apache_hudi, "insert_overwrite_table", 0, 1, 91)
    story.ours("upsert", 0, 1, 91, 92)
    # By now Apache Hudi has cleaned what it may: file groups that either of us replaced.
    for instant in (None, *readable_instants(story.path)[-5:]):
        story.check(instant, *readers)
    report = verify_table(story.table.context.storage, deep=True)
    assert report.ok, [str(finding) for finding in report.findings]


def test_plans_and_metadata_are_those_of_apache_hudi(tmp_path: Path, apache_hudi: HudiPeer) -> None:
    """The same operations on two tables: what both programs put on the timeline differs in names and numbers only."""
    said: list[dict[str, list[Mapping[str, Any]]]] = []
    for name in ("ours", "theirs"):
        story = Story(tmp_path / name, "cow", partitioned=True)
        story.ours("upsert", *range(6))
        write = story.ours if name == "ours" else lambda *given, s=story: s.theirs(apache_hudi, *given)
        write("insert_overwrite", 0, 3)
        write("delete_partition", 1)
        write("insert_overwrite_table", 0, 2)
        said.append({state: records(story.path, state) for state in ("requested", "inflight", "")})
    ours, theirs = said
    assert ours["requested"] == theirs["requested"]
    for state in ("inflight", ""):
        for mine, other in zip(ours[state], theirs[state], strict=True):
            assert mine.keys() == other.keys()
            assert mine["operationType"] == other["operationType"]
    for mine, other in zip(ours[""], theirs[""], strict=True):
        assert {p for p, ids in mine["partitionToReplaceFileIds"].items() if ids} == {
            p for p, ids in other["partitionToReplaceFileIds"].items() if ids
        }
        assert mine["partitionToWriteStats"].keys() == other["partitionToWriteStats"].keys()


def records(path: Path, state: str) -> list[Mapping[str, Any]]:
    """Replace commits' files of one state, decoded, each with its schema's record name."""
    found = []
    for file in sorted((path / ".hoodie" / "timeline").glob(f"*.replacecommit{'.' if state else ''}{state}")):
        reader = fastavro.reader(io.BytesIO(file.read_bytes()))
        schema = reader.writer_schema
        (record,) = list(reader)
        found.append({**record, "record": schema["name"] if isinstance(schema, dict) else ""})
    return found


def test_apache_hudi_cleans_what_we_replaced(tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: HudiRsReader) -> None:
    story = Story(tmp_path, "cow", partitioned=True)
    story.ours("upsert", *range(12))
    story.ours("insert_overwrite", 0)
    story.ours("delete_partition", 1)
    for number in range(3):
        story.ours("upsert", number, 30 + number)
    replaced = [ids for one in records(story.path, "") for ids in one["partitionToReplaceFileIds"].values()]
    apache_hudi.sql("call run_clean(table => 'ops', retain_commits => 1)", tables={"ops": story.path})
    left = {file.name.partition("_")[0] for file in story.path.glob("part=*/*.parquet")}
    assert not left & {group for ids in replaced for group in ids}, "groups that we replaced were not cleaned"
    story.check(None, apache_hudi.read, hudi_rs)
    story.ours("upsert", 1, 2, 3)
    story.theirs(apache_hudi, "upsert", 1, 2, 3)
    story.check(None, apache_hudi.read, hudi_rs)
