"""States that crashes leave behind, on disk and in front of both peers: they see the old rows or the new ones, and after
another ingest the new ones.

The sweep in tests/protocol/test_ingest_crashes.py visits every state with our own readers; this is a sample of the same
table's states, at least one of each kind, in the order in which an ingest and the rollback of a dead one pass through them.
"""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import BELIEVED, WITHOUT_METADATA, HudiPeer
from tests.interop.compare import assert_same_rows
from tests.protocol.crash_table import FIRST, NEW, make_base, unaccounted, visible
from tests.tables import START_MS, rows, table_of

HudiRsReader = Callable[..., pa.Table]

# What the second ingest must leave, in full: k1 came late and lost, k2 is deleted.
SECOND_ROWS = rows(
    ("k0", "p0", 100, 2, None), ("k1", "p1", 1, 1, None), *[(f"k{i}", f"p{i % 2}", i, 1, None) for i in range(3, 8)],
    ("n1", "p1", 7, 2, None), ("n2", "p2", 8, 2, None),
)  # fmt: skip

# Name of the state -> the storage operation after which the writer dies: a pattern, and which of its matches.
WRITE_POINTS = {
    "lease": ("put*:.hoodie/.heartbeat/*", 0),
    "requested": ("put*:*.commit.requested", 0),
    "inflight": ("put*:*.inflight", 0),
    "first marker": ("put*:.hoodie/.temp/*", 0),
    "partition metadata": ("put*:*/.hoodie_partition_metadata", 0),
    "first data file": ("put*:*.parquet", 0),
    "last data file": ("put*:part=p*.parquet", -1),
    "ledger": ("put*:.hoodie/.ingest/*", 0),
    "slot claimed": ("put_if_absent:.hoodie/.commit_log/0*", 0),
    "completed": ("put*:*_*.commit", 0),
    "markers deleted": ("delete:.hoodie/.temp/*", -1),
}
# Further ones of a table with a metadata table.
METADATA_POINTS = {
    "bundle": ("put*:*/metadata-*", 0),
    "metadata delta requested": ("put*:.hoodie/metadata/.hoodie/timeline/*.requested", 0),
    "first metadata log": ("put*:.hoodie/metadata/*.log.*", 0),
    "last metadata log": ("put*:.hoodie/metadata/*.log.*", -1),
    "metadata delta completed": ("put*:.hoodie/metadata/.hoodie/timeline/*_*.deltacommit", 0),
    "completed": ("put*:.hoodie/timeline/*_*.commit", 0),
    "bundle dropped": ("delete:*/metadata-*", 0),
}
# The same for a second process, which finds a writer that died before its slot, and dies while it rolls it back.
ROLLBACK_POINTS = {
    "cancel claimed": ("put_if_absent:.hoodie/.commit_log/0*", 0),
    "rollback requested": ("put*:*.rollback.requested", 0),
    "rollback inflight": ("put*:*.rollback.inflight", 0),
    "data file deleted": ("delete:part=p*.parquet", 0),
    "inflight deleted": ("delete:*.inflight", 0),
    "rollback claimed": ("put_if_absent:.hoodie/.commit_log/0*", 1),
    "rollback completed": ("put*:*_*.rollback", 0),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("crash") / "source"


@pytest.fixture(scope="module")
def base(source: Path) -> MemoryStorage:
    return make_base(source)


@pytest.fixture(scope="module")
def other_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("crash") / "other-source"


@pytest.fixture(scope="module")
def with_metadata(other_source: Path) -> MemoryStorage:
    return make_base(other_source, metadata=True)


def point_of(history: list[str], pattern: str, which: int) -> int:
    """Number of the operation, from 1, that a pattern picks."""
    found = [number for number, point in enumerate(history, 1) if fnmatch.fnmatchcase(point, pattern)]
    assert found, f"no operation matches {pattern}:\n" + "\n".join(history)
    return found[which]


def ingest(storage: FaultyStorage | MemoryStorage, source: Path, clock: ManualClock, actor: str) -> None:
    with contextlib.suppress(Crash):
        table_of(storage, clock, actor).ingest_folder(str(source))


def crash_after(state: MemoryStorage, source: Path, clock: ManualClock, actor: str, pattern: str, which: int) -> str:
    """Runs the ingest on `state` and lets it die after the operation that the pattern picks; returns what fired."""
    rehearsal = FaultyStorage(state.copy())
    ingest(rehearsal, source, ManualClock(clock.now_ms()), actor)
    number = point_of(list(rehearsal.history), pattern, which)
    faulty = FaultyStorage(state, FaultPlan.at(number, Fault.CRASH_AFTER))
    ingest(faulty, source, clock, actor)
    (fired,) = faulty.fired
    assert fnmatch.fnmatchcase(fired.split(" ", 2)[2], pattern), fired
    return fired


def check_state(
    state: MemoryStorage, clock: ManualClock, source: Path, folder: Path, peers: list[Callable[[Path], pa.Table]]
) -> None:
    """Old or new rows for everybody alike; then another process's ingest, and the new ones with no file left over."""
    seen = SECOND_ROWS if visible(state.copy(), clock) == NEW else FIRST
    assert verify_table(state.copy(), clock=clock).errors == ()
    left = state.dump(folder / "crashed")
    for peer in peers:
        assert_same_rows(peer(left), seen)
    clock.advance_ms(EXPIRY_MS + 1_000)
    ingest(state, source, clock, "last writer")
    assert unaccounted(state) == []
    assert verify_table(state, deep=True, clock=clock).findings == ()
    mended = state.dump(folder / "mended")
    for peer in peers:
        assert_same_rows(peer(mended), SECOND_ROWS)


@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize("name", WRITE_POINTS)
def test_peers_read_what_a_dead_writer_left(
    name: str,
    base: MemoryStorage,
    source: Path,
    tmp_path: Path,
    apache_hudi: HudiPeer,
    hudi_rs: HudiRsReader,
) -> None:
    clock, state = ManualClock(START_MS + 60_000), base.copy()
    crash_after(state, source, clock, "writer", *WRITE_POINTS[name])
    check_state(state, clock, source, tmp_path, [apache_hudi.read, hudi_rs])


@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize("name", METADATA_POINTS)
def test_peers_believe_the_metadata_table_that_a_dead_writer_left(
    name: str,
    with_metadata: MemoryStorage,
    other_source: Path,
    tmp_path: Path,
    apache_hudi: HudiPeer,
    hudi_rs: HudiRsReader,
) -> None:
    clock, state = ManualClock(START_MS + 60_000), with_metadata.copy()
    crash_after(state, other_source, clock, "writer", *METADATA_POINTS[name])
    peers = [
        lambda at: apache_hudi.read(at, options=BELIEVED),
        lambda at: apache_hudi.read(at, options=WITHOUT_METADATA),
        hudi_rs,
    ]
    check_state(state, clock, other_source, tmp_path, peers)


@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize("name", ROLLBACK_POINTS)
def test_peers_read_what_a_dead_rollback_left(
    name: str,
    base: MemoryStorage,
    source: Path,
    tmp_path: Path,
    apache_hudi: HudiPeer,
    hudi_rs: HudiRsReader,
) -> None:
    clock, state = ManualClock(START_MS + 60_000), base.copy()
    crash_after(state, source, clock, "writer", *WRITE_POINTS["ledger"])
    clock.advance_ms(EXPIRY_MS + 1_000)
    crash_after(state, source, clock, "second writer", *ROLLBACK_POINTS[name])
    check_state(state, clock, source, tmp_path, [apache_hudi.read, hudi_rs])
