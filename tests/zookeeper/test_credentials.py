"""Locks with credentials on real servers: digest, TLS, who may delete a lock's nodes, and Curator beside us."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from hudi_ops.concurrency.lock.embedded_zookeeper import EmbeddedZooKeeper
from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock
from hudi_ops.config.zookeeper_settings import ZooKeeperSettings
from hudi_ops.errors import Busy, InvalidRequest, Unavailable, Unsupported
from hudi_ops.table.table import Table
from tests.zookeeper.conftest import BASE_PATH, DEADLINE_S
from tests.zookeeper.tls_server import make_certificates, tls_server

DIGEST = ZooKeeperSettings.model_validate({"auth": "digest", "user": "hudi", "password": "pass-word"})
SHARED = DIGEST.model_copy(update={"shares_credentials": True})
OTHERS = ZooKeeperSettings.model_validate({"auth": "digest", "user": "hudi", "password": "of-others-9041"})
HAND_OVERS = 10
NewLock = Callable[..., ZooKeeperLock]


def ours_alone(lock: ZooKeeperLock) -> ZooKeeperLock:
    """A lock that has been told that no writer of Apache Hudi shares its table."""
    lock.has_foreign_writers = False
    return lock


@pytest.fixture
def anybody(server: EmbeddedZooKeeper) -> Iterator[KazooClient]:
    """A client without credentials."""
    client = KazooClient(server.hosts)
    client.start(timeout=DEADLINE_S)
    yield client
    client.stop()
    client.close()


def node_in(client: KazooClient, key: str) -> str:
    (child,) = client.get_children(f"{BASE_PATH}/{key}")
    return f"{BASE_PATH}/{key}/{child}"


def is_open(client: KazooClient, path: str) -> bool:
    return any(acl.id.scheme == "world" and acl.acl_list == ["ALL"] for acl in client.get_acls(path)[0])


def test_nobody_else_can_delete_a_lock_that_is_held(
    server: EmbeddedZooKeeper, new_lock: NewLock, anybody: KazooClient, key: str
) -> None:
    lock, second = (ours_alone(new_lock(server, settings=DIGEST)) for _ in range(2))
    with lock.acquire(10, "ingest") as held:
        with pytest.raises(NoAuthError):
            anybody.delete(node_in(anybody, key))
        with pytest.raises(NoAuthError):
            anybody.set(node_in(anybody, key), b"mine")
        with pytest.raises(Busy, match="held by ours"), second.acquire(0.2, "ingest"):
            pytest.fail("both hold it")
        assert held.still_mine()
    with second.acquire(10, "ingest") as held:
        assert held.still_mine()
    assert is_open(anybody, BASE_PATH), "nodes above are those of other tables, too"


@pytest.mark.parametrize("settings", [None, OTHERS])
def test_who_has_not_the_credentials_is_refused_with_a_reason(
    server: EmbeddedZooKeeper, new_lock: NewLock, settings: ZooKeeperSettings | None
) -> None:
    with ours_alone(new_lock(server, settings=DIGEST)).acquire(10, "ingest"):
        pass
    with (
        pytest.raises(InvalidRequest, match="does not let these credentials take the lock"),
        new_lock(server, settings=settings).acquire(10, "ingest"),
    ):
        pytest.fail("it was taken")


@pytest.mark.parametrize("has_foreign_writers", [None, True])
def test_no_access_list_where_writers_of_apache_hudi_may_be(
    server: EmbeddedZooKeeper, new_lock: NewLock, anybody: KazooClient, key: str, has_foreign_writers: bool | None
) -> None:
    lock = new_lock(server, settings=DIGEST)
    lock.has_foreign_writers = has_foreign_writers
    with lock.acquire(10, "ingest"):
        assert is_open(anybody, node_in(anybody, key))
    assert is_open(anybody, f"{BASE_PATH}/{key}")


def test_a_parent_that_is_there_changes_by_command_only(
    server: EmbeddedZooKeeper, new_lock: NewLock, anybody: KazooClient, key: str
) -> None:
    anybody.ensure_path(f"{BASE_PATH}/{key}")
    lock = ours_alone(new_lock(server, settings=DIGEST))
    with lock.acquire(10, "ingest"):
        assert is_open(anybody, f"{BASE_PATH}/{key}")
    lock.protect()
    with lock.acquire(10, "ingest") as held:
        with pytest.raises(NoAuthError):
            anybody.delete(node_in(anybody, key))
        assert held.still_mine()
    with pytest.raises(InvalidRequest, match="without credentials"):
        new_lock(server).protect()
    with pytest.raises(InvalidRequest, match="does not let these credentials"):
        new_lock(server, settings=OTHERS).protect()


def test_a_table_tells_its_lock_who_writes_it(
    server: EmbeddedZooKeeper, new_lock: NewLock, anybody: KazooClient, key: str, tmp_path: Path
) -> None:
    schema = pa.schema([("id", pa.string())])
    lock = new_lock(server, settings=DIGEST)
    table = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=schema, locks=lock)
    table.ingest(pa.table({"id": ["a"]}, schema=schema))
    assert not is_open(anybody, f"{BASE_PATH}/{key}")
    assert table.protect_lock() == lock.address


CURATOR = [("hudi:pass-word", SHARED, False), (None, DIGEST, True)]
"""Credentials of Curator, our settings, and whether the nodes are open: declared to share them, and not."""


@pytest.mark.parametrize(("credentials", "settings", "stays_open"), CURATOR)
def test_curator_and_we_exclude_each_other(
    server: EmbeddedZooKeeper,
    new_lock: NewLock,
    talker_to: Callable,
    anybody: KazooClient,
    key: str,
    credentials: str | None,
    settings: ZooKeeperSettings,
    stays_open: bool,
) -> None:
    lock = new_lock(server, settings=settings)
    lock.has_foreign_writers = True
    with lock.acquire(10, "ingest"):
        assert is_open(anybody, f"{BASE_PATH}/{key}") == stays_open
    jars = Path(importlib.util.find_spec("pyspark").origin).parent / "jars"
    program = str(Path(__file__).with_name("CuratorHolder.java"))
    arguments = [server.hosts, f"{BASE_PATH}/{key}", *([credentials] if credentials else [])]
    curator = talker_to([shutil.which("java"), "-cp", f"{jars}/*", program, *arguments])
    for _ in range(HAND_OVERS):
        assert curator.ask("acquire 20000") == "acquired"
        with pytest.raises(Busy, match="held by"), lock.acquire(0.2, "ingest"):
            pytest.fail("we hold what Curator holds")
        assert curator.ask("release") == "released"
        with lock.acquire(20, "ingest") as held:
            assert curator.ask("acquire 200") == "refused"
            assert held.still_mine()


def test_tls_with_and_without_certificates_of_clients(tmp_path: Path, key: str) -> None:
    make_certificates(tmp_path)
    plain = {"tls": True, "tls_ca": str(tmp_path / "ca.pem")}
    own = {
        "tls_certificate": str(tmp_path / "client.pem"),
        "tls_key": str(tmp_path / "client.key"),
        "tls_key_password": "key-secret",
    }
    digest = {"auth": "digest", "user": "hudi", "password": "pass-word"}

    def take(hosts: str, settings: dict[str, object]) -> None:
        lock = ZooKeeperLock(
            hosts,
            BASE_PATH,
            key,
            owner="ours",
            session_timeout_s=5.0,
            connect_timeout_s=8.0,
            settings=ZooKeeperSettings.model_validate(settings),
        )
        try:
            with ours_alone(lock).acquire(20, "ingest") as held:
                assert held.still_mine()
        finally:
            lock.close()

    with tls_server(tmp_path) as hosts:
        take(hosts, {**plain, **digest})
        with pytest.raises(Unavailable, match="no server answered"):
            take(hosts, {})
        with pytest.raises(Unavailable, match="no server answered"):
            take(hosts, {"tls": True})  # signed by nobody whom this machine knows
    with tls_server(tmp_path, "need") as hosts:
        take(hosts, {**plain, **own, **digest})
        with pytest.raises(Unavailable, match="credentials and certificates"):
            take(hosts, {**plain, **digest})


def test_sasl_needs_its_package(server: EmbeddedZooKeeper, new_lock: NewLock) -> None:
    assert importlib.util.find_spec("puresasl") is None, "it is installed: test SASL on a server, too"
    settings = ZooKeeperSettings.model_validate({"auth": "sasl", "user": "hudi", "password": "pass-word"})
    with pytest.raises(Unsupported, match="pure-sasl"):
        new_lock(server, settings=settings)
