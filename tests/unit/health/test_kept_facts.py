"""Facts that verdicts keep: when they are used, what goes on, and what damaged ones do. And the text of verdicts."""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hudi_ops.cli.main import main
from hudi_ops.cli.tables.health import _command
from hudi_ops.concurrency.attempt import begin
from hudi_ops.concurrency.lease.lease import FOLDER
from hudi_ops.config.tables_file import TableLocation
from hudi_ops.health import many
from hudi_ops.health.look import LEASES_READ
from hudi_ops.health.unblock import end_of
from hudi_ops.health.verdict import said_value
from hudi_ops.table.table import Table
from tests.unit.health.bench import UNCHANGED_CALLS, looked, made, watched
from tests.unit.health.states_read_cost import read_cost_missed


def test_since_goes_on_until_the_service_ran(tmp_path: Path) -> None:
    path = read_cost_missed(tmp_path)
    table = Table.open(path)
    first = table.health()
    (check,) = first.missed
    old = {
        **first.as_dict(),
        "seen": {**first.as_dict()["seen"], "since": {check.check: ["missed", "2026-01-01T00:00:00Z"]}},
    }
    for status in ("missed", "unknown"):
        old["seen"]["since"][check.check][0] = status
        (again,) = table.health(previous=old).missed
        assert (again.check, again.since) == (check.check, "2026-01-01T00:00:00Z")
    settings = Table.open(path, metadata_compact_after=3).health(previous=old)
    assert settings.missed[0].since == "2026-01-01T00:00:00Z"
    table.compaction.run()
    compacted = table.health({"read_cost": {"log_files": 0}}, old)
    assert compacted.missed == ()
    table.ingest(table.read())
    later = table.health({"read_cost": {"log_files": 0}}, old)
    assert later.missed[0].since is not None
    assert later.missed[0].since > "2026-01-01T00:00:00Z", "the compaction mended it in between"


def test_other_settings_and_a_change_of_the_metadata_table_alone_are_seen(tmp_path: Path) -> None:
    path = made(tmp_path / "t", 2)
    verdict = Table.open(path).health()
    for options in ({"metadata_compact_after": 7}, {"clean": {"retain": 3}}):
        table = Table.open(path, **options)
        assert table.health(previous=verdict).seen != verdict.seen, options
    (tmp_path / "t/.hoodie/metadata/.hoodie/timeline/20260101000000000.compaction.requested").write_bytes(b"")
    table, calls = watched(path)
    changed = table.health(previous=verdict)
    assert len(calls.history) > UNCHANGED_CALLS
    assert [one.check for one in changed.missed] == ["metadata_table"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda seen: seen["since"].update(read_cost=["missed", "garbage"]),
        lambda seen: seen["facts"]["files_kept"]["kept"].update(
            keepers=[{"reason": "hold", "name": "x", "action": "", "bytes": 9, "left": 0}], bytes=9, table_bytes=9
        ),
        lambda seen: seen.update(head=10**400),
        lambda seen: seen["facts"]["plans"]["pending"].update(
            count=1,
            oldest=[
                {
                    "instant": "20260101000000000",
                    "action": "compaction",
                    "planned_ms": 1,
                    "state": "left",
                    "executor": "",
                    "live_until_ms": None,
                    "due_ms": None,
                    "is_hard": False,
                    "command": ["drop", "TABLE", "--yes"],
                    "cancel": [],
                    "is_foreign_run": False,
                }
            ],
        ),
    ],
    ids=["time", "keepers", "head", "command"],
)
def test_damaged_facts_are_measured_anew(tmp_path: Path, damage: Any) -> None:
    path = made(tmp_path / "t", 2)
    good = Table.open(path).health()
    before = good.as_dict()
    damage(before["seen"])
    found = Table.open(path).health(previous=before)
    assert (found.status, found.seen) == ("healthy", good.seen)


def test_a_live_writer_is_not_ended_however_many_leases_there_are(tmp_path: Path) -> None:
    path = made(tmp_path / "t", 2)
    session = Table.open(path)._session
    attempt = begin(session.ctx, session.loader, "deltacommit")
    for number in range(LEASES_READ):
        (tmp_path / "t" / FOLDER / f"2026010100000000{number}").write_bytes(b"")
        old_s = time.time() - 3600 - number
        os.utime(tmp_path / "t" / FOLDER / f"2026010100000000{number}", (old_s, old_s))
    look = looked(path)
    assert attempt.instant in look.unread_leases
    pending = look.state.timeline.find(attempt.instant)
    assert pending is not None
    assert end_of(look, pending) == ()


def test_tables_that_do_not_answer_delay_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "PATIENCE_S", 0.1)
    good, forever = made(tmp_path / "t"), threading.Event()

    def located() -> TableLocation:
        return TableLocation(name="good", path=good, lock=None, declaration=None)

    def hangs() -> TableLocation:
        forever.wait()
        return located()

    wanted = {f"hangs{number}": hangs for number in range(2 * many.AT_ONCE)} | {"good": located}
    begun_s = time.monotonic()
    found = {}
    for verdict in many.judged(wanted, limit_s=4.0):
        found[verdict.table] = (verdict.exit_code, time.monotonic() - begun_s)
    forever.set()
    assert {name for name, (code, _) in found.items() if code == 0} == {"good"}
    assert {code for name, (code, _) in found.items() if name != "good"} == {13}
    assert found["good"][1] < 3.0, "it waited for the others"


def test_a_name_that_changed_finds_its_verdict_by_the_place(tmp_path: Path) -> None:
    path = made(tmp_path / "t")
    (before,) = many.health_of_tables([path])
    (found,) = many.health_of_tables([f"{path}/"], previous={path: before})
    assert found.seen == before.seen


def test_durations_and_commands_read_as_they_are_meant() -> None:
    day = 86_400.0
    assert [said_value(days * day, "s") for days in (1, 1.5, 2, 30)] == ["1 d", "1.5 d", "2 d", "30 d"]
    assert [said_value(value, "s") for value in (0.5, 90.0, 5400.0)] == ["0.5 s", "1.5 min", "1.5 h"]
    words = ["printf", "[%s]", f"/data/{'long/' * 20}with two words", "--starvation", "wait 60s after 3", "a" * 30]
    lines = list(_command(shlex.join(words)))
    assert len(lines) > 1
    done = subprocess.run(["sh", "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout == "".join(f"[{word}]" for word in words[2:])


def test_a_first_look_says_no_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = read_cost_missed(tmp_path)
    capsys.readouterr()
    assert main(["health", path]) == 4
    assert "since" not in capsys.readouterr().out
