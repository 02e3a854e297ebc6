"""Requests of a timeline server: bad input, one sync for many requests, overload, slow storage (RFC-03, D.4)."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hudi_ops.server import table
from hudi_ops.server.limits import Limits
from hudi_ops.server.table_reader import NO_LOG
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.view.columns.slices import newest_slices
from hudi_ops.view.remote.wire import UNKNOWN_STATE, decode
from tests.bounds import examples
from tests.protocol.viewed_table import Played
from tests.servers import TABLE, Served, path_of, serving, wait_for
from tests.tables import DEFINITION, made
from tests.views import view_anew

TOKEN = "a-token-of-the-tests-0123456789"
BURST = 1_200


class Gate(FaultyStorage):
    """Storage whose calls wait while the gate is shut, and that counts readings of the timeline."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.gate = threading.Event()
        self.gate.set()
        self.waiting = 0

    def _pass(self) -> None:
        self.waiting += 1
        assert self.gate.wait(60), "the gate stayed shut"
        self.waiting -= 1

    def get(self, path: str) -> bytes:
        """Wait for the gate, and read a file."""
        self._pass()
        return super().get(path)


@dataclass
class Asked:
    """A table, its storage as the server sees it, and the server."""

    played: Played
    gate: Gate
    served: Served

    @property
    def syncs(self) -> int:
        return self.served.server.tables[TABLE].reader.syncs

    def together(self, count: int, ask: Callable[[int], Any]) -> list[Any]:
        """Ask from many threads at once."""
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(ask, range(count)))


@pytest.fixture
def asked() -> Iterator[Asked]:
    played = Played()
    gate = Gate(played.storage)
    with serving({TABLE: gate}) as served:
        wait_for(lambda: served.server.tables[TABLE].looked)
        yield Asked(played, gate, served)


def test_1_a_request_during_a_sync_gets_its_own_state(asked: Asked) -> None:
    """A state that is held is answered at once; a newer one once a sync has read it."""
    before = load_timeline(asked.played.storage, load_config(asked.played.storage))
    asked.played.write()
    asked.gate.gate.clear()
    with ThreadPoolExecutor(2) as pool:
        newer = pool.submit(asked.served.ask, asked.played.storage)
        wait_for(lambda: asked.gate.waiting)
        status, body = asked.served.ask(asked.played.storage, timeline=before)
        assert (status, decode(body).head.digest) == (
            200,
            path_of(asked.played.storage, "files", before).split("/")[-2],
        )
        assert not newer.done()
        asked.gate.gate.set()
        assert newer.result(60)[0] == 200


def test_2_two_syncs_are_never_made_at_a_time(asked: Asked) -> None:
    """Requests of one state, and then of several unknown ones, wait for one sync each."""
    asked.played.write()
    before = asked.syncs
    found = asked.together(40, lambda _: asked.served.ask(asked.played.storage)[0])
    assert (set(found), asked.syncs) == ({200}, before + 1)
    path = path_of(asked.played.storage, "files")
    unknown = path.replace(path.split("/")[-2], "0" * 64)
    found = asked.together(40, lambda _: asked.served.request("POST", unknown, b"{}"))
    assert Counter(status for status, _ in found) == {404: 40}
    assert json.loads(found[0][1])["reason"] == UNKNOWN_STATE
    assert asked.syncs == before + 2
    asked.gate.gate.clear()
    with ThreadPoolExecutor(8) as pool:
        paths = [path.replace(path.split("/")[-2], f"{number:064}") for number in range(1, 9)]
        all_of_them = [pool.submit(asked.served.request, "POST", one, b"{}") for one in paths]
        wait_for(lambda: asked.gate.waiting and len(asked.served.server.tables[TABLE]._lookups) == len(paths))
        assert asked.gate.waiting == 1, "one sync reads the table"
        asked.gate.gate.set()
        assert {one.result(60)[0] for one in all_of_them} == {404}
    assert asked.syncs <= before + 4


