"""What must hold of a table after any run: the rows are those of a serial replay, nothing that was promised is broken.

One oracle a scenario. It knows which actor does what; the table tells in which order it counted. Equal end states are looked at
once: many schedules end in the same one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.context import TableContext
from hudi_ops.errors import Busy, Cancelled, Conflict, InvalidRequest, Unsupported
from hudi_ops.files.names import parse_data_file
from hudi_ops.metadata.records.partitions import HISTORY_FOLDER as METADATA_HISTORY
from hudi_ops.metadata.writer.begin import PROPERTIES_PATH as METADATA_PROPERTIES
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.timeline.content.archived import load_history, load_history_of
from hudi_ops.timeline.log.commit_log import Log, load_log
from hudi_ops.timeline.log.entries import Archive, Cancel, Complete, Entry, Plan, Takeover
from hudi_ops.timeline.names import WRITE_ACTIONS, completes_as
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import CommitReader, StateLoader
from hudi_ops.verify import verify_table
from hudi_ops.verify.report import Finding
from tests.protocol.crash_table import unaccounted
from tests.protocol.scenarios.actors import Landed, Recovers, Writes
from tests.protocol.scenarios.hudi import WRITER_KEY, Hudi, WriteConflict
from tests.protocol.scenarios.listing_reader import listed_rows
from tests.protocol.scenarios.services import HISTORY
from tests.protocol.scenarios.worlds import HELD, LATER, Job, Rows, newest_ms
from tests.tables import table_of

SETTLED_MS = 7_200_000
"""After that time every lease is dead, also one that a clock an hour ahead has written."""
PROMISES = (InvalidRequest, Unsupported, Conflict, Busy, Cancelled, WriteConflict)
"""After one of these nothing of the write has landed, and nothing will."""


@dataclass(frozen=True)
class Outcome:
    """How an actor ended: what it returned, or its error; neither when it crashed or never came to its end."""

    result: object = None
    error: BaseException | None = None


@dataclass(frozen=True)
class Counted:
    """A write that counts, in the order in which writes count."""

    instant: str
    completion_time: str
    actor: str
    job: Job


@dataclass
class Oracle:
    """Judges the end of a run.

    Args:
        jobs: what each of our actors writes, by its name; none for those that only recover.
        strangers: the same for writers of Apache Hudi.
        start: rows before anybody acted.
        settles: whether another writer then recovers the table, which must leave nothing to find.
        finish: what others do before that, such as executing a plan that is still pending.
    """

    jobs: Mapping[str, Job]
    strangers: Mapping[str, Job] = field(default_factory=dict)
    start: Mapping[str, int] = field(default_factory=lambda: dict(HELD))
    settles: bool = True
    finish: Sequence[Callable[[TableContext], object]] = ()
    seen: set[int] = field(default_factory=set)

    def judge(self, storage: MemoryStorage, outcomes: Mapping[str, Outcome]) -> None:
        """Look at the end of one run.

        Raises:
            AssertionError: says what does not hold.
        """
        told = tuple((name, repr(one.result), type(one.error).__name__) for name, one in sorted(outcomes.items()))
        print_of = hash((told, tuple((path, body) for path, (body, _) in sorted(storage._files.items()))))
        if print_of in self.seen:
            return
        self._judge(storage, outcomes)
        self.seen.add(print_of)

    def _judge(self, storage: MemoryStorage, outcomes: Mapping[str, Outcome]) -> None:
        counted = self.counted(storage)
        _check_slots(storage)
        self._check_promises(storage, counted, outcomes)
        self._check_rows(storage, counted, "at the end of the run")
        errors = _unarchived(storage, verify_table(storage, clock=storage._clock).errors)
        errors = [one for one in errors if not _is_of_a_cancelled_sleeper(storage, one)]
        assert errors == [], "\n".join(map(str, errors))
        if self.settles:
            self._check_settled(storage, counted, outcomes)

    def counted(self, storage: MemoryStorage) -> list[Counted]:
        """The actors' writes on the timeline, by completion time."""
        commits = CommitReader(storage)
        state = StateLoader(storage, commits).load()
        log = load_log(storage, None)
        assert log is not None
        deciders = {entry.instant: actor_of(entry.owner) for _, entry in log.completes()}
        archived = [
            (entry.completion_time, entry.instant, deciders[entry.instant])
            for _, entry in log.completes()
            if entry.instant <= log.boundary and completes_as(entry.action) in WRITE_ACTIONS
        ]
        _check_history(storage, log, [instant for _, instant, _ in archived])
        found = [Counted(time, at, who, self.jobs[who]) for at, time, who in archived if who in self.jobs]
        for one in sorted(state.timeline.completed_writes, key=lambda one: one.completion_time):
            assert one.time > log.boundary, f"{one} was archived up to {log.boundary}, and is back"
            metadata = commits.metadata(state.timeline, one)
            assert metadata is not None
            stranger = metadata.extra.get(WRITER_KEY, "")
            actor = stranger or deciders.get(one.time, "")
            assert actor, f"{one} completed, no slot says so, and no stranger wrote it"
            assert stranger or not isinstance(_fate(log, one.time), Cancel), f"{one} was cancelled, and is complete"
            job = {**self.jobs, **self.strangers}.get(actor)
            if job is not None:
                found.append(Counted(one.time, one.completion_time, actor, job))
            else:
                assert actor in {"creator", "settler"}, f"{actor} wrote {one}"
        # An archiver goes by request times: what it took may have completed after what stays.
        found.sort(key=lambda one: one.completion_time)
        actors = [one.actor for one in found]
        assert len(set(actors)) == len(actors), f"a write counts twice: {found}"
        return found

    def replayed(self, counted: Sequence[Counted]) -> Rows:
        """Rows after these writes, one after the other."""
        held = dict(self.start)
        for one in counted:
            held = one.job.applied(held)
        return held

    def _check_rows(self, storage: MemoryStorage, counted: Sequence[Counted], when: str) -> None:
        wanted = self.replayed(counted)
        story = f"{when}; in order: {[f'{one.actor} {one.job}' for one in counted]}"
        assert rows_read(storage) == wanted, f"our reader, {story}"
        assert listed_rows(storage) == wanted, f"a reader that lists, {story}"

    def _check_promises(
        self, storage: MemoryStorage, counted: Sequence[Counted], outcomes: Mapping[str, Outcome]
    ) -> None:
        there = {one.instant: one.actor for one in counted}
        log = load_log(storage, None)
        assert log is not None
        decided = {actor_of(entry.owner) for _, entry in log.completes() if completes_as(entry.action) in WRITE_ACTIONS}
        for name, outcome in outcomes.items():
            if isinstance(outcome.result, Landed):
                assert there.get(outcome.result.instant) == name, f"{name} was told that {outcome.result} had landed"
            elif isinstance(outcome.error, PROMISES):
                said = f"{name} was told that nothing had landed: {outcome.error!r}"
                assert name not in there.values(), said
                assert name not in decided, f"{said}; a slot completes it"

    def _check_settled(
        self, storage: MemoryStorage, before: Sequence[Counted], outcomes: Mapping[str, Outcome]
    ) -> None:
        clock = ManualClock(newest_ms(storage) + SETTLED_MS)
        settled = storage.copy(clock)
        ctx = simulated_context(settled, clock, "settler")
        if self.strangers:
            Hudi("cleaner")(ctx)
        if self.finish:
            Recovers()(ctx)  # what is decided may not be on the timeline yet
        for run in self.finish:
            with suppress(Conflict, Cancelled, Busy):
                run(simulated_context(settled, clock, "finisher"))
        Writes(LATER)(ctx)
        # What was rolled back just now is looked at for a second time once every task of it is dead.
        clock.advance_ms(EXPIRY_MS + 1_000)
        Recovers()(ctx)
        after = self.counted(settled)
        assert [one for one in after if one in before] == list(before), "what counted does not count any more"
        self._check_promises(settled, after, outcomes)
        wanted = LATER.applied(self.replayed(after))
        assert rows_read(settled) == wanted, "our reader, once everything is settled"
        assert listed_rows(settled) == wanted, "a reader that lists, once everything is settled"
        # A stranger's rollback removes the lease that would lead us to the bytes of a try; they are in nobody's way.
        notes = {"foreign-instant", "foreign-cancel", "payload-left", "cancelled-foreign", "rollback-twice"}
        known = notes if self.strangers else set()
        report = verify_table(settled, deep=True, index=settled.head(METADATA_PROPERTIES) is not None, clock=clock)
        if any(one.invariant == "cancelled-foreign" for one in report.findings):
            known |= {"states-missing"}  # it was being rolled back when it completed
        # A stranger that dies after its commit leaves its markers to its own kind.
        theirs = {one.instant for one in after if one.actor in self.strangers}
        findings = [
            one
            for one in _unarchived(settled, report.findings)
            if one.invariant not in known
            and not (one.invariant == "markers-left" and one.where.rpartition("/")[2] in theirs)
        ]
        assert findings == [], "once everything is settled: " + "\n".join(map(str, findings))
        if not self.strangers:
            self._check_files(settled)
        self._check_parts(settled)

    def _check_parts(self, settled: MemoryStorage) -> None:
        """Check what one kind of scenario promises of the settled table."""

    def _check_files(self, settled: MemoryStorage) -> None:
        log = load_log(settled, None)
        assert log is not None
        archived = {entry.instant for _, entry in log.completes() if entry.instant <= log.boundary}
        archived |= {one.time for one in load_history_of(settled, METADATA_HISTORY)}
        for path in unaccounted(settled):
            name = parse_data_file(path.rpartition("/")[2])
            is_archived = name is not None and name.instant in archived
            assert path.startswith(HISTORY) or is_archived, f"nothing accounts for {path}"


