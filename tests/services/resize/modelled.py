"""A table with hash rings, and a dict of what it has to show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.requests import ResizeRequest
from hudi_ops.index.ring import Ring
from hudi_ops.services.base.execute import plan_and_execute
from hudi_ops.services.base.plan import plan
from hudi_ops.services.base.service import Execution
from hudi_ops.services.resize.service import RESIZE, ResizeResult
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.verify import verify_table
from tests.protocol.crash_table import unaccounted
from tests.protocol.scenarios.ring_rules import RingView, refuse_leftovers, refuse_two_plans
from tests.services.resize.hand_plans import P0, P1, child_logs, rings_of
from tests.services.resize.ringed_tables import CONSISTENT, opened
from tests.tables import NOW_MS, made, rows

KEYS = range(0, 24, 2)
"""Numbers of keys in the first partition."""


def numbered(numbers: Iterable[int], value: int = 0) -> dict[str, int]:
    """Keys k0, k1 … with values that tell them apart; even ones are of the first partition."""
    return {f"k{number}": value + number for number in numbers}


class Modelled:
    """The table and its model; each process is opened anew."""

    def __init__(self, definition: Any = CONSISTENT, values: Mapping[str, int] | None = None) -> None:
        self.clock = ManualClock(NOW_MS, tick_ms=1)
        self.turn = 1
        self.rows: dict[str, int] = dict(numbered(KEYS) if values is None else values)
        self.storage: MemoryStorage = made(definition, *([self.batch(self.rows)] if self.rows else []))

    def batch(self, values: Mapping[str, int], *, gone: bool = False) -> pa.Table:
        """Rows that are newer than all before."""
        self.turn += 1
        return rows(*((key, f"p{int(key[1:]) % 2}", value, self.turn, gone or None) for key, value in values.items()))

    def open(self, actor: str = "reader", storage: Any = None) -> Table:
        """The table in a process, perhaps over another view of the storage."""
        return opened(storage or self.storage, actor, self.clock)

    def write(self, values: Mapping[str, int], storage: Any = None, actor: str = "writer") -> None:
        """Upsert rows."""
        self.open(actor, storage).ingest(self.batch(values))
        self.rows |= values

    def delete(self, keys: Iterable[str]) -> None:
        """Delete rows, as an upsert of rows that say so."""
        gone = dict.fromkeys(keys, 0)
        self.open("writer").ingest(self.batch(gone, gone=True))
        self.rows = {key: value for key, value in self.rows.items() if key not in gone}

    def overwrite(self, values: Mapping[str, int], storage: Any = None) -> None:
        """Replace the partitions of some rows by these."""
        self.open("other", storage).ingest(self.batch(values), operation="insert_overwrite")
        parts = {int(key[1:]) % 2 for key in values}
        self.rows = {key: value for key, value in self.rows.items() if int(key[1:]) % 2 not in parts} | dict(values)

    def plan_resize(self, **values: Any) -> str | None:
        """Plan what a request says; return the instant, None if there is nothing to do."""
        return plan(self.open("planner")._session, RESIZE, ResizeRequest(**values)).instant

    def resize(self, **values: Any) -> ResizeResult:
        """Plan and execute what a request says."""
        session = self.open("resizer")._session
        result = plan_and_execute(session, RESIZE, ResizeRequest(**values), Execution("local"))
        assert isinstance(result, ResizeResult)
        return result

    def ring(self, partition: str = P0) -> Ring:
        """The ring of a partition that counts now."""
        return rings_of(self.open(), [partition])[partition]

    def rings(self) -> dict[str, Ring]:
        """The rings of both partitions."""
        return rings_of(self.open(), [P0, P1])

    def logs(self, instant: str | None) -> list[str]:
        """The log files in children of a resize."""
        return child_logs(self.storage, instant or "none")

    def check(self) -> None:
        """Readers see the rows, each once, where the rings lead."""
        view = RingView.of(self.storage)
        view.check_coverage()
        view.check_completions(whole=False)
        assert view.check_groups() == self.rows
        view.check_versions()
        refuse_two_plans(self.storage)

    def settle(self) -> None:
        """Let others recover the table: nothing is left, and a write finds every key."""
        for _ in range(2):
            self.clock.advance_ms(EXPIRY_MS + 1_000)
            self.open("last").recover()
        self.check()
        assert unaccounted(self.storage) == []
        refuse_leftovers(self.storage)
        self.write({key: value + 9_000 for key, value in self.rows.items()}, actor="later")
        self.check()
        assert verify_table(self.storage, deep=True, index=True, clock=self.clock).findings == ()
