"""One child runs at a time, one request for each table waits, and what takes too long is killed with all that it started."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hudi_ops.page import child
from hudi_ops.page.child import GONE, Answered, Children, Work, environment_of

STAND_IN = """
import json, os, pathlib, subprocess, sys, time
request = json.loads(sys.stdin.buffer.read())
log = pathlib.Path(request["log"])
with log.open("a") as file:
    file.write(f"begin {request['table']} {os.getpid()}\\n")
if request.get("spawns"):
    sleeper = subprocess.Popen(["sleep", "300"])
    with log.open("a") as file:
        file.write(f"child {request['table']} {sleeper.pid}\\n")
while request.get("until") and not pathlib.Path(request["until"]).exists():
    time.sleep(0.01)
sys.stderr.write(request.get("says", ""))
with log.open("a") as file:
    file.write(f"end {request['table']} {os.getpid()}\\n")
sys.stdout.write(request.get("prints", '200 {"table": "%s"}\\n' % request["table"]) * request.get("times", 1))
sys.exit(request.get("code", 0))
"""
"""Program in place of the work: it waits for a file, logs its begin and end, and prints what it is told."""


class Server:
    """Children of a server, with the log of the stand-in and the file that lets it go on."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.children = Children([sys.executable, "-c", STAND_IN], **options)
        self.log, self.go = folder / "log", folder / "go"
        self.clients: list[asyncio.Event] = []

    def ask(self, table: str, *, waits: bool = True, decides: bool = False, **values: Any) -> asyncio.Task[Answered]:
        """Begin a request, as a client that goes away once its event is set."""
        self.clients.append(asyncio.Event())
        given = {"log": str(self.log), **({"until": str(self.go)} if waits else {}), **values}
        work = Work("preview", table, f"hudi-ops compact {table} --dry-run", given, decides)
        return asyncio.create_task(self.children.answer(work, self.clients[-1].wait()))

    def lines(self) -> list[list[str]]:
        """What the stand-ins did: word, table, process."""
        return [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def did(self, word: str) -> list[str]:
        """Tables of the lines with a word."""
        return [line[1] for line in self.lines() if line[0] == word]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, for at most 20 s."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        await asyncio.sleep(0.01)


def run(work: Awaitable[Any]) -> Any:
    async def called() -> Any:
        return await asyncio.wait_for(work, 60)

    return asyncio.run(called())


def is_alive(process: str) -> bool:
    """Whether a process runs; a zombie counts, too."""
    return Path(f"/proc/{process}").exists()


def said(answer: Answered) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.body)
    return found


def test_one_runs_one_for_each_table_waits_and_cancels_come_first(tmp_path: Path):
    async def work() -> None:
        server = Server(tmp_path, waiting_max=3)
        first = server.ask("a")
        await until(lambda: server.did("begin") == ["a"])
        waiting = [server.ask("a"), server.ask("b"), server.ask("c", decides=True)]
        await asyncio.sleep(0)
        refused = [await server.ask("a"), await server.ask("b"), await server.ask("d")]
        assert [one.status for one in refused] == [429] * 3
        assert all(one.headers == {"Retry-After": "3"} for one in refused)
        assert "hudi-ops compact d --dry-run" in said(refused[2])["next_step"]
        assert server.did("begin") == ["a"]
        server.go.touch()
        answers = [await one for one in (first, *waiting)]
        assert [(one.status, one.body) for one in answers] == [
            (200, b'{"table": "%s"}' % name) for name in (b"a", b"a", b"b", b"c")
        ]
        # Never two at once.
        assert [line[:2] for line in server.lines()] == [[word, name] for name in "acab" for word in ("begin", "end")]
        assert (await server.ask("d")).status == 200, "the place is free again"

    run(work())


def test_a_cancel_takes_the_place_of_a_request_that_waits(tmp_path: Path):
    async def work() -> None:
        server = Server(tmp_path, waiting_max=1)
        first = server.ask("b")
        await until(lambda: server.did("begin") == ["b"])
        look = server.ask("a")
        await asyncio.sleep(0)
        cancels = [server.ask("a", decides=True), server.ask("c", decides=True)]
        assert (await look).status == 429
        assert (await server.ask("a", decides=True)).status == 429, "a cancel never takes the place of another one"
        server.go.touch()
        assert [(await one).status for one in (first, *cancels)] == [200] * 3
        assert sorted(server.did("end")) == ["a", "b", "c"]
        assert (await server.ask("a")).status == 200, "the place is free again"

    run(work())


def test_a_child_that_takes_too_long_is_killed_with_its_group(tmp_path: Path):
    async def work() -> None:
        server = Server(tmp_path, limit_s=1.0)
        slow, other = server.ask("a", spawns=True), server.ask("b", waits=False)
        answer = await slow
        assert answer.status == 503
        assert said(answer)["error"] == "TooSlow"
        assert said(answer)["next_step"] == "`hudi-ops compact a --dry-run`"
        assert [line[0] for line in server.lines()][:2] == ["begin", "child"]
        own, grandchild = (line[2] for line in server.lines()[:2])
        assert not is_alive(own), "a zombie, or worse"
        # The grandchild is reaped by the process that inherits it.
        await until(lambda: not is_alive(grandchild) or "Z" in Path(f"/proc/{grandchild}/stat").read_text().split()[2])
        assert (await other).status == 200
        decided = await server.ask("a", decides=True)
        assert "may have been decided" in said(decided)["message"]

    run(work())


