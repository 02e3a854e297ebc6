"""Who follows every advice of `verify` ends with a table in which it finds nothing.

Each damage is done to a copy of one table. Advice is followed as a person follows it: commands are run, files are restored from the
copy or deleted as the finding says. A finding without advice, or whose advice is to do nothing, must be harmless clutter.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.storage.local import LocalStorage
from hudi_ops.timeline.commit_log import slot_path
from hudi_ops.timeline.names import inflight_name, instant_of_ms, ms_of_instant, requested_name
from hudi_ops.verify import Finding, verify_table

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.int64()), ("city", pa.string())])
STEPS_MAX = 12
COMMAND = re.compile(r"`hudi-ops ([^`]+)`")


def rows(numbers: range, ts: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": f"k{n}", "ts": ts, "v": ts, "city": f"c{n % 2}"} for n in numbers], SCHEMA)


@dataclass
class Patient:
    """A damaged table, the copy to restore from, and the program."""

    path: Path
    copy: Path
    call: Callable[..., Any]

    def findings(self) -> list[Finding]:
        """What is wrong, and is not harmless clutter about which nothing is to be done."""
        found = verify_table(LocalStorage(str(self.path)), deep=True, index=True).findings
        is_idle = {one for one in found if not one.next_step or one.next_step.startswith("nothing")}
        return [one for one in found if one.severity == "error" or one not in is_idle]

    def follow(self, finding: Finding) -> None:
        """Do what a finding advises."""
        advice, place = finding.next_step, self.path / finding.where if finding.where else None
        command = COMMAND.search(advice)
        if command:
            words = [str(self.path) if word == "TABLE" else word for word in command[1].split()]
            # Names of commands alone mean the command for this table.
            words += [str(self.path)] if str(self.path) not in words else []
            words += ["--yes"] if words[0] == "repair-properties" else []
            done = self.call(*words)
            assert done.code == 0, (finding, done.err)
        elif copied := re.search(r"replace the file by (\S+)", advice):
            shutil.copy2(self.path / copied[1], self.path / finding.where)
        elif "copy the file from a partition" in advice and place is not None:
            shutil.copy2(self.path / "city=c0/.hoodie_partition_metadata", place)
        elif "restore" in advice and place is not None:
            source = self.copy / finding.where
            assert source.exists(), finding
            shutil.copytree(source, place, dirs_exist_ok=True) if source.is_dir() else shutil.copy2(source, place)
        elif re.search(r"delete|move it|remove", advice) and place is not None:
            shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        elif "next write" in advice or "any write" in advice or "a write" in advice:
            assert self.call("recover", self.path).code == 0, finding
        elif "compact its file group" in advice:
            assert self.call("compact", self.path).code == 0, finding
        else:
            pytest.fail(f"nobody can follow this advice by itself: {finding}")


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A merge-on-read table with base files, log files, a ledger, and a metadata table with a record index."""
    folder = tmp_path_factory.mktemp("healthy")
    path = folder / "t"
    table = Table.create(
        str(path), name="t", record_key=["id"], schema=SCHEMA, partition_by=["city"], ordering="ts",
        table_type="mor", index="record_index")  # fmt: skip
    table.ingest(rows(range(20), 1))
    table.ingest(rows(range(4), 2))
    landing = folder / "landing"
    landing.mkdir()
    (landing / "more.csv").write_text("id,ts,v,city\nk30,3,3,c0\n")
    table.ingest_folder(str(landing))
    assert verify_table(table.context.storage, deep=True, index=True).findings == ()
    return path


@pytest.fixture
def patient(healthy: Path, tmp_path: Path, call: Callable[..., Any]) -> Patient:
    path = tmp_path / "t"
    shutil.copytree(healthy, path)
    return Patient(path, healthy, call)


def one(path: Path, pattern: str) -> Path:
    """The last file of a pattern, by name."""
    return sorted(path.glob(pattern))[-1]


def blot(file: Path) -> None:
    body = bytearray(file.read_bytes())
    middle = len(body) // 2
    body[middle : middle + 200] = bytes(len(body[middle : middle + 200]))
    file.write_bytes(body)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-50])


def old(file: Path) -> Path:
    """The file as of an hour ago."""
    os.utime(file, (time.time() - 3_600,) * 2)
    return file


