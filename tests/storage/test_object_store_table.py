"""Goal: a table in a bucket is a table, also when the network loses replies to writes and deletions, or its writer dies.

Method: one table for each operation lives through a sweep. At the n-th request that changes the bucket, for every n that the
operation makes, the request takes effect and something goes wrong; then rows are compared with a dict, the same call is made
again as its caller would, and `verify` looks at every byte. A new operation joins by a line in `OPERATIONS`. The soak also
verifies after every step, and crashes every operation; over memory each is crashed in `tests/protocol`.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops import Table
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import HudiOpsError
from hudi_ops.storage.object_store import ObjectStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from hudi_ops.verify import verify_table
from tests.definitions import Definition, create_table
from tests.storage.tampering import Rules, door, retry_at_once
from tests.tables import table_of

SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("fare", pa.float64())])
RETRIES = 6
SOAK = bool(os.environ.get("HUDI_OPS_SOAK"))
Fares = dict[str, float]


def rides(start: int, stop: int, fare: float) -> pa.Table:
    ids = range(start, stop)
    cities = ["Oslo" if number % 2 else "Rome" for number in ids]
    return pa.table({"id": [str(number) for number in ids], "city": cities, "fare": [fare] * len(ids)}, schema=SCHEMA)


def fares(table: Table) -> Fares:
    found = table.read(["id", "fare"])
    ids = found["id"].to_pylist()
    assert len(set(ids)) == len(ids), "a row came twice"
    return dict(zip(ids, found["fare"].to_pylist(), strict=True))


def in_rome(start: int, fare: float) -> pa.Table:
    return rides(start, start + 4, fare).take([0, 2])


def oslo(old: Fares) -> Fares:
    return {key: fare for key, fare in old.items() if int(key) % 2}


def as_fares(rows: pa.Table) -> Fares:
    return dict(zip(rows["id"].to_pylist(), rows["fare"].to_pylist(), strict=True))


@dataclass(frozen=True)
class Operation:
    """One kind of write: the rows of the n-th call, what the table holds after it, and how it is called."""

    rows: Callable[[int], pa.Table]
    after: Callable[[Fares, Fares], Fares]
    repeats: bool = True
    """Whether the same call may be made again without a look at whether it landed."""
    empties: bool = False
    """Whether nothing is left for the next call, unless rows are brought back before it."""
    call: Callable[[Table, pa.Table, str], object] = lambda table, rows, name: table.ingest(rows, operation=name)


OPERATIONS = {
    "upsert": Operation(lambda number: in_rome(10, float(number)), lambda old, new: old | new),
    "insert": Operation(lambda number: in_rome(1000 + 4 * number, 0.5), lambda old, new: old | new, repeats=False),
    "bulk_insert": Operation(lambda number: in_rome(1000 + 4 * number, 0.5), lambda old, new: old | new, repeats=False),
    "delete": Operation(
        lambda number: in_rome(4 * number, 0.0),
        lambda old, new: {key: fare for key, fare in old.items() if key not in new},
    ),
    "insert_overwrite": Operation(lambda number: in_rome(4 * number, 0.5), lambda old, new: oslo(old) | new),
    "insert_overwrite_table": Operation(lambda number: in_rome(4 * number, 0.5), lambda old, new: new),
    "delete_partition": Operation(
        lambda number: in_rome(0, 0.0),
        lambda old, new: oslo(old),
        repeats=False,
        empties=True,
        call=lambda table, rows, name: table.delete_partition(["city=Rome"]),
    ),
    "truncate": Operation(
        lambda number: in_rome(0, 0.0),
        lambda old, new: {},
        empties=True,
        call=lambda table, rows, name: table.truncate(),
    ),
}
"""By the names that `Table` knows."""


class Sweep:
    """A table in a bucket, its clock, and what its rows must be."""

    def __init__(self, storage: ObjectStorage, operation: str) -> None:
        self.storage, self.name, self.operation = storage, operation, OPERATIONS[operation]
        self.clock = ManualClock(time.time_ns() // 1_000_000, tick_ms=1)
        self.expected: Fares = {}
        definition = Definition("rides", SCHEMA, ("id",), ("city",), None, buckets=1)
        create_table(self.writer(storage, "creator")._session, definition)
        self.writer(storage, "creator").ingest(rides(0, 200, -1.0))
        self.expected = fares(self.writer(storage, "reader"))

    def writer(self, storage: object, actor: str) -> Table:
        return table_of(storage, self.clock, actor)  # type: ignore[arg-type]

    def step(self, number: int, disturb: Callable[[], Table], story: Callable[[], str]) -> None:
        """One call that is disturbed, and the same one again by another process, once the first one's lease is dead."""
        if self.operation.empties:
            self.put(rides(0, 4, float(number)), f"filler-{number}")
        rows = self.operation.rows(number)
        old, new = self.expected, self.operation.after(self.expected, as_fares(rows))
        error: BaseException | None = None
        try:
            self.operation.call(disturb(), rows, self.name)
        except (HudiOpsError, Crash) as raised:
            error = raised
        seen = fares(self.writer(self.storage, "reader"))
        assert seen in (old, new), f"{story()} -> {error!r}: neither the old rows nor the new ones"
        assert error is not None or seen == new, f"{story()}: success was reported, and it is not there"
        self.clock.advance_ms(EXPIRY_MS + 1_000)
        self.expected = new
        if error is None:
            return
        if not self.operation.repeats:
            # Any write finishes what was decided; then it can be seen whether this was.
            self.expected = old
            self.put(rides(1, 2, float(number)), f"settler-{number}")
            old, new = self.expected, self.operation.after(self.expected, as_fares(rows))
            seen = fares(self.writer(self.storage, "reader"))
            assert seen in (old, new), f"{story()} -> {error!r}"
        if self.operation.repeats or seen == old:
            self.operation.call(self.writer(self.storage, f"second-{number}"), rows, self.name)
        assert fares(self.writer(self.storage, "reader")) == new, f"{story()} -> {error!r}"
        self.expected = new

    def put(self, rows: pa.Table, actor: str) -> None:
        self.writer(self.storage, actor).ingest(rows)
        self.expected = self.expected | as_fares(rows)

    def verify(self, story: str, *, between: bool = False) -> None:
        """Nothing is wrong; between steps there may be what the next write clears, such as a lease whose deletion failed."""
        found = verify_table(self.storage, deep=True, clock=self.clock).findings
        assert [one for one in found if not between or one.severity != "info"] == [], story


