"""Goal: a store that is not fit, full, closed or half out of reach gives one clear error in bounded time, and changes no table."""

import base64
import errno
import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.errors import HudiOpsError, OutcomeUnknown, PermissionDenied, Unavailable, Unsupported
from hudi_ops.storage import disk, object_store
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.object_store import SMALL_FILE_SIZE_BYTES, ObjectStorage
from hudi_ops.storage.protocol import Bytes
from hudi_ops.verify import verify_table
from tests.storage.conftest import Store
from tests.storage.tampering import Rules, keys, retry_at_once

SCHEMA = pa.schema([("id", pa.int64()), ("noise", pa.string())])
STEP = 1 if os.environ.get("HUDI_OPS_SOAK") else 3
"""Between two writes at which the disk is full: a plain run tries every third."""
PATIENT = ConflictSettings(wait_s=1_000)
"""A write that waited for the attempt that found the disk full, whose lease names this live process, would not end in time."""
PATIENCE_S = 60
"""What a caller waits at most for the news that a store will not serve; a test that is slower than that has found a bug."""


def rows(start: int, stop: int) -> pa.Table:
    return pa.table(
        {"id": range(start, stop), "noise": [os.urandom(16).hex() for _ in range(start, stop)]}, schema=SCHEMA
    )


def create(uri: str) -> Table:
    return Table.create(uri, name="bad", record_key=["id"], schema=SCHEMA)


def ids(uri: str) -> list[int]:
    return sorted(Table.open(uri).read(["id"])["id"].to_pylist())


@contextmanager
def soon() -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < PATIENCE_S


def test_no_table_is_made_where_a_file_can_be_created_twice(behind_door: Callable[[Rules], ObjectStorage]) -> None:
    storage = behind_door(Rules(drop_condition=True))
    with soon(), pytest.raises(Unsupported, match="exclusively") as caught:
        create(storage.uri)
    assert storage.uri in caught.value.what
    assert "keep the table on another store" in caught.value.next_step
    assert keys(storage) == []


