"""The routes that act, on real tables by real child processes."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from hudi_ops.cli.main import main
from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.engine.progress import Progress
from hudi_ops.errors import HudiOpsError
from hudi_ops.page.child import Children
from hudi_ops.page.work import operations
from hudi_ops.page.work.operations import answer, status_of
from hudi_ops.registry.database import opened
from hudi_ops.registry.migrate import migrate
from hudi_ops.registry.store import table_named
from hudi_ops.table.table import Table
from tests.unit.page.shown_pages import FakeRights, client_of, table_at

UNKNOWN = "20261121101500123"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """The table `t`, which the tables file in force declares."""
    monkeypatch.setenv("HUDI_OPS_TABLES", str(tmp_path / "tables.yaml"))
    monkeypatch.setenv("HUDI_OPS_REGISTRY", f"sqlite:///{tmp_path}/registry.db")
    return table_at(tmp_path)


@pytest.fixture
def rights() -> FakeRights:
    return FakeRights()


@pytest.fixture
def client(rights: FakeRights) -> TestClient:
    return client_of(rights)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What the command line prints, without times."""
    assert main([*words, "--json"]) == 0
    return without_times(capsys.readouterr().out.strip())


def without_times(text: str) -> str:
    return re.sub(r'"(seconds|age_s)": [0-9.e+-]+', r'"\1": 0', text)


def post(client: TestClient, path: str, value: Any, user: str = "op") -> tuple[int, dict[str, Any]]:
    found = client.post(f"tables/{path}", json=value, headers={"X-User": user})
    assert found.headers["content-type"] == "application/json"
    return found.status_code, found.json()


def test_a_preview_is_the_dry_run_of_the_command_line(
    table: Table, client: TestClient, rights: FakeRights, capsys: pytest.CaptureFixture[str]
):
    sent = {"command": ["compact", "t", "--threshold", "1"]}
    found = client.post("tables/t/preview", json=sent, headers={"X-User": "op"})
    assert found.status_code == 200
    before, _, dry_run = found.text.partition(', "left_out": {}, "dry_run": ')
    assert without_times(dry_run.removesuffix("}")) == printed(capsys, "compact", "t", "--threshold", "1", "--dry-run")
    facts = json.loads(f"{before}}}")
    digest = facts.pop("digest")
    assert facts.pop("conf") == {
        **{"table": "t", "strategy": "size", "threshold": 1.0, "max_bytes": None, "cancel": None, "on_overlap": None},
        **{"starvation": None, "partitions": "", "engine": "auto", "dry_run": False},
    }
    assert facts == {
        **{"service": "compaction", "dag_ids": ["compaction__t", "compaction"]},
        **{"command": "hudi-ops compact t --threshold 1", "why_not": "", "notes": []},
    }
    assert rights.logged == [("op", "hudi_ops.preview", {"table": "t", "command": "compact t --threshold 1"})]
    assert post(client, "t/state", {"digest": digest}) == (200, {"moved": False})
    table.compaction.plan()
    assert post(client, "t/state", {"digest": digest}) == (200, {"moved": True})


def test_a_cancel_of_a_running_clustering_is_followed_to_its_end(
    table: Table, client: TestClient, rights: FakeRights, tmp_path: Path
):
    instant = table.clustering.plan(cancel="cancellable", rewrite=True, sort_by="id").instant
    assert instant is not None
    works, may_go_on, ended = threading.Event(), threading.Event(), list[BaseException | None]()

    def pause(progress: Progress) -> None:
        works.set()
        assert may_go_on.wait(60)

    def execute() -> None:
        try:
            Table.open(tmp_path / "t").clustering.execute(instant=instant, progress=pause)
            ended.append(None)
        except HudiOpsError as error:
            ended.append(error)

    executor = threading.Thread(target=execute)
    executor.start()
    try:
        assert works.wait(60)
        sent = {"instant": instant, "reason": "the cluster is needed elsewhere"}
        status, done = post(client, "t/cancel", sent)
        assert (status, done["state"], done["action"], done["requester"]) == (200, "cancelled", "clustering", "op")
        assert rights.logged == [("op", "hudi_ops.cancel", {"table": "t", **sent, "force": False})]
        status, plans = post(client, f"t/plans/{instant}", {})
        (row,) = plans["plans"]
        # The executor may have removed it already.
        assert (status, row["cancelled_by"], row["reason"]) == (200, "op", sent["reason"])
        assert row["state"] in {"cancelled", "aborted"}
        assert post(client, "t/cancel", sent)[0] == 200, "a repeated cancel succeeds"
    finally:
        may_go_on.set()
        executor.join(60)
    assert type(ended[0]).__name__ == "Cancelled"
    status, plans = post(client, f"t/plans/{instant}", {})
    assert (status, plans["plans"][0]["state"], plans["plans"][0]["reason"]) == (200, "aborted", sent["reason"])
    assert post(client, "t/cancel", sent)[1]["state"] == "aborted"