def test_3_a_newer_client_causes_a_sync_and_4_an_older_one_none(asked: Asked) -> None:
    """The server answers each of the last states exactly, whether its newest one is older or newer."""
    readings = [load_timeline(asked.played.storage, load_config(asked.played.storage))]
    views = [view_anew(asked.played.storage)]
    for _ in range(4):
        asked.played.write()
        readings.append(load_timeline(asked.played.storage, load_config(asked.played.storage)))
        views.append(view_anew(asked.played.storage))
    before = asked.syncs
    for reading, view in reversed([*zip(readings, views, strict=True)]):
        status, body = asked.served.ask(asked.played.storage, timeline=reading, newest=True)
        assert status == 200
        names = sorted(name for batch in decode(body).files for name in batch["name"].to_pylist())
        assert names == sorted(one.base.name for one in newest_slices(view) if one.base is not None)
    assert asked.syncs == before + 1, "the newest client came first; all states between are held"
    for _ in range(20):
        asked.played.write()
    assert asked.served.ask(asked.played.storage)[0] == 200
    assert asked.served.ask(asked.played.storage, timeline=readings[0])[0] == 404, "only the last 16 states are held"


@pytest.mark.parametrize(("memory_bytes", "held"), [(64 << 20, 3), (0, 1)])
def test_old_states_go_where_all_exceed_the_memory(memory_bytes: int, held: int) -> None:
    played = Played()
    limits = Limits(memory_bytes=memory_bytes, deadline_s=60, deadline_max_s=60)
    with serving({TABLE: FaultyStorage(played.storage)}, limits) as served:
        assert served.ask(played.storage)[0] == 200
        old = load_timeline(played.storage, load_config(played.storage))
        for _ in range(2):
            played.write()
            assert served.ask(played.storage)[0] == 200
        status = json.loads(served.request("GET", "/v1/status")[1])["tables"][TABLE]
        assert status["states"] == held
        assert (status["heap_bytes"] > 0) is (memory_bytes > 0), "the newest one lies in a file"
        assert served.ask(played.storage, timeline=old)[0] == (200 if held == 3 else 404)


def test_13_slow_storage_costs_the_deadline_alone(asked: Asked) -> None:
    """A request waits until its deadline; held states are still answered, and the table once storage answers again."""
    held = load_timeline(asked.played.storage, load_config(asked.played.storage))
    asked.played.write()
    asked.gate.gate.clear()
    began_s = time.monotonic()
    status, _ = asked.served.ask(asked.played.storage, hudi_ops_deadline_ms="300")
    assert status == 503
    assert time.monotonic() - began_s < 10
    assert asked.served.ask(asked.played.storage, timeline=held)[0] == 200
    asked.gate.gate.set()
    assert asked.served.ask(asked.played.storage)[0] == 200


def test_14_a_burst_is_answered_or_refused(asked: Asked) -> None:
    """Of 1,200 requests at once each ends within its deadline, and the server serves after it as before."""
    asked.played.write()
    path, deadline_s = path_of(asked.played.storage, "files"), 10.0

    def ask(_: int) -> tuple[int, float]:
        began_s = time.monotonic()
        status, _ = asked.served.request("POST", path, b"{}", hudi_ops_deadline_ms=str(int(deadline_s * 1000)))
        return status, time.monotonic() - began_s

    answers = asked.together(BURST, ask)
    found, longest_s = Counter(status for status, _ in answers), max(seconds for _, seconds in answers)
    next_s = min(seconds for status, seconds in (ask(0), ask(0), ask(0)) if status == 200)
    print(f"burst: {dict(found)}, the longest {longest_s:.2f} s; the next answer after {next_s * 1000:.0f} ms")
    assert found.keys() <= {200, 429, 503}
    assert found[200] >= 200
    assert longest_s <= deadline_s
    assert next_s <= 0.1


def test_14_more_requests_than_the_limit_are_refused() -> None:
    played = Played()
    gate = Gate(played.storage)
    with serving({TABLE: gate}, Limits(open_requests=3, deadline_s=60, deadline_max_s=60)) as served:
        wait_for(lambda: served.server.tables[TABLE].looked)
        gate.gate.clear()
        with ThreadPoolExecutor(3) as pool:
            played.write()
            waiting = [pool.submit(served.ask, played.storage) for _ in range(3)]
            wait_for(lambda: served.server.open == 3)
            found = served.pool.request("POST", served.url + path_of(played.storage, "files"), body=b"{}")
            assert (found.status, found.headers["retry-after"]) == (429, "1")
            assert served.request("GET", "/health")[0] == 200
            gate.gate.set()
            assert {one.result(60)[0] for one in waiting} == {200}


def test_16_apache_hudis_paths_are_unknown(asked: Asked) -> None:
    calls = len(asked.gate.history)
    for path in (
        "/v1/hoodie/view/slices/partition/latest/?partition=p0",
        "/v1/hoodie/marker/create",
        "/v1/hoodie/view/refresh/",
    ):
        for method in ("GET", "POST"):
            assert asked.served.request(method, path, b"x" if method == "POST" else None)[0] == 404
    assert len(asked.gate.history) == calls