class LoseAt:
    """Loses the replies to the n-th request that changes the bucket, and to the ones that repeat it right after."""

    def __init__(self) -> None:
        self.arm(0, 0)

    def arm(self, number: int, times: int) -> None:
        self.left, self.times, self.lost = number, times, list[str]()

    def __call__(self, method: str, path: str) -> bool:
        if method not in {"PUT", "POST"} or not self.left:
            return False
        what = f"{method} {path}"
        if self.left > 1:
            self.left -= 1
        elif len(self.lost) < self.times and (not self.lost or self.lost[0] == what):
            self.lost.append(what)
            return True
        return False


@pytest.fixture
def losing(s3_settings: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoseAt]:
    """A rule, and a door with it before the server of every storage that is opened from now on."""
    rule = LoseAt()
    retry_at_once(monkeypatch, 1)
    with door(s3_settings, Rules(lose_reply=rule)) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        yield rule


@pytest.mark.full("goes wrong at each of many points")
@pytest.mark.parametrize(
    ("operation", "times"),
    [*((name, 2) for name in OPERATIONS), *((name, 1) for name in (OPERATIONS if SOAK else ["upsert"]))],
)
def test_a_lost_reply_at_every_write_loses_and_doubles_nothing(
    make_s3: Callable[[], ObjectStorage], losing: LoseAt, operation: str, times: int
) -> None:
    sweep = Sweep(make_s3(), operation)
    for number in itertools.count(1):

        def disturbed(number: int = number) -> Table:
            losing.arm(number, times)
            return sweep.writer(sweep.storage, f"first-{number}")

        sweep.step(number, disturbed, lambda: str(losing.lost))
        lost, _ = losing.lost, losing.arm(0, 0)
        if not lost:
            break
        if SOAK:
            sweep.verify(str(lost), between=True)
    sweep.verify("at the end")
    print(f"{operation}: {number - 1} writes, the reply to each lost {times} times")
    assert number > 6


@pytest.mark.full("goes wrong at each of many points")
@pytest.mark.parametrize("operation", OPERATIONS if SOAK else ["upsert"])
def test_a_crash_after_every_write_loses_and_doubles_nothing(
    make_s3: Callable[[], ObjectStorage], operation: str
) -> None:
    sweep = Sweep(make_s3(), operation)
    for number in itertools.count(1):
        faulty = FaultyStorage(sweep.storage, FaultPlan.at(number, Fault.CRASH_AFTER), only_mutations=True)
        sweep.step(number, partial(sweep.writer, faulty, f"first-{number}"), lambda: str(faulty.fired))  # noqa: B023
        if not faulty.fired:
            break
        if SOAK:
            sweep.verify(str(faulty.fired), between=True)
    sweep.verify("at the end")
    print(f"{operation}: {number - 1} writes, a crash after each")
    assert number > 6


@pytest.mark.parametrize(
    "loss", [0.2, pytest.param(0.4, marks=pytest.mark.full("repeats what quick proves with a like case"))]
)
def test_rows_are_neither_lost_nor_doubled(
    make_s3: Callable[[], ObjectStorage], s3_settings: str, monkeypatch: pytest.MonkeyPatch, loss: float
) -> None:
    retry_at_once(monkeypatch, RETRIES)
    storage = make_s3()
    landing = ObjectStorage(f"{storage.uri}-landing")
    sink = pa.BufferOutputStream()
    pq.write_table(rides(250, 400, 3.0), sink)
    landing.put("f.parquet", sink.getvalue())
    chance = random.Random(20260101)
    lost: list[str] = []
    in_a_row: Counter[str] = Counter()

    def lose(method: str, path: str) -> bool:
        # Never more of one path in a row than are tried again: what is given up is another test's. Several paths are put at once.
        if method in {"PUT", "POST"} and chance.random() < loss and in_a_row[path] < RETRIES:
            in_a_row[path] += 1
            lost.append(path)
            return True
        in_a_row[path] = 0
        return False

    with door(s3_settings, Rules(lose_reply=lose)) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        table = Table.create(
            storage.uri, name="rides", record_key=["id"], partition_by=["city"], schema=SCHEMA, buckets=2
        )
        table.ingest(rides(0, 300, 1.0))
        table.ingest(rides(100, 200, 2.0))
        assert table.ingest_folder(landing.uri, engine="local").files == 1
        assert table.ingest_folder(landing.uri, engine="local").files == 0
        table.ingest(rides(0, 50, 0.0), operation="delete")
        again = fares(Table.open(storage.uri))
    expected = {str(n): 1.0 for n in range(50, 300)} | {str(n): 2.0 for n in range(100, 200)}
    assert again == expected | {str(n): 3.0 for n in range(250, 400)}
    print(f"lost replies: {len(lost)}")
    assert len(lost) >= 100 * loss
