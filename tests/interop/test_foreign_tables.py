"""Tables that Apache Hudi made: adopted, written by us and by Apache Hudi in turn, and read equal by everybody after each turn.

What becomes of a table whose metadata table we dropped is asked of Apache Hudi itself, with its metadata table on and off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.services.inspect.summary import describe_table
from hudi_ops.timeline.names import ms_of_instant
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows
from tests.interop.conftest import HudiRsReader
from tests.interop.expected import completed_instants

SCHEMA = pa.schema([
    ("id", pa.string()),
    ("number", pa.int64()),
    ("part", pa.string()),
    ("site", pa.string()),
    ("value", pa.float64()),
    ("day", pa.date32()),
    ("ts", pa.int64()),
])
WITH_METADATA = {"hoodie.metadata.enable": "true"}
LOCAL = {"hoodie.table.timeline.timezone": "LOCAL"}
ZONE = "America/New_York"
ROUNDS = 3


@dataclass
class Foreign:
    """A table of Apache Hudi beside a dict of what it must hold."""

    path: Path
    peer: HudiPeer
    keys: str
    partition: str
    buckets: int
    options: dict[str, str] = field(default_factory=dict)
    model: dict[int, dict[str, object]] = field(default_factory=dict)
    turns: int = 0

    def rows(self, first: int, last: int) -> pa.Table:
        """Rows of the next turn; they go into the model."""
        self.turns += 1
        fresh = [
            {
                "id": f"k{number}:ä",
                "number": number,
                "part": f"p{number % 2}",
                "site": f"s{number // 2 % 2}",
                "value": number / 8 + self.turns,
                "day": number + self.turns,
                "ts": self.turns,
            }
            for number in range(first, last)
        ]
        self.model.update(zip(range(first, last), fresh, strict=True))
        return pa.Table.from_pylist(fresh, schema=SCHEMA)

    def make(self) -> Foreign:
        """Two writes of Apache Hudi."""
        made = {
            "hoodie.table.name": "theirs",
            "hoodie.datasource.write.recordkey.field": self.keys,
            "hoodie.datasource.write.partitionpath.field": self.partition,
            "hoodie.datasource.write.precombine.field": "ts",
        }
        rows = self.rows(0, 40)
        self.peer.write(self.path, rows, mode="overwrite", buckets=self.buckets, options={**made, **self.options})
        self.theirs(30, 50)
        return self

    def theirs(self, first: int, last: int, **options: str) -> None:
        """An upsert by Apache Hudi."""
        given = {**self.options, **{key.replace("__", "."): value for key, value in options.items()}}
        self.peer.write(self.path, self.rows(first, last), buckets=self.buckets, options=given)

    def check(self, hudi_rs: HudiRsReader, *, options: dict[str, str] | None = None) -> None:
        """Everybody reads the model."""
        ours = Table.open(str(self.path)).read(meta_columns=True)
        assert_same_rows(ours, pa.Table.from_pylist(list(self.model.values()), schema=SCHEMA))
        for found in (self.peer.read(self.path, options=options), hudi_rs(self.path)):
            assert_same_rows(found, ours, with_meta=True)

    def file_ids(self) -> set[str]:
        """Ids of all base files ever written, by partition."""
        return {f"{file.parent.name}/{file.name.split('_')[0]}" for file in self.path.rglob("*-0_*.parquet")}

    def play(self, table: Table, hudi_rs: HudiRsReader) -> None:
        """We and they write in turn: updates, inserts and new partitions."""
        groups = self.file_ids()
        for turn in range(ROUNDS):
            result = table.ingest(self.rows(10 * turn, 50 + 3 * turn))
            assert result.updated + result.inserted == 50 - 7 * turn
            assert self.file_ids() == groups, "a group that Apache Hudi named keeps its name"
            self.check(hudi_rs)
            self.theirs(20 + turn, 52 + 3 * turn)
        self.check(hudi_rs)
        report = verify_table(table.context.storage, deep=True)
        assert report.findings == (), [str(finding) for finding in report.findings]


@pytest.mark.parametrize(
    ("keys", "partition", "buckets"), [("id", "part", 2), ("id,number", "", 3)], ids=["partitioned", "not partitioned"]
)
def test_we_and_apache_hudi_write_its_table_in_turn(
    keys: str, partition: str, buckets: int, tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: HudiRsReader
) -> None:
    foreign = Foreign(tmp_path / "table", apache_hudi, keys, partition, buckets).make()
    foreign.check(hudi_rs)
    for wrong in (None, buckets + 1, buckets * 2):
        with pytest.raises(InvalidRequest, match=f"fit( the keys:)? {buckets} buckets"):
            Table.open(str(foreign.path), buckets=wrong).ingest(foreign.rows(0, 0))
    table = Table.open(str(foreign.path), buckets=buckets)
    assert describe_table(table.context.storage).commit_log == "none"
    foreign.play(table, hudi_rs)
    summary = describe_table(table.context.storage)
    assert (summary.commit_log, summary.buckets, summary.writable) == (
        f"since the table was adopted, newest slot {ROUNDS}",
        buckets,
        True,
    )


def test_a_table_of_version_8(tmp_path: Path, apache_hudi_1_0: HudiPeer, hudi_rs: HudiRsReader) -> None:
    """One key and two partition fields: the complex generator, whose single key release 1.0 writes without its name."""
    foreign = Foreign(tmp_path / "table", apache_hudi_1_0, "id", "part,site", 2).make()
    table = Table.open(str(foreign.path), buckets=2)
    assert (table.config.version, table.config.key_generator) == (8, "COMPLEX")
    foreign.play(table, hudi_rs)


def test_a_dropped_metadata_table(tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: HudiRsReader) -> None:
    foreign = Foreign(tmp_path / "table", apache_hudi, "id", "part", 2, options=WITH_METADATA).make()
    foreign.check(hudi_rs)
    table = Table.open(str(foreign.path), buckets=2)
    done = table.adopt(drop_metadata_table=True)
    assert set(done.dropped) == {"column_stats", "files", "partition_stats"}
    assert not [file for file in (foreign.path / ".hoodie" / "metadata").rglob("*") if file.is_file()]
    foreign.check(hudi_rs, options=WITH_METADATA)
    table.ingest(foreign.rows(5, 55))
    foreign.check(hudi_rs, options=WITH_METADATA)
    foreign.theirs(10, 56, hoodie__metadata__enable="false")
    assert table.config.metadata_partitions == ()
    table.ingest(foreign.rows(0, 57))
    foreign.check(hudi_rs)
    # A default writer builds it again, right, our files included; from then on we keep it.
    foreign.theirs(20, 58)
    assert "files" in table.config.metadata_partitions
    foreign.check(hudi_rs)
    foreign.check(hudi_rs, options=WITH_METADATA)
    table.ingest(foreign.rows(3, 59))
    foreign.check(hudi_rs, options=WITH_METADATA)
    found = verify_table(table.context.storage, deep=True, index=True).findings
    assert [str(one) for one in found if one.severity == "error"] == []
    # Nothing but the properties decides: a folder that is left over is built anew.
    table.adopt(drop_metadata_table=True)
    table.ingest(foreign.rows(0, 60))
    foreign.check(hudi_rs)


def test_tables_whose_index_cannot_be_reproduced(tmp_path: Path, apache_hudi: HudiPeer) -> None:
    made = {
        "hoodie.table.name": "theirs",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
    }
    rules = {
        "hoodie.bucket.index.partition.rule.type": "regex",
        "hoodie.bucket.index.partition.expressions": "p0,2;p1,3",
    }
    for name, buckets, options, said in (
        ("bloom", None, {}, "of another index"),
        ("by-partition", 4, rules, "partitions with numbers of their own"),
    ):
        foreign = Foreign(tmp_path / name, apache_hudi, "id", "part", 2)
        apache_hudi.write(
            foreign.path, foreign.rows(0, 40), mode="overwrite", buckets=buckets, options={**made, **options}
        )
        before = {file: file.read_bytes() for file in foreign.path.rglob("*") if file.is_file()}
        for given in (2, 4):
            with pytest.raises(Unsupported, match=said):
                Table.open(str(foreign.path), buckets=given).ingest(foreign.rows(0, 1))
        assert before == {file: file.read_bytes() for file in foreign.path.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def far_away() -> Iterator[HudiPeer]:
    """Apache Hudi on a machine in another time zone. A Java of its own: its generator keeps one last instant for all tables."""
    with HudiPeer(timezone=ZONE) as peer:
        yield peer


def test_a_table_in_local_time(tmp_path: Path, far_away: HudiPeer, hudi_rs: HudiRsReader) -> None:
    foreign = Foreign(tmp_path / "table", far_away, "id", "part", 2, options=LOCAL).make()
    offset = datetime.now(ZoneInfo(ZONE)).strftime("%z")
    with pytest.raises(InvalidRequest, match=re.escape(f"suggest UTC{offset[:3]}:{offset[3:]}")):
        Table.open(str(foreign.path), buckets=2).adopt()
    with pytest.raises(InvalidRequest, match="is in the future"):
        Table.open(str(foreign.path), buckets=2, timezone="Pacific/Honolulu").adopt()
    table = Table.open(str(foreign.path), buckets=2, timezone=ZONE)
    foreign.play(table, hudi_rs)
    instants = completed_instants(foreign.path)
    assert instants == sorted(instants)
    now_ms = table.context.clock.now_ms()
    assert all(0 < now_ms - ms_of_instant(instant, ZONE) < 600_000 for instant in instants)
    # As of a moment, named in any zone: between our second write and theirs.
    at = instants[4]
    iso = f"{at[:4]}-{at[4:6]}-{at[6:8]}T{at[8:10]}:{at[10:12]}:{at[12:14]}.{at[14:]}"
    offset = ZoneInfo(ZONE).utcoffset(datetime.fromisoformat(iso))
    assert offset is not None
    minutes = int(offset.total_seconds() // 60)
    there = f"{iso}{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
    then = Table.open(str(foreign.path)).read(as_of=there, meta_columns=True)
    assert_same_rows(then, far_away.read(foreign.path, at), with_meta=True)
    assert then.num_rows < len(foreign.model)
