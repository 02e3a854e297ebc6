"""`recover` and `rollback`: what dead writers left is told, undone once, and never taken from the living."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from hudi_ops import Table
from hudi_ops.commit.recover.rollback_bodies import plan_bytes
from hudi_ops.concurrency.lease.lease import lease_path
from hudi_ops.context import Owner
from hudi_ops.storage.open import open_storage
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import State
from tests.fault_plans import DiesBefore


@pytest.fixture
def dead(trips: Path) -> str:
    """A write into `trips` whose process is gone; its instant."""
    gone = replace(Owner.of_this_process(), started="1")
    table = Table.open(str(trips))
    rows = table.read(list(table.schema.names))
    faulty = FaultyStorage(open_storage(str(trips)), DiesBefore("put_if_absent:.hoodie/.commit_log/0"))
    with contextlib.suppress(Crash):
        Table(replace(table.context, storage=faulty, owner=gone)).ingest(rows)
    (inflight,) = [one for one in (trips / ".hoodie/timeline").glob("*.inflight") if not _is_done(one)]
    return inflight.name.partition(".")[0]


def _is_done(inflight: Path) -> bool:
    return any(inflight.parent.glob(inflight.name.partition(".")[0] + "_*"))


def test_recover_tells_what_it_undid_and_then_nothing(dead: str, call: Callable[..., Any]) -> None:
    told = call("recover", "trips")
    assert (told.code, told.err) == (0, "")
    assert f"rolled back {dead} commit" in told.out
    assert call("recover", "trips").out == "trips: nothing to recover\n"
    plain = call("recover", "trips", "--json").json
    assert (plain["rolled_back"], plain["left"]) == ([], [])


def test_a_dry_run_changes_nothing_and_a_rollback_is_done_once(
    dead: str, home: Path, call: Callable[..., Any], tree: Callable[..., Any]
) -> None:
    before = tree(home)
    told = call("rollback", "trips", dead, "--dry-run")
    assert told.code == 0
    assert "would be rolled back" in told.out
    assert "city=Oslo/" in told.out
    assert tree(home) == before
    done = call("rollback", "trips", dead, "--json").json
    assert done["files"]
    assert len(done["rollback"]) == 17
    assert f"rollback {done['rollback']} undid it before" in call("rollback", "trips", dead).out


def test_a_live_writer_is_named_and_left_alone(
    dead: str, trips: Path, call: Callable[..., Any], home: Path, tree: Callable[..., Any]
) -> None:
    lease = trips / lease_path(dead)
    lease.write_text(json.dumps({**json.loads(lease.read_text()), "owner": asdict(Owner.of_this_process())}))
    before = tree(home)
    told = call("rollback", "trips", dead, "--abandoned", "--json")
    assert told.code == 11
    assert str(Owner.of_this_process()) in told.json["message"]
    left = call("recover", "trips", "--json").json["left"]
    assert [(one["instant"], one["action"], one["state"]) for one in left] == [(dead, "commit", "inflight")]
    assert tree(home) == before


def test_what_cannot_be_rolled_back_says_what_to_do(trips: Path, call: Callable[..., Any]) -> None:
    newest = call("timeline", "trips", "--json").json["instants"][-1]["time"]
    for instant, said in ((newest, "is completed"), ("20010101000000000", "no such instant")):
        told = call("rollback", "trips", instant)
        assert told.code == 2
        assert said in told.err
        assert "Next:" in told.err


@pytest.fixture
def silent(dead: str, trips: Path) -> str:
    """The dead write as Apache Hudi leaves one: nobody's heartbeat, and nothing that says that it is ours."""
    (trips / lease_path(dead)).unlink()
    (trips / ".hoodie" / "timeline" / f"{dead}.inflight").write_bytes(b"")
    return dead


def test_a_write_without_a_heartbeat_stops_an_ingest_which_names_the_command(
    silent: str, call: Callable[..., Any], home: Path, tree: Callable[..., Any]
) -> None:
    before = tree(home)
    told = call("delete-partition", "trips", "city=Oslo", "--yes")
    assert told.code == 11
    assert f"hudi-ops rollback TABLE {silent} --abandoned" in told.err
    assert tree(home) == before
    assert call("rollback", "trips", silent, "--abandoned").code == 0
    assert call("delete-partition", "trips", "city=Oslo", "--yes").code == 0


def test_a_rollback_of_apache_hudi_is_finished_by_recover_once_its_programs_have_ended(
    silent: str, trips: Path, call: Callable[..., Any]
) -> None:
    storage = open_storage(str(trips))
    later = f"{int(silent) + 1:017d}"
    plan = plan_bytes(storage, Instant(silent, "commit", State.INFLIGHT), [])
    storage.put(f".hoodie/timeline/{later}.rollback.requested", plan)
    storage.put(f".hoodie/timeline/{later}.rollback.inflight", b"")
    left = call("recover", "trips").out
    assert f"{later} rollback (inflight) stays" in left
    assert "--abandoned" in left
    assert f"rolled back {silent} commit" in call("recover", "trips", "--abandoned").out
    assert call("recover", "trips").out == "trips: nothing to recover\n"
