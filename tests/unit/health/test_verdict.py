"""The verdict on one table: its cost, what makes it new, and what it says of damaged, missing and strange tables."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest

from hudi_ops.cli.main import main
from hudi_ops.concurrency.attempt import begin
from hudi_ops.config.requests.targets import HealthTargets
from hudi_ops.config.upkeep_settings import CleanSettings, UpkeepSettings
from hudi_ops.errors import HudiOpsError
from hudi_ops.health.check import Facts
from hudi_ops.health.checks import CHECKS
from hudi_ops.health.many import health_of_tables
from hudi_ops.health.verdict import HealthReport, HealthVerdict
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from tests.bounds import bound
from tests.unit.health.bench import UNCHANGED_CALLS, made, watched

DAY_MS = 86_400_000
CHANGED_CALLS = 30
SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "health.schema.json"


def contents(path: str) -> Mapping[str, tuple[int, int]]:
    """Size and change time of each file of a folder."""
    found = {}
    for folder, _, names in os.walk(path):
        for name in names:
            info = Path(folder, name).stat()
            found[f"{folder}/{name}"] = info.st_size, info.st_mtime_ns
    return found


def said(verdict: HealthVerdict) -> dict[str, str]:
    """Status of each check."""
    return {one.check: one.status for one in verdict.checks}


@pytest.mark.parametrize(
    "definition",
    [
        {"table_type": "cow"},
        {"partition_by": ["p"]},
        {"partition_by": ["p"], "bucket_engine": "consistent", "buckets": 2},
        {"index": "record_index", "table_type": "cow"},
        {"metadata": False, "partition_by": ["p"]},
    ],
    ids=str,
)
def test_a_fresh_table_is_healthy_and_stays_as_it_is(tmp_path: Path, definition: dict[str, Any]) -> None:
    for rounds in (0, 2):
        path = made(tmp_path / str(rounds), rounds, **definition)
        before = contents(path)
        verdict = Table.open(path).health()
        assert contents(path) == before
        assert verdict.status == "healthy", verdict.summary()
        assert [one.check for one in verdict.checks] == list(HealthTargets.model_fields)
        assert verdict.exit_code == main(["health", path]) == 0


def test_calls_of_an_unchanged_and_a_changed_table(tmp_path: Path) -> None:
    path = made(tmp_path / "t", 12, partition_by=["p"])
    table, storage = watched(path)
    verdict = table.health()
    for again in (verdict, verdict.as_dict(), json.loads(json.dumps(verdict.as_dict()))):
        other, calls = watched(path)
        found = other.health(previous=again)
        assert len(calls.history) <= UNCHANGED_CALLS, calls.history
        assert said(found) == said(verdict)
        assert found.seen == verdict.seen
    Table.open(path).ingest(pa.table({"id": ["d"], "p": ["y"], "v": [1]}))
    begun = len(storage.history)
    changed = table.health(previous=verdict)
    calls_of_change = storage.history[begun:]
    print(f"calls of a changed table: {len(calls_of_change)}")
    assert len(calls_of_change) <= CHANGED_CALLS, calls_of_change
    assert changed.seen != verdict.seen


def test_a_thousand_unchanged_tables_take_ten_seconds(tmp_path: Path) -> None:
    path, count = made(tmp_path / "t0", 3, partition_by=["p"]), bound(100, 250, 1000)
    for number in range(1, count):
        shutil.copytree(path, tmp_path / f"t{number}", copy_function=os.link)
    names = [str(tmp_path / f"t{number}") for number in range(count)]
    before = {one.table: one.as_dict() for one in health_of_tables(names)}
    begun_s = time.monotonic()
    found = health_of_tables(names, previous=before)
    took_s = time.monotonic() - begun_s
    print(f"{count} unchanged tables: {took_s:.2f} s")
    assert [one.as_dict()["seen"] for one in found] == [before[name]["seen"] for name in names]
    assert took_s <= count * 0.01


def test_a_verdict_of_other_things_is_not_used(tmp_path: Path) -> None:
    path, other = made(tmp_path / "t"), made(tmp_path / "u")
    good = Table.open(path).health()
    seen = good.seen.model_dump() if good.seen is not None else {}
    strange = {name: {"no": "such field"} for name in seen["facts"]}
    for previous in (
        Table.open(other).health(),
        {**good.as_dict(), "form": 2},
        {**good.as_dict(), "seen": {**seen, "release": "0.0.9"}},
        {**good.as_dict(), "seen": {**seen, "settings": ""}},
        {**good.as_dict(), "seen": {**seen, "facts": {}, "not_here": {}}},
        {**good.as_dict(), "seen": {**seen, "facts": strange}},
        {**good.as_dict(), "seen": {**seen, "until_ms": 1}},
        {"form": 9},
        {},
    ):
        table, calls = watched(path)
        found = table.health(previous=previous)
        assert said(found) == said(good)
        assert len(calls.history) > UNCHANGED_CALLS, previous


def test_each_change_of_the_state_is_seen(tmp_path: Path) -> None:
    path = made(tmp_path / "t", 3, partition_by=["p"])
    table = Table.open(path)
    newest = table._session.loader.load().timeline.completed_writes[-1].time
    verdict = table.health()
    changes = {
        "a hold": lambda: table.holds.take(newest, seconds=60.0),
        "a lease": lambda: (tmp_path / "t/.hoodie/.heartbeat/20260101000000000").write_text("x"),
        "a pending instant": lambda: table.compaction.plan(),
        "a savepoint": lambda: table.savepoints.create(),
    }
    for name, change in changes.items():
        change()
        other, calls = watched(path)
        found = other.health(previous=verdict)
        assert len(calls.history) > UNCHANGED_CALLS, f"{name} was not seen"
        assert found.seen != verdict.seen, name
        verdict = found


def test_a_day_later_only_the_clock_changes_the_verdict(tmp_path: Path) -> None:
    path = made(tmp_path / "t", 3)
    by_hand = {"clean": {"automatic": False, "retain": 1}, "archive": {"automatic": False}}
    ctx = Table.open(path, **by_hand).context
    clock = ManualClock(ctx.clock.now_ms(), tick_ms=1)
    table = Table(replace(ctx, clock=clock), upkeep=UpkeepSettings(CleanSettings(automatic=False, retain=1)))
    for version in range(2):
        table.ingest(pa.table({"id": ["a"], "p": ["x"], "v": [version]}))
        table.compaction.run()
    table.ingest(pa.table({"id": ["a"], "p": ["x"], "v": [9]}))
    table.compaction.plan()
    begin(table._session.ctx, table._session.loader, "deltacommit")  # its process dies
    targets = {"clean_lag": {"age": "12h", "share": 9.0}}
    first = table.health(targets)
    assert first.status == "healthy", first.summary()
    clock.advance_ms(DAY_MS + 1000)
    for previous in (first, None):
        later = table.health(targets, previous)
        assert {one.check for one in later.missed} == {"plans", "writers", "clean_lag"}, later.summary()
        since = {one.check: one.since for one in later.missed}
        assert since["plans"] is not None
        assert since["writers"] is not None
        assert first.at < since["writers"] < since["plans"] <= later.at
        assert all(one.commands for one in later.missed)


def test_tables_that_cannot_be_judged_have_their_own_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {name: made(tmp_path / name) for name in ("good", "damaged", "dropped", "anew", "broken")}
    (tmp_path / "tables.yaml").write_text(
        "tables:\n"
        + "".join(f"  {name}: {{path: {name}, record_key: [id]}}\n" for name in names)
        + '  remote: {path: "s3://nowhere/t", record_key: [id]}\n'
    )
    monkeypatch.setenv("HUDI_OPS_TABLES", str(tmp_path / "tables.yaml"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    before = {one.table: one for one in health_of_tables(list(names))}
    assert {one.exit_code for one in before.values()} == {0}
    (tmp_path / "damaged/.hoodie/hoodie.properties").write_text("hoodie.table.name=")
    shutil.rmtree(tmp_path / "dropped")
    shutil.rmtree(tmp_path / "anew")
    made(tmp_path / "anew", 2)
    timeline = tmp_path / "broken/.hoodie/timeline"
    for file in timeline.glob("*deltacommit"):
        file.write_bytes(b"no avro")
    del before["broken"]  # completed files never change, so their content is no part of the state
    found = {one.table: one for one in health_of_tables([*names, "remote", "unknown"], previous=before, limit_s=8.0)}
    codes = {name: one.exit_code for name, one in found.items()}
    assert codes == {"good": 0, "damaged": 20, "dropped": 2, "anew": 0, "broken": 20, "remote": 13, "unknown": 2}
    assert found["anew"].seen != before["anew"].seen
    assert found["good"].seen == before["good"].seen
    assert found["damaged"].intolerable(0)
    again = {one.table: one for one in health_of_tables(["dropped"], previous=found)}
    assert again["dropped"].since == found["dropped"].since
    capsys.readouterr()
    assert main(["health", "--all", "--limit", "8s"]) == 20
    text = capsys.readouterr().out
    assert all(len(line) <= 100 for line in text.splitlines()), text
    for name, one in found.items():
        if one.error is not None and name != "unknown":
            assert any(line.startswith(f"{name}: cannot be judged") for line in text.splitlines()), text


def test_the_output_has_its_documented_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = HealthReport.model_json_schema()
    assert json.loads(SCHEMA.read_text()) == schema, f"write the form of the verdicts to {SCHEMA}"
    path = made(tmp_path / "t", 2)
    capsys.readouterr()
    code = main(["health", path, str(tmp_path / "none"), "--json"])
    output = json.loads(capsys.readouterr().out)
    jsonschema.validate(output, schema)
    assert output["exit_code"] == code == 2
    file = tmp_path / "earlier.json"
    file.write_text(json.dumps(output))
    assert main(["health", path, "--json", "--previous", str(file)]) == 0
    jsonschema.validate(json.loads(capsys.readouterr().out), schema)


def test_a_wrong_call_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = made(tmp_path / "t")
    file = tmp_path / "earlier.json"
    file.write_text("[1]")
    for words in ([], ["--all", path], [path, "--previous", str(file)], [path, "--limit", "soon"]):
        assert main(["health", *words]) == 2, words
    table = Table.open(path)
    for targets in ({"read_cost": {"log_files": -1}}, {"read": {}}, {"plans": {"age": "soon"}}, {"plans": 3}):
        with pytest.raises(HudiOpsError) as refused:
            table.health(targets)
        assert refused.value.exit_code == 2
    capsys.readouterr()


def test_facts_survive_json() -> None:
    assert [check.name for check in CHECKS] == list(HealthTargets.model_fields)
    assert all(issubclass(check.facts, Facts) for check in CHECKS)
