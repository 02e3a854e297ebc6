"""A process that asks a timeline server: in which order views are looked for, and what a dead, slow or cut server costs."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pydantic import ValidationError

from hudi_ops.concurrency.lock.locks import hold_lock, is_lock_held
from hudi_ops.config.tables_file import load_tables, locate_table
from hudi_ops.config.write_settings import ViewServer, ViewSettings
from hudi_ops.read.current_view import current_view
from hudi_ops.read.plan import Opened, ReadRequest, plan_read
from hudi_ops.read.where import parse_where
from hudi_ops.services.clean.choose import choose
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.kept import forget_view, keep_views, kept_settings, kept_view, view_source
from hudi_ops.view.columns.slices import newest_slices
from hudi_ops.view.remote import checks, client as client_module
from hudi_ops.view.remote.checks import Question
from hudi_ops.view.remote.client import DEADLINE_S, PAUSE_S, Client, Deadline, NoAnswer, Reply, client_of
from hudi_ops.view.remote.served import Wish, served_view
from hudi_ops.view.remote.wire import BadAnswer, decode, sealed, sections
from tests.bounds import bound, examples
from tests.lies import Proxy, altered, flipped, lying, rows_of, with_text
from tests.protocol.viewed_table import Played
from tests.servers import TABLE, Served, ask_server, asking, forget_servers, path_of, serving, wait_for
from tests.tables import WITH_METADATA, by_key, rows, table_of
from tests.views import CLEANS, view_anew

DEAD = "http://127.0.0.1:1"
ONE = ReadRequest(where=parse_where("part = 'p0'"))


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask anew; and for each read, as if a condition left many folders."""
    forget_servers()
    monkeypatch.setattr("hudi_ops.view.listing.FOLDERS_MAX", 0)


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture
def served(played: Played) -> Iterator[Served]:
    with serving({TABLE: FaultyStorage(played.storage)}) as found:
        yield found


@pytest.fixture
def proxy(served: Served) -> Iterator[Proxy]:
    with lying(served.url) as found:
        yield found


def planned(process: Storage, played: Played, request: ReadRequest = ONE) -> str:
    """Plan a read, compare its files; return how the view was found."""
    found = plan_read(process, request)
    slices = newest_slices(view_anew(played.storage)).objects()
    wanted = {one.base.path for one in slices if one.base and (request is not ONE or one.partition_path == "part=p0")}
    assert {task.path for task in found.tasks} == wanted
    return view_source(process)


def test_the_order_is_own_view_stored_view_server_build(played: Played, served: Served, tmp_path: Path) -> None:
    process = asking(played.storage, served.url)
    assert planned(process, played, ReadRequest()) == "server"
    assert not [call for call in process.history if "part=" in call], "nothing is listed"
    played.write()
    asked = served.server.answers.total()
    assert planned(process, played, ReadRequest()) == "kept, 1 instant applied"
    assert planned(process, played) == "kept, 0 instants applied"
    assert served.server.answers.total() == asked
    server = ViewServer(url=served.url, table=TABLE)
    for own, wanted in (
        (server, "server"),
        (server, "server"),
        (None, "built"),
        (server, "stored, 0 instants applied"),
    ):
        other = FaultyStorage(played.storage)
        keep_views(other, ViewSettings(store="disk", folder=str(tmp_path / "views"), server=own))
        assert planned(other, played, ReadRequest()) == wanted, "a view of the server is not stored for others"
    forget_view(process)
    assert planned(process, played, ReadRequest()) == "built", "after a file was missing, no server is asked"


def test_a_read_of_a_partition_gets_its_files_alone(played: Played, served: Served) -> None:
    for _ in range(5):
        played.write()
    process = asking(played.storage, served.url)
    found = served_view(process, *opened(process), Wish(lambda paths: [path == "part=p0" for path in paths], True))
    assert found is not None
    assert found.files.partitions == ("part=p0", "part=p1")
    assert (len(found.files["part=p0"]), len(found.files["part=p1"])) == (1, 0)
    plan = plan_read(asking(played.storage, served.url), ONE)
    assert (plan.partitions, plan.partitions_skipped) == (("part=p0",), ("part=p1",))
    none = ReadRequest(where=parse_where("part = 'p9'"))
    assert not len(plan_read(asking(played.storage, served.url), none).tasks)
    past = ReadRequest(as_of=view_anew(played.storage).timeline.completed_writes[-3].time)
    asker = asking(played.storage, served.url)
    wanted = [task.path for task in plan_read(FaultyStorage(played.storage), past).tasks]
    assert ([task.path for task in plan_read(asker, past).tasks], view_source(asker)) == (wanted, "server")