def test_no_write_to_a_table_whose_store_forgot_how_to_create_once(
    behind_door: Callable[[Rules], ObjectStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = Rules()
    storage = behind_door(rules)
    create(storage.uri).ingest(rows(0, 10))
    before = keys(storage)
    rules.drop_condition = True
    monkeypatch.setattr(object_store._Process, "proven", set())  # as in a process that begins now
    with soon(), pytest.raises(Unsupported, match="exclusively"):
        Table.open(storage.uri).ingest(rows(10, 20))
    assert ids(storage.uri) == list(range(10))
    assert keys(storage) == before


def test_refused_credentials_change_nothing(behind_door: Callable[[Rules], ObjectStorage]) -> None:
    rules = Rules()
    storage = behind_door(rules)
    table = create(storage.uri)
    table.ingest(rows(0, 10))
    before, served = keys(storage), len(rules.seen)
    rules.refuse = lambda method, path: 403
    for call in (lambda: table.ingest(rows(0, 5)), table.read, lambda: Table.open(storage.uri)):
        with soon(), pytest.raises(PermissionDenied, match="check the keys in the environment") as caught:
            call()
        assert storage.uri in caught.value.what
    assert len(rules.seen) - served < 10, "who is refused does not ask again"
    rules.refuse = lambda method, path: 403 if method in {"PUT", "POST", "DELETE"} else 0
    with soon(), pytest.raises(PermissionDenied, match="the right to write objects"):
        table.ingest(rows(0, 5))
    rules.refuse = lambda method, path: 0
    assert keys(storage) == before
    assert table.ingest(rows(10, 20)).instant
    assert ids(storage.uri) == list(range(20))


def test_a_wrong_key_of_azure_is_named(
    make_azure: Callable[[], ObjectStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = make_azure()
    create(storage.uri)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"another account's").decode())
    with soon(), pytest.raises(Unavailable, match="check the keys in the environment") as caught:
        Table.open(storage.uri)
    assert storage.uri in caught.value.what


def test_a_bucket_that_is_not_there_holds_no_table(store: Store) -> None:
    scheme, _, rest = store.make().uri.partition("://")
    uri = f"{scheme}://no-such-{rest}"
    for call in (Table.open, create):
        with soon(), pytest.raises(Unavailable, match="check the name of the bucket") as caught:
            call(uri)
        assert uri in caught.value.what


@pytest.fixture
def large(behind_door: Callable[[Rules], ObjectStorage], monkeypatch: pytest.MonkeyPatch) -> tuple[Rules, Table]:
    """A table whose one file is read by ranges, and the rules of the door before it."""
    retry_at_once(monkeypatch, 2)
    rules = Rules()
    table = create(behind_door(rules).uri)
    table.ingest(rows(0, 100_000))
    (file,) = [info for info in table.context.storage.list() if info.name.endswith(".parquet")]
    assert file.size_bytes > SMALL_FILE_SIZE_BYTES
    return rules, table


@pytest.mark.full("waits for seconds")
def test_a_network_that_drops_in_the_middle_of_a_read_is_asked_again(large: tuple[Rules, Table]) -> None:
    rules, table = large
    expected = table.read()
    for number in itertools.count(1):
        count = itertools.count(1)
        rules.cut_reply = lambda method, path: method == "GET" and next(count) == number  # noqa: B023
        assert table.read().equals(expected)
        if next(count) <= number:
            break
    print(f"replies cut one by one: {number - 1}")
    assert number > 4


def test_a_network_that_always_drops_is_unavailable_and_no_corrupt_file(large: tuple[Rules, Table]) -> None:
    rules, table = large
    rules.cut_reply = lambda method, path: method == "GET" and ".parquet" in path
    with soon(), pytest.raises(Unavailable, match=r"\.parquet could not be read"):
        table.read()
    with soon(), pytest.raises(Unavailable, match=r"\.parquet"):
        table.ingest(rows(0, 5))
    rules.cut_reply = lambda method, path: False
    assert table.read().num_rows == 100_000
    table.recover()  # the attempt that could not read is undone at once
    assert verify_table(table.context.storage, deep=True).findings == ()


def test_readers_of_a_bucket_need_no_right_to_write(behind_door: Callable[[Rules], ObjectStorage]) -> None:
    rules = Rules()
    storage = behind_door(rules)
    first = create(storage.uri).ingest(rows(0, 10)).instant
    Table.open(storage.uri).ingest(rows(5, 15))
    rules.refuse = lambda method, path: 0 if method in {"GET", "HEAD"} else 403
    rules.seen.clear()
    table = Table.open(storage.uri)
    assert table.schema.names == SCHEMA.names
    assert table.read(where="id < 3").num_rows == 3
    assert table.read(as_of=first).num_rows == 10
    assert verify_table(table.context.storage, deep=True).findings == ()
    assert {method for method, _, _ in rules.seen} <= {"GET", "HEAD"}


def test_readers_of_a_disk_change_nothing_on_it(tmp_path: Path) -> None:
    root = tmp_path / "table"
    first = create(str(root)).ingest(rows(0, 10)).instant
    Table.open(str(root)).ingest(rows(5, 15))
    places = [root, *sorted(root.rglob("*"))]
    for place in places:
        place.chmod(place.stat().st_mode & ~0o222)  # enough for everybody but root; for root the times below tell

    def state() -> list[tuple[int, ...]]:
        return [(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns) for found in map(os.stat, places)]

    before = state()
    table = Table.open(str(root))
    assert table.read(as_of=first).num_rows == 10
    assert table.read().num_rows == 15
    assert verify_table(table.context.storage, deep=True).findings == ()
    assert state() == before
    for place in places:
        place.chmod(place.stat().st_mode | 0o200)


class FullDisk:
    """A disk that runs full at the n-th file that is written, and stays full: half a body, then the kernel's own refusal."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        self.written = 0
        self._write = disk.write_file
        monkeypatch.setattr(disk, "write_file", self.write_file)

    def write_file(self, file: Path, body: Bytes, *, durably: bool) -> None:
        self.written += 1
        if not self.left or self.written < self.left:
            self._write(file, body, durably=durably)
            return
        file.write_bytes(bytes(memoryview(body))[: memoryview(body).nbytes // 2])
        with open("/dev/full", "wb", buffering=0) as full:
            full.write(b"1")

    def fill_at(self, number: int) -> None:
        self.left, self.written = number, 0

    def free(self) -> None:
        self.left = 0


def test_a_disk_that_runs_full_at_any_write_leaves_the_table_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = FullDisk(monkeypatch)
    uri = str(tmp_path / "table")
    create(uri).ingest(rows(0, 10))
    expected = list(range(10))
    for number in itertools.count(1, STEP):
        fresh = rows(10 * number, 10 * number + 10)
        full.fill_at(number)
        raised: HudiOpsError | None = None
        try:
            Table.open(uri, conflicts=PATIENT).ingest(fresh)
        except (Unavailable, OutcomeUnknown) as error:
            raised = error
        hit = full.written >= number
        new = sorted({*expected, *fresh["id"].to_pylist()})
        seen = ids(uri)
        assert seen in (expected, new), (number, raised)
        assert raised is not None or seen == new, number
        if raised is not None:
            assert os.strerror(errno.ENOSPC) in raised.what
            assert raised.next_step.startswith("free space on the disk, then try again"), raised
        assert list((tmp_path / "table/.hoodie/.hudi_ops_tmp").iterdir()) == [], "temp files stay behind"
        full.free()
        Table.open(uri, conflicts=PATIENT).ingest(fresh)
        assert ids(uri) == new
        assert verify_table(LocalStorage(uri), deep=True).findings == (), (number, raised)
        expected = new
        if not hit:
            break
    print(f"a disk that is full from the n-th write on: {number - 1} writes")
    assert number > 6