def test_17_two_clients_ask_for_a_partition_at_once(asked: Asked) -> None:
    """It is encoded once, also while the first request still waits for it."""
    asked.played.write()
    assert asked.served.request("GET", path_of(asked.played.storage, "partitions"))[0] == 200
    with slow_encoder() as encoder, ThreadPoolExecutor(2) as pool:
        both = [pool.submit(asked.served.ask, asked.played.storage, "part=p0") for _ in range(2)]
        wait_for(lambda: asked.served.server.open == 2)
        encoder.go.set()
        found = [one.result(60) for one in both]
        found.append(asked.served.ask(asked.played.storage, "part=p0"))
    assert found[0] == found[1] == found[2]
    assert (found[0][0], encoder.calls) == (200, 1)


def test_answers_above_the_bytes_in_flight_are_refused() -> None:
    played = Played()
    limits = Limits(open_answers_bytes=1, deadline_s=60, deadline_max_s=60)
    with serving({TABLE: FaultyStorage(played.storage)}, limits) as served, slow_encoder() as encoder:
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(served.ask, played.storage)
            wait_for(lambda: encoder.calls)
            found = served.pool.request("POST", served.url + path_of(played.storage, "files"), body=b"{}")
            assert (found.status, found.headers["retry-after"]) == (429, "1")
            encoder.go.set()
            assert first.result(60)[0] == 200
        wait_for(lambda: not served.server.open)
        assert served.server.open_answers.bytes == 0
        assert served.ask(played.storage)[0] == 200


def test_the_bytes_of_an_answer_are_counted_until_the_client_took_them() -> None:
    played = Played()
    with serving({TABLE: FaultyStorage(played.storage)}) as served:
        large = b"x" * (32 << 20)
        with patch.object(table, "files_answer", lambda *args, **options: large):
            address = urlsplit(served.url)
            with socket.create_connection((address.hostname, address.port)) as client:
                head = f"POST {path_of(played.storage, 'files')} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{{}}"
                client.sendall(head.encode())
                assert client.recv(10)
                time.sleep(0.2)
                assert served.server.open_answers.bytes > 0
            wait_for(lambda: served.server.open_answers.bytes == 0)


@dataclass
class Encoder:
    """An encoder that waits."""

    go: threading.Event
    calls: int = 0


@contextmanager
def slow_encoder() -> Iterator[Encoder]:
    encoder, encode = Encoder(threading.Event()), table.encode_parts

    def encode_later(*args: Any, **options: Any) -> Any:
        encoder.calls += 1
        assert encoder.go.wait(60)
        return encode(*args, **options)

    with patch.object(table, "encode_parts", encode_later):
        yield encoder