def opened(storage: Storage) -> tuple[object, ...]:
    found = Opened.of(storage)
    return found.config, found.timeline, found.commits


def test_a_dead_server_costs_little_and_is_not_asked_again(played: Played, caplog: pytest.LogCaptureFixture) -> None:
    process = asking(played.storage, DEAD)
    began_s = time.monotonic()
    assert planned(process, played, ReadRequest()) == "built (not by the timeline server: " + why(caplog) + ")"
    for _ in range(3):
        again = asking(played.storage, DEAD)
        assert planned(again, played, ReadRequest()).startswith("built (not by the timeline server: it failed shortly")
    assert time.monotonic() - began_s < 10 * DEADLINE_S
    server = kept_settings(process).server
    assert server is not None
    assert client_of(server).counts == {"no answer": 1}
    assert len([one for one in caplog.records if "is not used" in one.message]) == 1


def why(caplog: pytest.LogCaptureFixture) -> str:
    (said,) = [one for one in caplog.records if "is not used" in one.message]
    return str(said.args[2]) if isinstance(said.args, tuple) else ""


def test_13_a_slow_server_costs_one_deadline(played: Played, proxy: Proxy) -> None:
    proxy.wait_s = 20.0
    began_s = time.monotonic()
    planned(asking(played.storage, proxy.url), played)
    assert DEADLINE_S <= time.monotonic() - began_s < 10 * DEADLINE_S
    planned(asking(played.storage, proxy.url), played)
    assert len(proxy.seen) == 1


def test_15_after_the_pause_one_thread_asks(played: Played, proxy: Proxy) -> None:
    """The others go on without the server until it has answered."""
    now_s, began = [0.0], threading.Event()
    client = Client(ViewServer(url=proxy.url), now_s=lambda: now_s[0])
    with pytest.raises(NoAnswer), client.asking():
        raise NoAnswer("dead")
    with pytest.raises(NoAnswer, match="shortly before"), client.asking():
        pass
    now_s[0] = PAUSE_S + 0.1
    finish = threading.Event()

    def probe() -> None:
        with client.asking():
            began.set()
            assert finish.wait(60)

    thread = threading.Thread(target=probe)
    thread.start()
    assert began.wait(60)
    for _ in range(3):
        with pytest.raises(NoAnswer, match="another thread"), client.asking():
            pass
    finish.set()
    thread.join(60)
    with client.asking(), client.asking():
        pass
    now_s[0] += 1
    with pytest.raises(NoAnswer), client.asking():
        raise NoAnswer("dead again")
    now_s[0] += PAUSE_S + 1
    with pytest.raises(NoAnswer), client.asking():
        raise NoAnswer("still dead")
    with pytest.raises(NoAnswer, match="shortly before"), client.asking():
        pass


def test_a_broken_connection_is_tried_once_more(played: Played, served: Served, proxy: Proxy) -> None:
    """A server closes connections that were idle; and a cut answer is asked for again, once."""
    process = asking(played.storage, proxy.url)
    assert planned(process, played) == "server"
    proxy.cut, seen = 5, len(proxy.seen)
    assert planned(asking(played.storage, proxy.url), played) == ""
    assert len(proxy.seen) == seen + 2
    proxy.honest()
    forget_servers()
    assert planned(asking(played.storage, proxy.url), played) == "server"


