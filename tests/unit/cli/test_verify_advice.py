"""Who follows every advice of `verify` ends with a table in which it finds nothing.

Each damage is done to a copy of one table. Advice is followed as a person follows it: commands are run, files are restored from the
copy or deleted as the finding says. A finding without advice, or whose advice is to do nothing, must be harmless clutter.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_ops.verify as package
from hudi_ops import Table
from hudi_ops.config.table import BACKUP_PATH, PROPERTIES_PATH
from hudi_ops.storage.local import LocalStorage
from hudi_ops.verify import Finding, verify_table
from tests.unit.cli.table_damages import ADVISES_OTHERS, DAMAGES, NOT_FOLLOWED, SCHEMA, nothing, rows
from tests.unit.verify.breaking import named_in

STEPS_MAX = 12
COMMAND = re.compile(r"`hudi-ops ([^`]+)`")


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
        return [
            one
            for one in found
            if one.invariant not in ADVISES_OTHERS and (one.severity == "error" or one not in is_idle)
        ]

    def run(self, command: str) -> None:
        """Call the program; names of commands alone mean the command for this table."""
        words = [str(self.path) if word == "TABLE" else word for word in shlex.split(command)]
        words += [str(self.path)] if str(self.path) not in words else []
        words += ["--yes"] if words[0] == "repair-properties" or words[0::2][:2] == ["index", "drop"] else []
        done = self.call(*words)
        assert done.code == 0, (command, done.err)

    def undouble(self, advice: str) -> None:
        """Leave one row of keys that have several: that which the copy holds."""
        table = Table.open(str(self.path))
        found = table.read(["id", "city"]).to_pylist()
        doubled = [row for row in found if found.count(row) > 1]
        keys = {row["id"] for row in doubled}
        right = [row for row in Table.open(str(self.copy)).read(SCHEMA.names).to_pylist() if row["id"] in keys]
        (build,) = COMMAND.findall(advice)
        for _ in range(len(doubled) // len(keys) if keys else 0):
            table.ingest(pa.Table.from_pylist([{"id": row["id"], "city": row["city"]} for row in right]), "delete")
            self.run(build)
        if keys:
            table.ingest(pa.Table.from_pylist(right, SCHEMA))

    def follow(self, finding: Finding) -> None:
        """Do what a finding advises."""
        advice, place = finding.next_step, self.path / finding.where if finding.where else None
        command = COMMAND.search(advice)
        if "delete the key" in advice:
            self.undouble(advice)
        elif command:
            self.run(command[1])
        elif copied := re.search(r"replace the file by (\S+)", advice):
            shutil.copy2(self.path / copied[1], self.path / finding.where)
        elif "copy the file from a partition" in advice and place is not None:
            shutil.copy2(self.path / "city=c0/.hoodie_partition_metadata", place)
        elif advice.startswith("copy ") and "backup" in advice and finding.where == PROPERTIES_PATH:
            shutil.copy2(self.path / BACKUP_PATH, place)
        elif "that a copy of the table lacks" in advice and place is not None:
            for file in place.parent.glob(f"{place.name[:17]}_*"):
                file.unlink() if not (self.copy / file.relative_to(self.path)).exists() else None
        elif "restore" in advice and place is not None and (self.copy / finding.where).exists():
            source = self.copy / finding.where
            shutil.copytree(source, place, dirs_exist_ok=True) if source.is_dir() else shutil.copy2(source, place)
        elif re.search(r"delete|move it|remove", advice) and place is not None:
            shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        elif "next write" in advice or "any write" in advice or "a write" in advice:
            assert self.call("recover", self.path).code == 0, finding
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


def chain(patient: Patient) -> Iterator[list[Finding]]:
    """Findings step by step: the advice of the first one, which is the worst, is followed each time."""
    for _ in range(STEPS_MAX):
        findings = patient.findings()
        yield findings
        patient.follow(findings[0])


@pytest.mark.parametrize("damage", DAMAGES)
def test_following_every_advice_ends_with_a_whole_table(patient: Patient, tmp_path: Path, damage: str) -> None:
    before = sorted(Table.open(str(patient.copy)).read(["id", "v"]).to_pylist(), key=lambda row: row["id"])
    if DAMAGES[damage].prepare is not nothing:
        DAMAGES[damage].prepare(patient.path)
        patient.copy = tmp_path / "copy"
        shutil.copytree(patient.path, patient.copy)
    DAMAGES[damage].do(patient.path)
    seen, met = [], set()
    for findings in chain(patient):
        seen.append([str(one) for one in findings])
        met |= {one.invariant for one in findings}
        if not findings:
            break
    assert seen[0], "the damage is found"
    assert set(DAMAGES[damage].finds.split()) <= met
    assert seen[-1] == [], seen
    after = Table.open(str(patient.path)).read(["id", "v"]).to_pylist()
    assert sorted(after, key=lambda row: row["id"]) == before


def test_the_advice_of_every_finding_is_followed_or_a_reason_is_given() -> None:
    promised = named_in(Path(package.__file__).parent)
    reached = {finding for damage in DAMAGES.values() for finding in damage.finds.split()}
    assert promised - reached - NOT_FOLLOWED.keys() == set()
    assert reached & NOT_FOLLOWED.keys() == set()
    assert NOT_FOLLOWED.keys() - promised == set()