def test_a_plan_without_an_executor_is_removed_at_once_and_a_completed_one_stays(
    table: Table, client: TestClient, capsys: pytest.CaptureFixture[str]
):
    never = table.compaction.plan(cancel="never").instant
    assert never is not None
    execute = {"command": ["compact", "t", "execute", "--instant", never]}
    status, found = post(client, "t/preview", execute)
    assert (status, found["why_not"], found["conf"]["table"]) == (200, "", "t")
    assert without_times(json.dumps(found["dry_run"])) == printed(capsys, "plans", "t")
    sent = {"instant": never, "reason": "why not"}
    status, error = post(client, "t/cancel", sent)
    assert (status, error["error"]) == (409, "NotCancellable")
    assert post(client, f"t/plans/{UNKNOWN}", {})[0] == 404
    status, done = post(client, "t/cancel", {**sent, "force": True})
    assert (status, done["state"]) == (200, "aborted")
    completed = table.compaction.run().instant
    assert completed is not None
    status, error = post(client, "t/cancel", {**sent, "instant": completed})
    assert (status, error["error"], error["exit_code"]) == (409, "AlreadyCommitted", 2)
    status, found = post(client, "t/preview", execute)
    assert (status, found["conf"]) == (200, None)
    assert "was executed or cancelled" in found["why_not"]


def test_a_fresh_look_goes_to_the_registry(
    table: Table, client: TestClient, rights: FakeRights, monkeypatch: pytest.MonkeyPatch
):
    status, error = post(client, "t/look", {})
    assert (status, error["next_step"]) == (503, "run `hudi-ops registry migrate`")
    migrate()
    status, found = post(client, "t/look", {}, "runner")
    assert (status, found["verdict"]["table"], found["at"]) == (200, "t", found["verdict"]["at"])
    kept = table_named(opened(), "t")
    assert kept is not None
    assert kept.verdict is not None
    assert kept.verdict["at"] == found["at"]
    assert [one[:2] for one in rights.logged] == [("op", "hudi_ops.look"), ("runner", "hudi_ops.look")]
    # A look has less time than the DAG: that it missed says nothing against the verdict before.
    monkeypatch.setattr(operations, "LOOK_S", 0.0)
    status, error = answer({"operation": "look", "table": "t"})
    assert (status, error["error"]) == (503, "Unavailable")
    after = table_named(opened(), "t")
    assert after is not None
    assert after.verdict == kept.verdict


REFUSED: list[tuple[str, Any, str, int]] = [
    ("t/preview", {"command": ["compact", "t"]}, "viewer", 403),
    ("t/preview", {"command": ["clean", "t"]}, "runner", 403),
    ("t/preview", {"command": ["compact", "t"]}, "canceller", 403),
    ("t/look", {}, "viewer", 403),
    ("t/state", {"digest": f"4.{'0' * 64}"}, "viewer", 403),
    ("t/cancel", {"instant": UNKNOWN, "reason": "r"}, "runner", 403),
    (f"t/plans/{UNKNOWN}", {}, "viewer", 403),
    ("t/cancel", {"instant": UNKNOWN}, "op", 422),
    ("t/cancel", {"instant": UNKNOWN, "reason": ""}, "op", 422),
    ("t/cancel", {"instant": UNKNOWN, "reason": "  "}, "op", 422),
    ("t/cancel", {"instant": UNKNOWN, "reason": "two\nlines"}, "op", 422),
    ("t/cancel", {"instant": UNKNOWN, "reason": "two\u2028lines"}, "op", 422),
    ("t/cancel", {"instant": UNKNOWN, "reason": "backwards \u202eelur"}, "op", 422),
    ("t/cancel", {"instant": UNKNOWN, "reason": "x" * 1001}, "op", 422),
    ("t/cancel", {"instant": UNKNOWN, "reason": "r", "requester": "root"}, "op", 422),
    ("t/cancel", {"instant": UNKNOWN, "reason": "r", "force": "yes"}, "op", 422),
    ("t/cancel", {"instant": "../../etc", "reason": "r"}, "op", 422),
    ("t/plans/1", {}, "op", 422),
    ("t/plans/<b>", {}, "op", 422),
    ("t/state", {"digest": "x"}, "op", 422),
    ("t/preview", {}, "op", 422),
    ("t/preview", {"command": ["compact"]}, "op", 422),
    ("t/preview", {"command": "compact t"}, "op", 422),
    ("t/preview", {"command": ["truncate", "t"]}, "op", 422),
    ("t/preview", {"command": ["cancel", "t", UNKNOWN]}, "op", 422),
    ("t/preview", {"command": ["compact", "t", *["x"] * 100]}, "op", 422),
    ("t/preview", {"command": ["compact", "t", "x" * 2000]}, "op", 422),
    ("t/preview", {"command": ["compact", "t", *["x" * 2000] * 40]}, "op", 413),
    ("..%2Ft/look", {}, "op", 404),
    ("%3Cb%3E/look", {}, "op", 404),
    (f"{'t' * 10_000}/look", {}, "op", 404),
    ("-t/look", {}, "op", 404),
]
"""Requests that no child sees: path, body, user, status."""