def test_bad_input_is_refused(asked: Asked) -> None:
    good = path_of(asked.played.storage, "files")
    *_, table_id, start, digest, _ = good.split("/")
    calls = len(asked.gate.history)

    def post(path: str, body: Any = b"{}") -> int:
        return asked.served.request("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode())[0]

    assert post(good.replace(f"/{TABLE}/", "/unknown/")) == 404
    for path in ("../x", "/etc", "a/../b", "a\0b", "\ud800", 7, "x" * 5_000):
        assert post(good, {"partitions": [path]}) == 400, path
    for body in (b"", b"[", b"[]", b"\xff", {"partitions": "p0"}, {"newest": 1}, {"other": 1}, b"[" * 10_000):
        assert post(good, body) == 400, body
    for path in (good.replace(digest, "0" * 63), good.replace(digest, "x" * 64), good.replace(start, "yesterday")):
        assert post(path) == 400, path
    for name in ("..%2fserved", "%00", "%2e%2e"):
        assert post(good.replace(f"/{TABLE}/", f"/{name}/")) in {400, 404}
    assert post(good, {"partitions": [f"p{number}" for number in range(10_001)]}) == 413
    assert post(good, b" " * (4 << 20) + b"{}") == 413
    assert len(asked.gate.history) == calls, "none of these reads the table"
    status, body = asked.served.ask(asked.played.storage, "part=p7", "no/such")
    assert (status, decode(body).head.partitions) == (200, (("no/such", 0), ("part=p7", 0)))
    assert post(good.replace(table_id, "another-id")) == 409
    assert asked.served.request("POST", good, b"{}", hudi_ops_deadline_ms="soon")[0] == 400


def test_an_answer_above_its_limit_is_refused() -> None:
    played = Played()
    with serving({TABLE: FaultyStorage(played.storage)}, Limits(answer_bytes=100, deadline_s=60)) as served:
        assert served.ask(played.storage)[0] == 413
        assert served.request("GET", path_of(played.storage, "partitions"))[0] == 200


def test_a_table_without_commit_log_is_not_served(
    hudi_fixtures: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    why = NO_LOG
    with serving({TABLE: LocalStorage(hudi_fixtures("v9_txns_simple_meta_cow"))}) as served:
        wait_for(lambda: served.request("GET", "/ready")[0] == 200)
        status, body = served.request("GET", f"/v1/tables/{TABLE}")
        assert (status, json.loads(body)["reason"]) == (404, why)
        path = f"/v1/tables/{TABLE}/an-id/20260101000000000/{'0' * 64}/files"
        status, body = served.request("POST", path, b"{}")
        assert (status, json.loads(body)["reason"]) == (404, why)
    assert why in caplog.text


def test_18_a_table_without_rows_is_served() -> None:
    storage = made(DEFINITION)
    with serving({TABLE: FaultyStorage(storage)}) as served:
        status, body = served.ask(storage)
        assert (status, decode(body).head.partitions) == (200, ())


def test_a_token_is_needed_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    played = Played()
    with serving({TABLE: FaultyStorage(played.storage)}, token=TOKEN) as served:
        path = path_of(played.storage, "files")
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}, {"authorization": "Bearer "}):
            status, body = served.request("POST", path, b"{}", **headers)
            assert status == 401
            assert TOKEN.encode() not in body
        for path_of_all in ("/v1/status", "/v1/tables/served", "/nothing"):
            assert served.request("GET", path_of_all)[0] == 401
        assert served.request("GET", "/health")[0] == 200
        assert served.request("POST", path, b"{}", authorization=f"Bearer {TOKEN}")[0] == 200
        status, body = served.request("GET", "/v1/status", authorization=f"Bearer {TOKEN}")
        assert (status, TOKEN.encode() in body) == (200, False)
    assert TOKEN not in caplog.text


TEXTS = st.text(max_size=40)
PATHS = st.one_of(
    st.sampled_from(["/", "/health", "/ready", "/v1/status", "/v1/tables/served", "/v1/hoodie/view", "/v1/tables//"]),
    st.lists(st.one_of(TEXTS, st.sampled_from(["v1", "tables", TABLE, "files", "..", "%00"])), max_size=8).map(
        lambda parts: "/" + "/".join(parts)
    ),
    st.tuples(TEXTS, TEXTS, TEXTS).map(lambda parts: f"/v1/tables/{TABLE}/{'/'.join(parts)}/files"),
)
JSON = st.recursive(st.none() | st.booleans() | st.integers() | TEXTS, lambda inner: st.lists(inner, max_size=4))
BODIES = st.one_of(
    st.none(),
    st.binary(max_size=200),
    st.fixed_dictionaries({}, optional={"partitions": JSON, "newest": JSON}).map(
        lambda said: json.dumps(said).encode()
    ),
)


@pytest.fixture(scope="module")
def protected() -> Iterator[tuple[Served, str]]:
    played = Played()
    with serving({TABLE: FaultyStorage(played.storage)}, Limits(deadline_s=5), token=TOKEN) as served:
        yield served, path_of(played.storage, "files")


@settings(max_examples=examples(300, 5_000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_request_is_answered_without_a_fault(
    protected: tuple[Served, str], caplog: pytest.LogCaptureFixture, data: st.DataObject
) -> None:
    """No status of 500 or above but 503, and no token in answers or logs."""
    served, good = protected
    method = data.draw(st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"]))
    path, body = data.draw(st.one_of(PATHS, st.just(good))), data.draw(BODIES)
    headers = {} if data.draw(st.integers(0, 4)) == 0 else {"authorization": f"Bearer {TOKEN}"}
    header = data.draw(st.sampled_from(["hudi-ops-deadline-ms", "content-type", "x-any", "content-encoding", "accept"]))
    headers[header] = data.draw(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20))
    found = served.pool.request(method, served.url + path, body=body, headers=headers, redirect=False, timeout=60)
    assert found.status < 500 or found.status == 503, (method, path, found.status)
    assert TOKEN.encode() not in found.data
    assert TOKEN not in caplog.text
    assert not [one for one in caplog.records if one.levelname == "ERROR"]
