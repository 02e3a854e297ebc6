"""Goal: what is an object store's own: proof of exclusive creation, lost replies, refusals, forks, addresses, markers."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import obstore
import pytest

from hudi_ops.errors import (
    AlreadyExists,
    HudiOpsError,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    Unavailable,
    Unsupported,
)
from hudi_ops.storage import bucket
from hudi_ops.storage.claim import Claimed, claim
from hudi_ops.storage.object_store import SMALL_FILE_SIZE_BYTES, ObjectStorage
from hudi_ops.storage.open import open_storage
from tests.storage.conftest import Store
from tests.storage.tampering import Rules, keys

Make = Callable[[], ObjectStorage]


@pytest.mark.parametrize("put", ["put", "put_if_absent"])
def test_a_store_that_creates_twice_is_refused_before_any_byte(
    behind_door: Callable[[Rules], ObjectStorage], put: str
) -> None:
    storage = behind_door(Rules(drop_condition=True))
    for _ in range(2):
        with pytest.raises(Unsupported, match="exclusively") as caught:
            getattr(storage, put)("a", b"1")
        assert storage.uri in caught.value.what
    assert keys(storage) == []


def test_proof_is_asked_for_once_for_each_bucket(behind_door: Callable[[Rules], ObjectStorage]) -> None:
    rules = Rules()
    storage = behind_door(rules)
    assert list(storage.list()) == []
    assert len(rules.seen) == 1  # readers ask for none
    storage.put("a", b"1")
    storage.put_if_absent("b", b"1")
    ObjectStorage(storage.uri + "/below").put_if_absent("c", b"1")
    assert [asked for method, path, asked in rules.seen if method == "PUT" and "probe" in path] == [True, True]
    assert [asked for method, path, asked in rules.seen if method == "PUT" and "probe" not in path] == [
        False,
        True,
        True,
    ]


def test_what_a_killed_probe_leaves_is_not_listed(make_s3: Make, s3_endpoint: str) -> None:
    storage = make_s3()
    client = boto3.client("s3", endpoint_url=s3_endpoint)
    client.put_object(Bucket=storage.uri.split("/")[2], Key="tables/trips/.hoodie/.hudi_ops_tmp/probe-1", Body=b"1")
    assert list(storage.list()) == list(storage.list(".hoodie")) == []
    assert storage.list_folder(".hoodie").folders == ()


@contextmanager
def replies_lost(rules: Rules, count: int) -> Iterator[None]:
    left = iter(range(count))
    rules.lose_reply = lambda method, path: method == "PUT" and next(left, None) is not None
    yield
    rules.lose_reply = lambda method, path: False


@pytest.mark.full("waits for seconds")
def test_a_put_whose_replies_are_lost_is_unknown_and_claim_settles_it(
    behind_door: Callable[[Rules], ObjectStorage],
) -> None:
    rules = Rules()
    storage = behind_door(rules)
    storage.put("first", b"1")
    for put in (storage.put, storage.put_if_absent):
        with replies_lost(rules, 99), pytest.raises(OutcomeUnknown):
            put("lost", b"A:1")
        assert storage.get("lost") == b"A:1"
        storage.delete("lost")
    with replies_lost(rules, 1), pytest.raises(AlreadyExists):  # the client library sends again, and meets itself
        storage.put_if_absent("itself", b"A:1")
    for lost in (1, 99):
        with replies_lost(rules, lost):
            won = claim(storage, f"claimed/{lost}", b"A:1", "A", lambda body: body.decode()[0])
        assert won == Claimed(True, b"A:1")


def test_refused_credentials_are_named(behind_door: Callable[[Rules], ObjectStorage]) -> None:
    rules = Rules()
    storage = behind_door(rules)
    storage.put("a", b"1")
    served = len(rules.seen)
    rules.refuse = lambda method, path: 403
    calls: list[Callable[[str], object]] = [
        *(storage.get, storage.head, storage.list, storage.list_folder, storage.open_input, storage.delete),
        *(lambda path: storage.put(path, b"2"), lambda path: storage.put_if_absent(path, b"2")),
    ]
    for number, call in enumerate(calls, 1):
        with pytest.raises(Unavailable, match="check the keys in the environment") as caught:
            call("a")
        assert storage.uri in caught.value.what
        assert len(rules.seen) - served == number, "who is refused does not ask again"


def test_a_bucket_that_is_not_there_is_named(store: Store) -> None:
    scheme, _, rest = store.make().uri.partition("://")
    storage = ObjectStorage(f"{scheme}://no-such-{rest}")
    reads = [lambda: storage.get("a"), storage.list, storage.list_folder]
    for call in (*reads, lambda: storage.put("a", b"1"), lambda: storage.put_if_absent("a", b"1")):
        with pytest.raises(Unavailable, match="check the name of the bucket") as caught:
            call()
        assert storage.uri in caught.value.what


def test_without_any_keys_the_variables_to_set_are_named() -> None:
    # The client library then asks the machine for its role, which no test should: only the message is tried.
    error = obstore.exceptions.GenericError("Error performing PUT http://169.254.169.254/latest/api/token")
    with pytest.raises(Unavailable, match="set the keys of the store in the environment"):
        bucket.fail_request(error, "a", "s3://bucket/trips", "read")


def test_a_slash_after_the_endpoint_does_no_harm(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = store.make()
    monkeypatch.setenv(store.variable, f"{store.endpoint}/")
    storage.put_if_absent("a", b"1")
    assert [info.path for info in storage.list()] == ["a"]
    assert storage.get("a") == b"1"


def test_a_server_in_trouble_is_unavailable_to_readers(behind_door: Callable[[Rules], ObjectStorage]) -> None:
    storage = behind_door(Rules(refuse=lambda method, path: 503))
    with pytest.raises(Unavailable, match="503"):
        storage.get("a")


def test_a_large_file_is_read_by_ranges_and_never_mixed(behind_door: Callable[[Rules], ObjectStorage]) -> None:
    rules = Rules()
    storage = behind_door(rules)
    body = bytes(range(256)) * (SMALL_FILE_SIZE_BYTES // 128)
    storage.put("a", body)
    rules.seen.clear()
    with storage.open_input("a") as source:
        assert (source.size(), source.read_at(5, 300), source.tell()) == (len(body), body[300:305], 305)
        assert [method for method, _, _ in rules.seen] == ["HEAD", "GET"]
        source.seek(-3, 2)
        assert source.read(10) == body[-3:]
        assert source.read(1) == b""
        storage.put("a", body[::-1])
        with pytest.raises(OSError, match="could not be read from 0"):
            source.read_at(5, 0)
    with storage.open_input("a") as source:
        assert source.read() == body[::-1]


def test_marks_of_folders_are_no_files(make_s3: Make, s3_endpoint: str) -> None:
    storage = make_s3()
    client = boto3.client("s3", endpoint_url=s3_endpoint)
    for name in ("", "full/", "full/deep/", "v=1.5/", "lone/", "full/lone/"):
        client.put_object(Bucket=storage.uri.split("/")[2], Key=f"tables/trips/{name}", Body=b"")
    for name in ("full/deep/f", "v=1.5/x=1/f", "20260101.commit.requested"):
        storage.put(name, b"")
    assert [info.path for info in storage.list()] == ["20260101.commit.requested", "full/deep/f", "v=1.5/x=1/f"]
    assert [info.path for info in storage.list("full")] == ["full/deep/f"]
    assert [info.path for info in storage.list_folder().files] == ["20260101.commit.requested"]
    assert storage.list_folder("full").files == ()
    with pytest.raises(NotFound):
        storage.get("lone")


def test_a_neighbour_with_the_same_beginning_is_not_seen(make_s3: Make) -> None:
    storage = make_s3()
    ObjectStorage(f"{storage.uri}-old").put("a", b"1")
    assert list(storage.list()) == []
    whole = ObjectStorage(storage.uri.removesuffix("/tables/trips"))
    assert [info.path for info in whole.list()] == ["tables/trips-old/a"]


def test_it_pickles_as_its_uri(make_s3: Make) -> None:
    storage = make_s3()
    storage.put("a", b"1")
    twin = pickle.loads(pickle.dumps(storage))
    assert (twin.uri, twin.get("a")) == (storage.uri, b"1")


FORKS = """
import multiprocessing, os, sys
from hudi_ops.errors import InvalidRequest
from hudi_ops.storage.open import open_storage