def test_bad_requests_are_refused_before_any_process_starts(rights: FakeRights):
    client = client_of(rights, children=Children(["/bin/false"]))
    for path, body, user, status in REFUSED:
        found = client.post(f"tables/{path}", json=body, headers={"X-User": user})
        assert found.status_code == status, (path, body, found.text)
        assert found.headers["content-type"] == "application/json", path
    assert rights.logged == []
    assert client.post("tables/t/look", content=b"{}").status_code == 415
    assert client.post("tables/t/look", data={"a": "b"}).status_code == 415
    assert client.post("tables/t/look", content=b"{", headers={"Content-Type": "application/json"}).status_code == 422
    assert client.get("tables/t/look").status_code == 405


def test_nothing_is_cancelled_that_the_audit_log_does_not_have(table: Table):
    instant = table.compaction.plan(cancel="cancellable").instant
    client = client_of(FakeRights(is_down=True))
    assert post(client, "t/cancel", {"instant": instant, "reason": "r"})[0] == 503
    assert table.plans(instant)[0].state == "planned"


def test_a_cancel_gives_up_the_lock_before_its_child_is_killed(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(operations, "LOCK_WAIT_S", 0.05)
    instant = table.compaction.plan(cancel="cancellable").instant
    sent = {"operation": "cancel", "table": "t", "instant": instant, "reason": "r", "requester": "op"}
    with ThreadPoolExecutor() as other, in_process_lock((tmp_path / "t").as_uri()).acquire(10, "a write"):
        status, error = other.submit(answer, sent).result(60)
    assert (status, error["error"]) == (409, "Busy")
    assert table.plans(instant)[0].state == "planned"
    assert answer(sent)[0] == 200


def test_the_child_refuses_what_the_routes_let_pass(table: Table, tmp_path: Path):
    def status(operation: str, name: str = "t", **values: Any) -> int:
        return answer({"operation": operation, "table": name, **values})[0]

    assert status("preview", command=["compact", "gone"]) == 422, "the words name another table"
    assert status("preview", "gone", command=["clean", "gone"]) == 422, "no table lies there"
    assert status("preview", str(tmp_path / "t"), command=["compact", "t"]) == 404, "a path is no name"
    assert status("preview", command=["compact", "t", "--accept-future-instants"]) == 422
    assert status("preview", command=["resize", "t"]) in {409, 422}, "the table has no hash ring"
    assert status("preview", command=["compact", "t", "--max-bytes", "much"]) == 422
    assert status("preview", command=["compact", "t", "--threshold", "inf"]) == 422
    assert status("preview", command=["compact", "t", "--threshold", "nan"]) == 422
    assert status("plan", instant=UNKNOWN) == 404
    assert status("cancel", instant=UNKNOWN, reason="r", requester="op") == 404
    assert status("state", digest=f"4.{'0' * 64}") == 200
    assert status("explode") == 500
    assert status_of({"error": "PermissionDenied", "exit_code": 2}) == 503
    assert [status_of({"error": "", "exit_code": code}) for code in (2, 3, 10, 11, 12, 13, 14, 20, 70)] == [
        *(422, 422, 409, 409, 409, 503, 503, 500, 500)
    ]


def test_a_long_dry_run_loses_rows_and_says_how_many(table: Table, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(operations, "DRY_RUN_MAX", 10)
    monkeypatch.setattr(operations, "ROWS_MAX", 1)
    table.compaction.plan()
    status, text = answer({
        "operation": "preview",
        "table": "t",
        "command": ["index", "t", "files", "record_index", "bloom_filters"],
    })
    found = json.loads(str(text))
    assert status == 200
    assert len(found["dry_run"]["verdicts"]) == 1
    assert found["left_out"] == {"verdicts": 3}
