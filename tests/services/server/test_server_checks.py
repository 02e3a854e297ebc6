"""What a client does with a wrong answer: it is not used. Each check is removed once, and then a wrong answer is used.

A client has read the newest commit alone. The wrong answers have checksums that match, except where the checksum is the check.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pytest

from hudi_ops.files.names import base_file_name
from hudi_ops.read.plan import ReadRequest, plan_read
from hudi_ops.read.where import parse_where
from hudi_ops.server.states import State, States
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.view.columns.kept import kept_settings, view_source
from hudi_ops.view.remote import checks
from hudi_ops.view.remote.client import client_of
from hudi_ops.view.remote.wire import decode
from tests.lies import Lie, Proxy, altered, lying, rows_of, unsealed
from tests.protocol.viewed_table import Played
from tests.servers import TABLE, Served, asking, forget_servers, path_of, serving
from tests.views import view_anew

WHERE = "part = 'p0'"


@dataclass
class Checked:
    """A table of five commits whose last one wrote p0, a server, and a proxy before it."""

    played: Played
    served: Served
    proxy: Proxy

    def plan(self) -> tuple[set[tuple[str, int]], str, int]:
        """Plan a read of p0 in a new process; return paths and sizes of its files, how it found them, and bad answers."""
        forget_servers()
        process = asking(self.played.storage, self.proxy.url)
        found = plan_read(process, ReadRequest(where=parse_where(WHERE)))
        server = kept_settings(process).server
        assert server is not None
        return (
            {(task.path, task.size_bytes) for task in found.tasks},
            view_source(process),
            client_of(server).counts["bad"],
        )

    @property
    def truth(self) -> set[tuple[str, int]]:
        """Newest files of p0."""
        slices = checks.newest_slices(view_anew(self.played.storage)).objects()
        return {(one.base.path, one.base.size_bytes) for one in slices if one.base and one.partition_path == "part=p0"}


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Checked]:
    monkeypatch.setattr("hudi_ops.view.listing.FOLDERS_MAX", 0)  # as if a condition left many folders
    played = Played()
    while played.number < 4:
        played.write()  # p0 last
    with serving({TABLE: FaultyStorage(played.storage)}) as served, lying(served.url) as proxy:
        yield Checked(played, served, proxy)


def of_files(lie: Callable[[bytes], bytes]) -> Lie:
    """Alter answers with files alone."""
    return lambda path, body: lie(body) if path.endswith("/files") else body


def one_row(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[list[dict[str, Any]]], Any]:
    return lambda rows: [*rows[:-1], change(rows[-1])]


def added(instant: str) -> Callable[[list[dict[str, Any]]], Any]:
    """Add a base file of another instant to the last group."""

    def add(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        last = rows[-1]
        name = base_file_name(last["file_id"], 1, 0, instant)
        found = {**last, "name": name, "instant": instant}
        return sorted([*rows, found], key=lambda row: (row["file_id"], row["name"]))

    return add


def lie_of_table(checked: Checked) -> Lie:
    return of_files(lambda body: altered(body, head=lambda head: replace(head, table_id="another-table")))


def lie_of_checksum(checked: Checked) -> Lie:
    checked.played.write()  # p1: the commit of p0 is not in memory
    return of_files(lambda body: unsealed(body, one_row(lambda row: {**row, "size": row["size"] + 1})))


def lie_of_state(checked: Checked) -> Lie:
    """Replay the answer to an earlier question: since then p0 was written, and then p1."""
    played = checked.played
    _, old = checked.served.ask(played.storage, "part=p0", newest=True)
    played.write()
    played.write()
    played.write()
    return of_files(lambda body: old)


def lie_of_partitions(checked: Checked) -> Lie:
    """Answer with another partition, which has no files."""
    checked.played.write()
    _, other = checked.served.ask(checked.played.storage, "part=p9", newest=True)
    return of_files(lambda body: other)


def lie_of_names(checked: Checked) -> Lie:
    """Name a file of another folder."""
    checked.played.write()

    def elsewhere(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "file_id": f"../elsewhere/{row['file_id']}", "name": f"../elsewhere/{row['name']}"}

    return of_files(lambda body: altered(body, rows=one_row(elsewhere)))


def lie_of_instants(checked: Checked) -> Lie:
    """Add a file of an instant that has not completed."""
    return of_files(lambda body: altered(body, rows=added("20990101000000000")))


def lie_of_named(checked: Checked) -> Lie:
    """Drop the file that the newest commit wrote, for the one before it."""
    old = next(one for one in reversed(load_timeline_of(checked).completed_writes[:-1]) if one.time)

    def older(row: dict[str, Any]) -> dict[str, Any]:
        name = row["name"].replace(row["instant"], old.time)
        return {**row, "name": name, "instant": old.time}

    return of_files(lambda body: altered(body, rows=one_row(older)))


def load_timeline_of(checked: Checked) -> Any:
    return load_timeline(checked.played.storage, load_config(checked.played.storage))


LIES: dict[str, Callable[[Checked], Lie]] = {
    "table": lie_of_table,
    "checksum": lie_of_checksum,
    "state": lie_of_state,
    "partitions": lie_of_partitions,
    "names": lie_of_names,
    "instants": lie_of_instants,
    "named": lie_of_named,
}


@pytest.mark.parametrize("check", checks.CHECKS)
def test_without_a_check_a_wrong_answer_is_used(check: str, checked: Checked, caplog: pytest.LogCaptureFixture) -> None:
    checked.proxy.lie = LIES[check](checked)
    with caplog.at_level(logging.ERROR):
        planned, source, bad = checked.plan()
    assert checked.proxy.told
    assert (planned, bad) == (checked.truth, 1), "the answer was refused, and the view built"
    assert source == ""
    assert [one.levelname for one in caplog.records if one.levelname != "INFO"] == ["ERROR"]
    with patch.dict(checks.CHECKS):
        del checks.CHECKS[check]
        planned, source, bad = checked.plan()
    assert (source, bad) == ("server", 0), f"without the check of the {check} the answer is used"
    assert planned != checked.truth or check == "table", "the lie about the table's id leaves the files as they are"
    checked.proxy.honest()
    assert checked.plan() == (checked.truth, "server", 0)


def replaced(by: str, path: str = "part=p0", twice: bool = False) -> Lie:
    """Say that a commit replaced the groups of p0."""

    def lie(body: bytes) -> bytes:
        ids = sorted({row["file_id"] for row in rows_of(decode(body))["part=p0"]})
        groups = tuple((path, one, by) for one in ids) * (1 + twice)
        return altered(body, head=lambda head: replace(head, replaced=groups))

    return of_files(lie)


def test_groups_are_not_hidden_by_what_replaced_nothing(checked: Checked) -> None:
    """Words that are no instant, instants of other writes, old and future ones, groups elsewhere, and groups named twice."""
    timeline = load_timeline_of(checked)
    old, last = timeline.start, timeline.completed_writes[-1].time
    for lie in (
        *map(replaced, ("0", "", "x", "20990101000000000", "19700101000000000", old, last)),
        replaced("19700101000000000", "part=p9"),
        replaced("19700101000000000", twice=True),
    ):
        checked.proxy.lie, told = lie, checked.proxy.told
        assert checked.plan() == (checked.truth, "", 1)
        assert checked.proxy.told == told + 1


def test_without_the_404_rule_a_stale_answer_is_used(checked: Checked) -> None:
    """A server that does not see the newest commits says so; one that answers with what it has would be believed."""
    played = checked.played
    stale = FaultyStorage(played.storage.copy(played.clock))
    for _ in range(3):
        played.write()
    with serving({TABLE: stale}) as served:
        checked.proxy.target = served.url
        assert served.request("POST", path_of(played.storage, "files"), b"{}")[0] == 404
        assert checked.plan() == (checked.truth, "", 0)

        def newest(states: States, start: str, digest: str) -> State:
            return states.newest

        with patch.object(States, "find", newest):
            planned, source, bad = checked.plan()
        assert (source, bad) == ("server", 0)
        assert planned != checked.truth, "the answer lacks the commits that the server does not see"
