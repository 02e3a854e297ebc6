"""A table with a model of its rows, whose processes may die at any storage operation; other processes go on.

The model has the state after each completed write, and what the policy promises to keep readable. What a death decided is
told by a twin of the storage, on which another process recovers the table: the table itself is recovered later, or never.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.upkeep_settings import ArchiveSettings, CleanSettings, UpkeepSettings
from hudi_ops.errors import Busy, Conflict, InvalidRequest, Unavailable
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.plans import CleanResult, read_result
from hudi_ops.timeline.log.entries import Restore
from hudi_ops.timeline.names import instant_of_ms
from tests.definitions import Definition
from tests.protocol.log_actors import timeline_of, whole_log
from tests.protocol.sweep import CRASHES, changes
from tests.tables import START_MS, by_key, made, rows, table_of

MANUAL = UpkeepSettings(CleanSettings(automatic=False), ArchiveSettings(automatic=False))
COMPACT_AFTER = 3
"""Delta commits of the metadata table after which a write compacts it."""
HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Rows:
    """What a table holds: (partition, value) by key, and the source files that it has taken."""

    held: dict[str, tuple[str, int]] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()

    @property
    def shown(self) -> dict[str, int]:
        """Return what a read shows."""
        return {key: value for key, (_, value) in self.held.items()}

    def put(self, batch: dict[str, tuple[str, int]], taken: frozenset[str] = frozenset()) -> Rows:
        """Return it with newer rows: of a key the higher value counts."""
        newer = {key: one for key, one in batch.items() if key not in self.held or self.held[key][1] <= one[1]}
        return Rows({**self.held, **newer}, self.taken | taken)

    def without(self, keys: Callable[[str, str], bool]) -> Rows:
        """Return it without the rows whose key and partition `keys` chooses."""
        return Rows({key: one for key, one in self.held.items() if not keys(key, one[0])}, self.taken)


@dataclass
class World:
    """The table, its model, and what may be asked of it."""

    definition: Definition
    chance: random.Random
    landing: Path
    deaths: float = 0.3
    clock: ManualClock = field(default_factory=lambda: ManualClock(START_MS, tick_ms=1))
    now: Rows = field(default_factory=Rows)
    past: dict[str, Rows] = field(default_factory=dict)
    born: dict[str, Rows] = field(default_factory=dict)
    saved: set[str] = field(default_factory=set)
    floor: str = ""
    count: int = 0
    restoring: str = ""
    shown: list[dict[str, int]] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    died: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.storage: MemoryStorage = made(self.definition, clock=self.clock)
        self._actors = 0
        for one in timeline_of(self.storage):
            self.past[one.time] = self.born[one.time] = self.now

    # Processes

    def table(self, storage: Storage | None = None, clock: ManualClock | None = None, actor: str = "") -> Table:
        """Return the table in a process of its own, without automatic services."""
        self._actors += not actor
        name = actor or f"process-{self._actors}"
        settings = {"metadata_compact_after": COMPACT_AFTER, "upkeep": MANUAL}
        return table_of(storage or self.storage, clock or self.clock, name, **settings)

    def twin(self) -> Table:
        """Return a recovered copy of the table, as of a time at which all dead leases have expired."""
        later = ManualClock(self.clock.now_ms() + EXPIRY_MS + 1_000, tick_ms=1)
        table = self.table(self.storage.copy(later), later, "twin")
        table.recover()
        return table

    def act(self, name: str, move: Callable[[Table], Any], after: Rows | None = None) -> Any:
        """Make a move in a process that may die amid it, then compare readers with the model.

        Returns:
            The move's result; None if it was refused, or if the process died.
        """
        self._actors += 1
        actor = f"process-{self._actors}"
        number, fault = self._death(move, actor) if self.chance.random() < self.deaths else (0, Fault.CRASH_BEFORE)
        plan = FaultPlan.at(number, fault) if number else FaultPlan()
        faulty = FaultyStorage(self.storage, plan)
        before, result, told = self.now, None, "done"
        try:
            result = move(self.table(faulty, self.clock, actor))
        except Crash:
            told = f"died: {faulty.fired[0]}"
            self.died[name] = self.died.get(name, 0) + 1
        except (Busy, Conflict) as error:
            told = f"{type(error).__name__}: {error.what}"
        self.story.append(f"{self.clock.now_ms()} {name}: {told}")
        self._settle(before, after or before, is_done=told == "done")
        if told != "done" and self.chance.random() < 0.6:
            self.clock.advance_ms(EXPIRY_MS + 1_000)
        return result if told == "done" else None

    def _death(self, move: Callable[[Table], Any], actor: str) -> tuple[int, Fault]:
        """Choose where the process dies: at an operation that it comes to, mostly one that changes something."""
        clock = ManualClock(self.clock.now_ms(), tick_ms=1)
        tried = FaultyStorage(self.storage.copy(clock))
        try:
            move(self.table(tried, clock, actor))
        except (Busy, Conflict, InvalidRequest):
            return 0, Fault.CRASH_BEFORE
        able = changes(tried.history) if self.chance.random() < 0.9 else list(range(1, len(tried.history) + 1))
        return (self.chance.choice(able), self.chance.choice(CRASHES)) if able else (0, Fault.CRASH_BEFORE)

    def _settle(self, before: Rows, after: Rows, *, is_done: bool) -> None:
        """Find out what was decided, and hold readers against it."""
        twin = self.twin()
        timeline = timeline_of(twin._session.ctx.storage)
        if self._is_restored(timeline):
            shown = by_key(self.table(actor="reader"))
            assert shown in [before.shown, self.now.shown], "rows amid a restore are those before it, or after it"
            before = after = self.now
            self.shown = [shown]
        if self.restoring:
            assert by_key(twin) == self.now.shown, "a pending restore is read as its savepoint"
            return
        writes = [one for one in timeline if one.is_write or one.action in {"compaction", "clustering"}]
        new = [one for one in writes if one.time not in self.born]
        changed = [one for one in new if one.is_completed and one.action != "compaction" and one.kind != "commit"]
        changed += [one for one in new if one.kind == "commit" and self.definition.table_type == "COPY_ON_WRITE"]
        assert len(changed) <= 1, f"one move completed {len(changed)} writes"
        self.now = after if changed else before
        for one in new:
            self.born[one.time] = self.now
        for one in writes:
            if one.is_completed and one.time not in self.past:
                self.past[one.time] = self.born[one.time]
        self.saved = {one.time for one in timeline if one.kind == "savepoint" and one.is_completed}
        # A write that was decided by a process that died shows once another one decides something.
        is_written = is_done and bool(changed)
        self.shown = [self.now.shown] if is_written else [*self.shown, before.shown, self.now.shown]
        shown = by_key(self.table(actor="reader"))
        assert shown in self.shown, "rows of the table"
        if shown == self.now.shown:
            self.shown = [shown]
        assert by_key(twin) == self.now.shown, "rows of the recovered table"
        assert by_key(twin, listing="storage") == self.now.shown, "rows of the recovered table, by a listing"

    def _is_restored(self, timeline: Timeline) -> bool:
        """Let the model follow a RESTORE that was decided since, and return whether there was one."""
        known = len(self.born)
        entries = [entry for entry in whole_log(self.storage).entries if isinstance(entry, Restore)]
        for entry in entries:
            if entry.instant in self.born:
                continue
            self.born[entry.instant] = self.now
            self.restoring, self.now = entry.instant, self.past[entry.savepoint]
            for undone in entry.undone:
                del self.past[undone]
        found = timeline.find(self.restoring, "restore") if self.restoring else None
        if found is not None and found.is_completed:
            self.restoring = ""
        return len(self.born) > known

    # Promises

    def promise(self, policy: str, retain: int) -> None:
        """Take note of what a clean that begins now may no longer keep."""
        writes = sorted(self.past)
        wanted = ""
        if policy == "commits":
            wanted = writes[-retain] if len(writes) > retain else ""
        elif policy == "hours":
            since = instant_of_ms(self.clock.now_ms() - retain * HOUR_MS)
            wanted = next((time for time in writes if time >= since), writes[-1])
        else:
            wanted = writes[-1]
        self.floor = max(self.floor, wanted)

    def promise_archive(self, keep: int) -> None:
        """Take note of what an archive that begins now may take off the timeline.

        It leaves what the last clean retains; without a clean it leaves the newest writes alone.
        """
        timeline, writes = timeline_of(self.storage), sorted(self.past)
        results = (read_result(self.storage, timeline, one) for one in timeline if one.kind == "clean")
        if not any(isinstance(one, CleanResult) and one.earliest_retained for one in results):
            self.floor = max(self.floor, writes[-keep] if len(writes) > keep else "")

    def promised(self) -> set[str]:
        """Return the instants that must be readable now."""
        now_ms = self.clock.now_ms()
        held = [hold.instant for hold in self.table(actor="reader").holds.list() if hold.until_ms > now_ms]
        least = min([self.floor, *held])
        return {time for time in self.past if time >= least} | (self.saved & self.past.keys())

    def compare_past(self) -> None:
        """Compare the past with what the recovered table shows: promised instants, and any other that is not refused."""
        if self.restoring:
            return
        twin, promised = self.twin(), self.promised()
        others = sorted(self.past.keys() - promised)
        for time in [*sorted(promised), *self.chance.sample(others, min(3, len(others)))]:
            shown = self._shown_as_of(twin, time)
            wanted = [self.past[time].shown] if time in promised else [self.past[time].shown, None]
            assert shown in wanted, f"rows as of {time}, which is {'' if time in promised else 'not '}promised"

    def _shown_as_of(self, table: Table, time: str) -> dict[str, int] | None:
        """Return the rows as of an instant; None if the read is refused."""
        try:
            return by_key(table, as_of=time)
        except (InvalidRequest, Unavailable) as error:
            self.story.append(f"as of {time}: {error.what}")
            return None

    # Source files

    def land(self, name: str, batch: dict[str, tuple[str, int]]) -> None:
        """Put a source file."""
        values = [(key, part, value, value, None) for key, (part, value) in batch.items()]
        pq.write_table(rows(*values), self.landing / f"{name}.parquet")


def after_folder(now: Rows, files: dict[str, dict[str, tuple[str, int]]]) -> Rows:
    """Return the rows after all files of the folder that were not taken are."""
    for name in sorted(files.keys() - now.taken, key=lambda name: max(value for _, value in files[name].values())):
        now = now.put(files[name], frozenset({name}))
    return now