def child(storage):
    for each in (storage, open_storage(storage.uri)):
        try:
            print(each.get("a").decode(), flush=True)
        except InvalidRequest as error:
            print("refused:", error.next_step, flush=True)

if __name__ == "__main__":
    storage = open_storage(sys.argv[1])
    for used, method in ((False, "fork"), (True, "spawn"), (True, "fork")):
        if used:
            assert storage.get("a") == b"1"
        process = multiprocessing.get_context(method).Process(target=child, args=(storage,))
        process.start()
        process.join(60)
        assert process.exitcode == 0, process.exitcode
    assert storage.get("a") == b"1"
"""


def test_forks_work_before_the_first_use_and_are_refused_after(make_s3: Make, tmp_path: Path) -> None:
    storage = make_s3()
    storage.put("a", b"1")
    script = tmp_path / "forks.py"
    script.write_text(FORKS)
    done = subprocess.run([sys.executable, str(script), storage.uri], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:4] == ["1"] * 4, "forked before the first use, and spawned"
    assert len(lines) == 6
    assert all(line.startswith("refused: start workers by 'spawn'") for line in lines[4:])


def test_a_local_storage_loads_nothing_of_the_clouds() -> None:
    script = "import sys; from hudi_ops.storage.open import open_storage; open_storage('/t'); print('obstore' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("s3a://bucket/a", "s3://bucket/a"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/a%20b c#d?e", "s3://bucket/a%20b c#d?e"),
        ("gs://bucket/a", "gs://bucket/a"),
        ("az://container/a", "az://container/a"),
        ("abfs://c@acct.dfs.core.windows.net/a", "abfss://c@acct.dfs.core.windows.net/a"),
    ],
)
def test_a_uri_leads_to_one_address(given: str, expected: str) -> None:
    assert open_storage(given).uri == open_storage(expected).uri == expected


@pytest.mark.parametrize("uri", ["s3://", "s3:///a", "s3://b/a//b", "s3://b/../a", "s3://user@b/a", "gs://b/a\n"])
def test_uris_without_a_place_are_refused(uri: str) -> None:
    with pytest.raises(InvalidRequest):
        open_storage(uri)


@pytest.mark.parametrize("uri", ["az://container/a", "abfss://c@acct.dfs.core.windows.net/a", "gs://bucket/a"])
def test_missing_settings_are_named(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "not base64!")
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", "/nowhere/key.json")
    with pytest.raises(HudiOpsError, match="environment variables") as caught:
        open_storage(uri).get("a")
    assert isinstance(caught.value, InvalidRequest)