def foreign_write(path: Path, *, heartbeat: bool) -> None:
    """A write of Apache Hudi that died: one data file with its marker, and a heartbeat that stopped, or none."""
    newest = one(path, ".hoodie/timeline/*_*.deltacommit").name
    instant = instant_of_ms(ms_of_instant(newest[18:35]) + 1)
    for name in (requested_name(instant, "deltacommit"), inflight_name(instant, "deltacommit")):
        (path / ".hoodie/timeline" / name).touch()
    name = f"city=c0/11111111-1111-4111-8111-111111111111-0_0-1-2_{instant}.parquet"
    (path / name).write_bytes(b"half a file")
    folder = path / ".hoodie/.temp" / instant
    folder.mkdir(parents=True)
    (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    (folder / "MARKERS0").write_bytes(f"{name}.marker.CREATE\ncity=c0//x.marker.CREATE\n".encode())
    if heartbeat:
        beat = path / ".hoodie/.heartbeat" / instant
        beat.parent.mkdir(exist_ok=True)
        beat.touch()
        old(beat)


def edit_properties(path: Path, before: str, after: str) -> None:
    file = path / ".hoodie/hoodie.properties"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "base file missing": lambda path: one(path, "city=*/[!.]*.parquet").unlink(),
    "base file cut off": lambda path: cut(one(path, "city=*/[!.]*.parquet")),
    "log file missing": lambda path: one(path, "city=*/.*.log.*").unlink(),
    "log file damaged": lambda path: blot(one(path, "city=*/.*.log.*")),
    "partition metadata missing": lambda path: (path / "city=c1/.hoodie_partition_metadata").unlink(),
    "partition metadata damaged": lambda path: (path / "city=c1/.hoodie_partition_metadata").write_bytes(b"?"),
    "stray file": lambda path: (path / "city=c0/notes.txt").write_text("hello"),
    "stray Parquet file": lambda path: shutil.copy2(one(path, "city=c0/[!.]*.parquet"), path / "city=c0/copy.parquet"),
    "completed file empty": lambda path: one(path, ".hoodie/timeline/*_*.deltacommit").write_bytes(b""),
    "completed file damaged": lambda path: blot(one(path, ".hoodie/timeline/*_*.deltacommit")),
    "completed file missing": lambda path: one(path, ".hoodie/timeline/*_*.deltacommit").unlink(),
    "slot damaged": lambda path: (path / slot_path(2)).write_bytes(b"{"),
    "slot missing": lambda path: (path / slot_path(2)).unlink(),
    "ledger missing": lambda path: one(path, ".hoodie/.ingest/*/*.json").unlink(),
    "ledger damaged": lambda path: one(path, ".hoodie/.ingest/*/*.json").write_bytes(b"[["),
    "properties edited": lambda path: edit_properties(
        path, "hive_style_partitioning=true", "hive_style_partitioning=false"
    ),
    "properties damaged": lambda path: (path / ".hoodie/hoodie.properties").write_bytes(b"hoodie"),
    "column statistics cut off": lambda path: cut(one(path, ".hoodie/metadata/column_stats/*.log.*")),
    "record index missing": lambda path: shutil.rmtree(path / ".hoodie/metadata/record_index"),
    "metadata table behind": lambda path: one(path, ".hoodie/metadata/.hoodie/timeline/*_*.deltacommit").unlink(),
    "metadata table missing": lambda path: shutil.rmtree(path / ".hoodie/metadata"),
    "dead write of Apache Hudi": lambda path: foreign_write(path, heartbeat=True),
    "write of Apache Hudi without a heartbeat": lambda path: foreign_write(path, heartbeat=False),
    "inflight without its requested file": lambda path: (
        path / ".hoodie/timeline" / inflight_name("20200101000000000", "commit")
    ).touch(),
    "lease of nobody": lambda path: old(_touched(path / ".hoodie/.heartbeat/20200101000000000")),
}


def _touched(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    return file


def chain(patient: Patient) -> Iterator[list[Finding]]:
    """Findings step by step: the advice of the first one, which is the worst, is followed each time."""
    for _ in range(STEPS_MAX):
        findings = patient.findings()
        yield findings
        patient.follow(findings[0])


@pytest.mark.parametrize("damage", DAMAGES)
def test_following_every_advice_ends_with_a_whole_table(patient: Patient, damage: str) -> None:
    before = sorted(Table.open(str(patient.copy)).read(["id", "v"]).to_pylist(), key=lambda row: row["id"])
    DAMAGES[damage](patient.path)
    seen = []
    for findings in chain(patient):
        seen.append([str(one) for one in findings])
        if not findings:
            break
    assert seen[0], "the damage is found"
    assert seen[-1] == [], seen
    after = Table.open(str(patient.path)).read(["id", "v"]).to_pylist()
    assert sorted(after, key=lambda row: row["id"]) == before