def test_what_ends_by_itself_leaves_nothing_behind(tmp_path: Path):
    async def work() -> None:
        server = Server(tmp_path, limit_s=20)
        assert (await server.ask("a", waits=False, spawns=True)).status == 200
        grandchild = server.lines()[1][2]
        await until(lambda: not is_alive(grandchild) or "Z" in Path(f"/proc/{grandchild}/stat").read_text().split()[2])

    run(work())


def test_a_client_that_goes_away_waits_for_nothing(tmp_path: Path):
    async def work() -> None:
        server = Server(tmp_path)
        running, waiting = server.ask("a"), server.ask("a")
        await until(lambda: server.did("begin") == ["a"])
        server.clients[1].set()
        assert (await waiting).status == GONE
        again = server.ask("a")  # its place is free
        await asyncio.sleep(0)
        server.clients[0].set()
        assert (await running).status == GONE
        await until(lambda: server.did("begin") == ["a", "a"])
        assert not is_alive(server.lines()[0][2]), "nothing asks for it any more"
        server.go.touch()
        assert (await again).status == 200
        assert server.did("end") == ["a"]

    run(work())


def test_a_cancel_goes_on_when_its_client_has_gone(tmp_path: Path):
    async def work() -> None:
        server = Server(tmp_path)
        cancel = server.ask("a", decides=True)
        await until(lambda: server.did("begin") == ["a"])
        server.clients[0].set()
        assert (await cancel).status == GONE
        other = server.ask("b")
        await asyncio.sleep(0.1)
        assert server.did("begin") == ["a"], "the cancel still has the place"
        server.go.touch()
        assert (await other).status == 200
        assert [line[:2] for line in server.lines()] == [["begin", "a"], ["end", "a"], ["begin", "b"], ["end", "b"]]

    run(work())


def test_a_request_whose_task_is_cancelled_frees_its_place(tmp_path: Path):
    async def work() -> None:
        server = Server(tmp_path)
        tasks = [server.ask("a"), server.ask("b"), server.ask("c")]
        await until(lambda: server.did("begin") == ["a"])
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        server.go.touch()
        assert (await server.ask("d")).status == 200
        assert server.did("end") == ["d"]

    run(work())


def test_no_request_waits_for_ever(tmp_path: Path):
    async def work() -> None:
        server = Server(tmp_path, wait_s=0.1)
        first, second = server.ask("a"), server.ask("b")
        assert (await second).status == 429
        server.go.touch()
        assert (await first).status == 200

    run(work())


@pytest.mark.parametrize(
    ("values", "status", "error"),
    [
        ({"prints": "0123456789abcdef" * 4096, "times": 200}, 500, "TooLarge"),
        ({"prints": "hello\n"}, 500, "Internal"),
        ({"prints": "200 {}"}, 500, "Internal"),
        ({"prints": ""}, 500, "Internal"),
        ({"prints": "", "code": 3}, 500, "Internal"),
        ({"prints": '404 {"error": "NotFound"}\n'}, 404, "NotFound"),
    ],
)
def test_an_answer_that_is_none_is_said_so(tmp_path: Path, values: dict[str, Any], status: int, error: str):
    answer = run(_once(tmp_path, **values))
    assert (answer.status, said(answer)["error"]) == (status, error)


async def _once(folder: Path, **values: Any) -> Answered:
    return await Server(folder, limit_s=20).ask("a", waits=False, **values)


def test_what_a_child_logs_is_bounded_and_without_secrets(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "hudi_ops.page.child")
    says = "zookeeper://me:secret@host:2181/locks " + "x" * 1_000_000
    assert run(_once(tmp_path, says=says)).status == 200
    assert "preview of a: zookeeper://***@host" in caplog.text
    assert "secret" not in caplog.text
    assert len(caplog.text) < 2 * child.LOG_MAX


def test_a_program_that_does_not_start_is_said_so(tmp_path: Path):
    async def work() -> None:
        children = Children([str(tmp_path / "missing")])
        for _ in range(2):
            answer = await children.answer(Work("look", "a", "hudi-ops registry refresh a"), asyncio.Event().wait())
            assert (answer.status, said(answer)["next_step"]) == (503, "`hudi-ops registry refresh a`")

    run(work())


def test_a_child_gets_no_secret_of_airflow():
    given = {
        "PATH": "/bin",
        "HOME": "/root",
        "AIRFLOW_HOME": "/airflow",
        "AIRFLOW__CORE__FERNET_KEY": "k",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://a:b@c/d",
        "AIRFLOW_CONN_SPARK_DEFAULT": "{}",
        "_AIRFLOW_WWW_USER_PASSWORD": "p",
        "AWS_SECRET_ACCESS_KEY": "s",
        "HUDI_OPS_TABLES": "/t.yaml",
        "HUDI_OPS_REGISTRY": "postgresql://e:f@g/h",
    }
    kept = environment_of(given, "preview")
    kept.pop("PYTHONPATH")
    assert {*kept} == {"PATH", "HOME", "AIRFLOW_HOME", "AWS_SECRET_ACCESS_KEY", "HUDI_OPS_TABLES"}
    assert environment_of(given, "look")["HUDI_OPS_REGISTRY"] == given["HUDI_OPS_REGISTRY"]
    assert environment_of({**given, "PYTHONPATH": "/x"}, "look")["PYTHONPATH"].endswith(f"{os.pathsep}/x")


def test_the_answer_of_the_real_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "tables.yaml").write_text("tables: {}")
    monkeypatch.setenv("HUDI_OPS_TABLES", str(tmp_path / "tables.yaml"))

    async def work() -> Answered:
        return await Children().answer(Work("look", "../x", "hudi-ops registry refresh x"), asyncio.Event().wait())

    answer = run(work())
    assert answer.status == 404
    assert "tables.yaml declares no table '../x'" in said(answer)["message"]