def rows_read(storage: MemoryStorage) -> Rows:
    """Rows as our reader sees them, by key; no key twice."""
    assert storage._clock is not None
    table = table_of(storage, storage._clock, "reader").read(["id", "value"])
    assert len(set(table["id"].to_pylist())) == table.num_rows
    return dict(zip(table["id"].to_pylist(), table["value"].to_pylist(), strict=True))


def actor_of(owner: str) -> str:
    """The actor that an entry's owner names."""
    match = re.match(r"(?:simulated-)?(\w+)", owner)
    assert match is not None, owner
    return match[1]


def _fate(log: Log, instant: str) -> Entry | None:
    fate = log.fate(instant)
    return fate[1] if fate is not None else None


def _check_slots(storage: MemoryStorage) -> None:
    """Times rise with the slots, no instant completes twice, epochs rise."""
    log = load_log(storage, None)
    assert log is not None
    newest, completed, epochs = "", set[str](), dict[str, int]()
    for _, entry in log.completes():
        assert entry.instant not in completed, f"{entry.instant} completes twice"
        completed.add(entry.instant)
    for slot, entry in log.since(-1):
        if isinstance(entry, Complete):
            completes = f"slot {slot} completes {entry.instant}"
            assert entry.epoch == epochs.get(entry.instant, 0), f"{completes} of epoch {entry.epoch}, not {epochs}"
            assert entry.completion_time > newest, (
                f"slot {slot} completes at {entry.completion_time}, not above {newest}"
            )
            newest = entry.completion_time
        elif isinstance(entry, Plan):
            assert entry.instant > newest, f"slot {slot} plans {entry.instant}, not above {newest}"
            newest = entry.instant
        elif isinstance(entry, Takeover):
            assert entry.epoch > epochs.get(entry.instant, 0), f"slot {slot}: epoch {entry.epoch}"
            epochs[entry.instant] = entry.epoch