def test_no_flipped_byte_is_used(played: Played, proxy: Proxy, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(48)
    for number in range(bound(20, 60, 2_000)):
        at = chance.random()
        proxy.lie = lambda path, body, at=at: flipped(body, at)  # type: ignore[misc]
        forget_servers()
        request = (ONE, ReadRequest())[number % 2]
        assert planned(asking(played.storage, proxy.url), played, request) != "server"
    assert "Traceback" not in caplog.text


def test_after_a_404_the_timeline_is_listed_once_more(played: Played, served: Served) -> None:
    """A caller whose state is not held any more gets the view of a later one, and reads as of it."""
    process = asking(played.storage, served.url)
    config, timeline, _ = opened(process)
    for _ in range(20):
        played.write()
        served.ask(played.storage)
    commits = CommitReader(process)
    assert served_view(process, config, timeline, commits) is None
    later = served_view(process, config, timeline, commits, Wish(may_be_later=True))
    assert later is not None
    assert later.timeline.newest_time > timeline.newest_time  # type: ignore[attr-defined]
    assert newest_slices(later).objects() == newest_slices(view_anew(played.storage)).objects()


def test_a_read_goes_on_with_a_later_state(played: Played, served: Served) -> None:
    """The server has left the state at which the read began; rows are those of the newest one."""

    class Moved(FaultyStorage):
        """Storage of a process during whose first listing of the timeline many commits complete."""

        moved = False

        def list_new(self, prefix: str, known: frozenset[str]):  # type: ignore[no-untyped-def]
            found = super().list_new(prefix, known)
            if not self.moved and prefix.endswith("timeline"):
                self.moved = True
                for _ in range(20):
                    played.write()
                    served.ask(played.storage)
            return found

    served.ask(played.storage)
    process = Moved(played.storage)
    keep_views(process, ViewSettings(server=ViewServer(url=served.url, table=TABLE)))
    plan = plan_read(process, ReadRequest())
    assert view_source(process) == "server"
    slices = newest_slices(view_anew(played.storage)).objects()
    assert {task.path for task in plan.tasks} == {one.base.path for one in slices if one.base is not None}


def test_no_server_is_asked_while_the_lock_is_held(played: Played, served: Served) -> None:
    process = asking(played.storage, served.url)
    table = table_of(process, played.clock, "holder")
    keep_views(process, ViewSettings(server=ViewServer(url=served.url, table=TABLE)))
    asked = served.server.answers.total()
    with hold_lock(table.context, "a test"):
        assert is_lock_held()
        assert served_view(process, *opened(process)) is None
    assert served.server.answers.total() == asked
    assert served_view(process, *opened(process)) is not None


def test_no_server_is_asked_where_a_condition_leaves_few_folders(
    played: Played, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        played.write()
    asked = served.server.answers.total()
    for folders, wanted in ((2, ""), (1, "server")):  # the table's own folder, and that of p0
        monkeypatch.setattr("hudi_ops.view.listing.FOLDERS_MAX", folders)
        process = asking(played.storage, served.url)
        assert planned(process, played) == wanted
        assert (served.server.answers.total() == asked) is (wanted == "")


def test_writes_and_plans_of_services_use_no_view_of_a_server(played: Played, served: Served) -> None:
    process = asking(played.storage, served.url)
    table = table_of(process, played.clock, "writer")
    keep_views(process, ViewSettings(server=ViewServer(url=served.url, table=TABLE)))
    asked = served.server.answers.total()
    table.ingest(rows(("kp0", "p0", 50, 50, None)))
    assert served.server.answers.total() == asked
    assert by_key(table)["kp0"] == 50
    forget_view(process)  # that of the writer
    told = asking(played.storage, served.url)
    table = table_of(told, played.clock, "planner")
    keep_views(told, ViewSettings(server=ViewServer(url=served.url, table=TABLE)))
    assert current_view(told, *opened(told)).files.count
    assert view_source(told) == "server"
    played.write()
    assert kept_view(told, *opened(told)) is not None, "the view that was told is continued"
    assert kept_view(told, *opened(told), may_be_served=False) is None
    assert table.clustering.plan(dry_run=True, rewrite=True, sort_by="value").view == "built"


def hiding_all(path: str, body: bytes) -> bytes:
    """Say that a commit of long ago replaced each group."""
    if not path.endswith("/files"):
        return body
    groups = {(at, row["file_id"]) for at, rows in rows_of(decode(body)).items() for row in rows}
    return altered(body, head=lambda head: replace(head, replaced=tuple((*one, "0") for one in sorted(groups))))


def test_a_lying_server_changes_no_plan_of_a_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """No check refuses the lie, and a read of the same process has used it."""
    for name in checks.CHECKS:
        monkeypatch.setitem(checks.CHECKS, name, lambda one: "")
    played = Played(WITH_METADATA)
    while played.number < 8:
        played.write()
    with serving({TABLE: FaultyStorage(played.storage)}) as served, lying(served.url) as proxy:
        proxy.lie = hiding_all
        dropped = 0
        for request in CLEANS:
            alone = table_of(FaultyStorage(played.storage), played.clock, "alone")._session
            wanted = choose(alone, alone.loader.load(), request).dropped
            dropped += len(wanted)
            for has_read in (False, True):
                process = FaultyStorage(played.storage)
                session = table_of(process, played.clock, "cleaner")._session
                ask_server(process, proxy.url)
                if has_read:
                    assert not newest_slices(current_view(process, *opened(process))).objects(), "the lie was used"
                assert choose(session, session.loader.load(), request).dropped == wanted
        assert dropped
        assert proxy.told == len(CLEANS)


class Trickle(BaseHTTPRequestHandler):
    """Sends a byte now and then, of the headers or of the body, for as long as the client listens."""

    is_in_headers = False
    gone = threading.Semaphore(0)

    def do_POST(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n" + (b"a: " if self.is_in_headers else b"content-length: 99999\r\n\r\n"))
        try:
            while not time.sleep(0.05):
                self.wfile.write(b"x")
        except OSError:
            self.gone.release()

    def log_message(self, *args: object) -> None:
        pass


@pytest.mark.parametrize("is_in_headers", [True, False])
def test_a_server_that_trickles_leaves_no_thread(is_in_headers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trickle, "is_in_headers", is_in_headers)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Trickle)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = Client(ViewServer(url=f"http://127.0.0.1:{server.server_address[1]}"))

    def has_no_thread() -> bool:
        return "view of the timeline server" not in {one.name for one in threading.enumerate()}

    def shut_and_wait(thread: int | None, shut: Callable[[int | None], None] = client_module._shut) -> None:
        shut(thread)
        wait_for(has_no_thread)  # the thread takes the end of the connection for that of the headers, and has a reply

    monkeypatch.setattr(client_module, "_shut", shut_and_wait)
    try:
        with pytest.raises(NoAnswer, match="too long"), client.asking() as deadline:
            deadline.request("POST", "/", b"{}")
        assert Trickle.gone.acquire(timeout=30), "the connection was closed"
        wait_for(has_no_thread)
    finally:
        server.shutdown()
        server.server_close()


TEXTS = st.text(st.characters(), max_size=5) | st.sampled_from(["", "part=p0", "\ud800", "0", "20200101000000000"])
COUNTS = st.integers() | st.sampled_from([10**30, 2**62, -1, True])
GROUPS = st.lists(st.tuples(TEXTS, COUNTS) | st.tuples(TEXTS, TEXTS, TEXTS), max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | COUNTS | TEXTS, lambda one: st.lists(one, max_size=3), max_leaves=5
)


@pytest.fixture(scope="module")
def answered() -> Iterator[tuple[Played, Served, dict[str, bytes]]]:
    """A table, its server, and the server's answers."""
    played = Played()
    with serving({TABLE: FaultyStorage(played.storage)}) as served:
        names = served.request("GET", path_of(played.storage, "partitions"))[1]
        yield played, served, {"files": served.ask(played.storage)[1], "partitions": names}


@settings(max_examples=examples(200, 5_000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_answer_raises(answered: tuple[Played, Served, dict[str, bytes]], data: st.DataObject) -> None:
    """Any bytes, altered bytes and altered words with a checksum that matches: they are used, or counted as bad."""
    played, served, good = answered

    def mutated(what: str) -> bytes:
        said = data.draw(st.sampled_from(["format", "newest", "rows", "partitions", "replaced", "ahead", "table"]))
        body = data.draw(
            st.one_of(
                st.binary(max_size=100),
                st.floats(0, 1).map(lambda at: flipped(good[what], at)),
                st.floats(0, 1).map(lambda at: sealed(*sections(flipped(good[what][:-24], at) + good[what][-24:])[:3])),
                (GROUPS | JSON).map(lambda value: with_text(good[what], **{said: value})),
            )
        )
        config, timeline, commits = opened(played.storage)
        with suppress(BadAnswer):
            checks.checked(Question("t", "d", config, timeline, commits, is_newest=False), decode(body))  # type: ignore[arg-type]
        return body

    process = asking(played.storage, served.url)
    lies = {what: mutated(what) for what in data.draw(st.sampled_from([("files",), ("files", "partitions")]))}
    forget_servers()

    def reply(self: Deadline, method: str, path: str, body: bytes | None = None) -> Reply:
        what = path.rpartition("/")[2]
        return Reply(200, lies.get(what, good[what]))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Deadline, "request", reply)
        found = served_view(
            process, *opened(process), Wish() if len(lies) == 1 else Wish(lambda paths: [True] * len(paths))
        )
    server = kept_settings(process).server
    assert server is not None
    assert client_of(server).counts == ({"bad": 1} if found is None else {"answers": 1})


def test_an_error_that_no_check_foresaw_is_a_bad_answer(
    played: Played, served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(one: checks.Checked) -> str:
        raise OverflowError("too large")

    monkeypatch.setitem(checks.CHECKS, "names", fails)
    process = asking(played.storage, served.url)
    assert planned(process, played) == ""
    assert "Traceback" in caplog.text
    server = kept_settings(process).server
    assert server is not None
    assert client_of(server).counts == {"bad": 1}


def test_a_table_without_commit_log_is_built_here_and_told_once(
    hudi_fixtures: Callable[[str], Path], served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    path = hudi_fixtures("v9_txns_simple_meta_cow")
    for _ in range(2):
        process = asking(LocalStorage(path), served.url)
        assert len(plan_read(process, ReadRequest()).tasks)
        found = Opened.of(process)
        assert current_view(process, found.config, found.timeline, found.commits).files.count
    assert len([one for one in caplog.records if "has no commit log" in one.getMessage()]) == 1


def test_unusable_tokens_leave_the_server_out(played: Played, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    token = "a-secret-token-of-a-test-0123456789"
    with serving({TABLE: FaultyStorage(played.storage)}, token=token) as served:
        (file := tmp_path / "token").write_text(token + "\n")
        for mode, wanted in ((0o644, ""), (0o600, "server")):
            file.chmod(mode)
            forget_servers()
            assert planned(asking(played.storage, served.url, token_file=str(file)), played) == wanted
        forget_servers()
        file.write_text("wrong" * 8)
        assert planned(asking(played.storage, served.url, token_file=str(file)), played) == ""
        assert planned(asking(played.storage, served.url, token_file=str(tmp_path / "none")), played) == ""
    assert token not in caplog.text
    assert "chmod 600" in caplog.text
    assert [one for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "ftp://host"},
        {"url": "host:1"},
        {"url": "http://user:pw@host"},
        {"url": "http://host/path"},
        {"url": "http://host?x=1"},
        {"url": "http://10.0.0.1:1", "token_file": "token"},
        {"url": "http://localhost.example.com", "token_file": "token"},
        {"url": "http://host", "timeout": 5},
    ],
)
def test_settings_that_are_wrong_or_unsafe_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ViewServer.model_validate(settings)


def test_files_are_relative_to_tables_yaml_and_the_table_has_its_name(tmp_path: Path) -> None:
    (file := tmp_path / "tables.yaml").write_text(
        "tables:\n  trips: {path: t, record_key: [id], view: {server: {url: 'https://host:1/', token_file: secrets/token,\n"
        "    ca_file: /etc/ca.pem}}}\n"
    )
    for found in (locate_table("trips", file).view, locate_table("trips", load_tables(file)).options()["view"]):
        assert found.server is not None
        assert found.server.model_dump() == {
            "url": "https://host:1",
            "token_file": str(tmp_path / "secrets/token"),
            "ca_file": "/etc/ca.pem",
            "table": "trips",
        }
