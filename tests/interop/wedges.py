"""Tables that Apache Hudi leaves wedged: its own calls that fail, and its process killed at a point."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_ops import Table
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import HudiPeer, HudiPeerError
from tests.interop.compare import assert_same_rows
from tests.tables import VERSIONED, versioned

DEADLINE_S = 120.0
TRIES_MAX = 6
"""Number of copies of a table on which a race is tried."""
QUIET = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
FAILS = {
    "hoodie.precommit.validators": "org.apache.hudi.client.validator.SqlQuerySingleResultPreCommitValidator",
    "hoodie.precommit.validators.single.value.sql.queries": "select count(*) from <TABLE_NAME>#-1",
}
"""Options of a commit that fails behind its last data file."""


class Wedged:
    """A table that both sides write, with a dict of its rows."""

    def __init__(self, path: Path, peer: HudiPeer, kind: Any = "cow", *, metadata: bool = False) -> None:
        self.path, self.peer, self.metadata = path, peer, metadata
        self.rows: dict[str, dict[str, Any]] = {}
        self.version = 0
        Table.create(
            str(path),
            name="wedged",
            record_key=["id"],
            schema=VERSIONED,
            partition_by=["part"],
            ordering="ts",
            table_type=kind,
            buckets=1,
            metadata=metadata,
        ).close()
        self.ours()
        self.theirs()

    @property
    def table(self) -> Table:
        return Table.open(str(self.path))

    @property
    def options(self) -> dict[str, str]:
        return {**QUIET, "hoodie.metadata.enable": str(self.metadata).lower()}

    def batch(self, first: int = 0, last: int = 6, *, counts: bool = True) -> pa.Table:
        """Rows of the next version; they are in the dict unless the write is to fail."""
        self.version += 1
        made = versioned(first, last, self.version)
        if counts:
            self.rows |= {row["id"]: row for row in made.to_pylist()}
        return made

    def ours(self) -> str:
        """A write of ours; its instant."""
        instant = self.table.ingest(self.batch()).instant
        assert instant is not None
        return instant

    def theirs(self, **options: str) -> None:
        """A write of Apache Hudi."""
        self.peer.write(self.path, self.batch(2, 8), buckets=1, options={**self.options, **options})

    def fails(self, **options: str) -> str:
        """A write of Apache Hudi that fails before it completes; its instant."""
        with suppress(HudiPeerError):
            given = {**self.options, **FAILS, **options}
            self.peer.write(self.path, self.batch(1, 9, counts=False), buckets=1, options=given)
            raise AssertionError("the write completed")
        return self.pending("commit", "deltacommit")

    def pending(self, *actions: str) -> str:
        """The one pending instant of some actions."""
        (found,) = [one.time for one in self.table._session.loader.load().timeline.pending if one.action in actions]
        return found

    def findings(self) -> set[str]:
        """Names of errors and warnings."""
        found = verify_table(self.table.context.storage, deep=True, index=True).findings
        return {one.invariant for one in found if one.severity in {"error", "warning"}}

    def check(self) -> None:
        """Both read the rows of the dict, with the same meta columns."""
        ours = self.table.read(meta_columns=True)
        assert_same_rows(ours, pa.Table.from_pylist(list(self.rows.values()), schema=VERSIONED))
        assert_same_rows(self.peer.read(self.path, options=self.options), ours, with_meta=True)


def moved_when(start: Callable[[], object], reached: Callable[[], bool], move: Callable[[], object]) -> bool:
    """Start a call of Apache Hudi, make a move at a point, and wait for its end; return whether the point was reached."""

    def call() -> None:
        with suppress(HudiPeerError, BrokenPipeError):
            start()

    worker = threading.Thread(target=call, daemon=True)
    worker.start()
    deadline = time.monotonic() + DEADLINE_S
    while worker.is_alive() and not reached():
        assert time.monotonic() < deadline, "the point was not reached"
    was_reached = worker.is_alive()
    if was_reached:
        move()
    worker.join(DEADLINE_S)
    assert not worker.is_alive()
    return was_reached


def killed_when(start: Callable[[HudiPeer], object], reached: Callable[[], bool]) -> bool:
    """Start a call of a process of Apache Hudi, and kill the process at a point; return whether it died there."""
    with HudiPeer() as peer:
        peer.call("ping")
        return moved_when(lambda: start(peer), reached, peer.kill)


def pause_when(start: Callable[[HudiPeer], object], reached: Callable[[], bool], between: Callable[[], object]) -> None:
    """Start a call of a process of Apache Hudi, pause it at a point, make a move, and let it go on to its end."""
    with HudiPeer() as peer:
        peer.call("ping")
        worker = threading.Thread(target=start, args=(peer,), daemon=True)
        worker.start()
        deadline = time.monotonic() + DEADLINE_S
        while not reached():
            assert worker.is_alive(), "it ended before the point"
            assert time.monotonic() < deadline, "the point was not reached"
        peer.pause()
        try:
            between()
        finally:
            peer.resume()
        worker.join(DEADLINE_S)
        assert not worker.is_alive()


def copies(path: Path) -> Iterator[None]:
    """Yield before each try of a race, with the table as it was."""
    kept = path.with_name(f"{path.name}-kept")
    shutil.copytree(path, kept)
    for _ in range(TRIES_MAX):
        yield
        shutil.rmtree(path)
        shutil.copytree(kept, path)
    raise AssertionError(f"the point was not reached in {TRIES_MAX} tries")