def _check_history(storage: MemoryStorage, log: Log, archived: Sequence[str]) -> None:
    """What was archived is in the file that the newest ARCHIVE names, or was by the time an older one named another."""
    kept: set[str] = set()
    for _, entry in log.since(-1):
        if isinstance(entry, Archive):
            if entry.history.startswith(HISTORY):
                assert storage.head(entry.history) is not None, (
                    f"archived up to {entry.boundary}, and there is no history"
                )
                kept.update(json.loads(storage.get(entry.history)))
            else:
                kept.update(one.time for one in load_history(storage, load_config(storage)).instants)
    assert set(archived) <= kept, f"archived, and kept nowhere: {sorted(set(archived) - kept)}"


def _unarchived(storage: MemoryStorage, findings: Sequence[Finding]) -> list[Finding]:
    """Findings, but for what the scenarios' own archiver took off the timeline: `verify` looks for it in Apache Hudi's history."""
    log = load_log(storage, None)
    assert log is not None
    archived = {entry.instant for _, entry in log.completes() if entry.instant <= log.boundary}
    return [
        one for one in findings if not any(instant in one.where for instant in archived) or "left" not in one.invariant
    ]


def _is_of_a_cancelled_sleeper(storage: MemoryStorage, finding: Finding) -> bool:
    """Whether it is the inflight of a write that was cancelled and rolled back before it was put, by one who died right then.

    No order of reads and writes of its own can keep a dead process from that; the next write of anybody removes it.
    """
    log = load_log(storage, None)
    assert log is not None
    instant = finding.where.rpartition("/")[2].partition(".")[0]
    return finding.invariant == "inflight-without-requested" and isinstance(_fate(log, instant), Cancel)


def session_of(storage: MemoryStorage, actor: str) -> Session:
    """A session of an actor that nobody steps."""
    assert storage._clock is not None
    return Session(simulated_context(storage, storage._clock, actor))
