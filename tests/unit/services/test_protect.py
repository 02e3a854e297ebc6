"""Which tables' locks are protected: not those whose other writers could not take them any more."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.clock import SystemClock
from hudi_ops.concurrency.lock.in_process import InProcessLock
from hudi_ops.context import TableContext
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.services.create.adoption import AdoptionOptions
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from tests.protocol.foreign_table import make_foreign

ROWS = pa.table({"id": ["a"]})


class GuardedLock(InProcessLock):
    """A lock that can be protected, and says whether it was."""

    has_foreign_writers: bool | None = None
    is_protected = False
    shares_credentials = False

    def protect(self) -> None:
        self.is_protected = True


@pytest.fixture
def ours(tmp_path: Path) -> MemoryStorage:
    Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=ROWS.schema).ingest(ROWS)
    storage = MemoryStorage("t", SystemClock())
    for info in LocalStorage(tmp_path / "t").list():
        storage.put(info.path, LocalStorage(tmp_path / "t").get(info.path))
    return storage


def test_a_lock_of_our_own_table_is_protected(ours: MemoryStorage) -> None:
    lock = GuardedLock("t")
    table = Table(TableContext(storage=ours, locks=lock))
    assert table.protect_lock() == lock.address
    assert lock.is_protected
    table.ingest(ROWS)
    assert lock.has_foreign_writers is False


def test_a_lock_that_apache_hudi_takes_is_protected_only_if_it_has_the_credentials(ours: MemoryStorage) -> None:
    lock = GuardedLock("t")
    table = Table(TableContext(storage=make_foreign(ours), locks=lock), AdoptionOptions(buckets=1))
    table.ingest(ROWS)
    assert lock.has_foreign_writers is True
    with pytest.raises(InvalidRequest, match="foreign writers share this table"):
        table.protect_lock()
    assert not lock.is_protected
    lock.shares_credentials = True
    assert table.protect_lock() == lock.address
    assert lock.is_protected


def test_a_lock_without_nodes_cannot_be_protected(ours: MemoryStorage) -> None:
    with pytest.raises(Unsupported, match="no nodes"):
        Table(TableContext(storage=ours, locks=InProcessLock("t"))).protect_lock()
