"""Add to announced partitions what completed without them, until nothing is missing.

A completion carries the partitions if its writer knew of the announcement. That is read from what it wrote: the COMPLETE of a
writer of this library names the partitions of its delta, and the delta commit of a foreign writer has files in them. Its mere
existence proves nothing: a writer with an older configuration has one for `files` only.

What is missing is put at an instant of the metadata table just above the newest instant whose records it must replace, so that the
records of writers that began later stay above it. Ranges of partitions, which Apache Hudi replaces, are put above all.

Source: RFC-45; docs/protocol §18.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from hudi_ops.commit.checks import refuse_changed_columns
from hudi_ops.concurrency.attempt_status import refuse_closed
from hudi_ops.concurrency.foreign.foreign_instants import may_be_foreign
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.engine.progress import Progress
from hudi_ops.errors import Conflict
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.records import Records
from hudi_ops.metadata.writer.begin import complete_beginning, request_beginning
from hudi_ops.metadata.writer.commit import apply_delta, complete_delta, undo_delta
from hudi_ops.metadata.writer.delta import MetadataDelta, make_delta
from hudi_ops.services.indexing.filling.build import Build, missing_names
from hudi_ops.services.indexing.filling.diff import TableSnapshot, cleaned, diff, snapshot, without
from hudi_ops.services.indexing.filling.reserve import take_above
from hudi_ops.services.indexing.filling.verdicts import (
    Compactions,
    Verdict,
    first_run,
    is_rolled_back,
    until_words,
    wrote,
)
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.completed import changing
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.reserve import known_times, newest_known
from hudi_ops.timeline.names import State, instant_of_ms, ms_of_instant
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
"""Interval of looks at a foreign writer that may not know the announcement."""
UNSETTLED_MS = 5_000
"""A foreign instant that was requested so soon after the announcement may have read the properties before it."""
_WITHOUT_ROWS = frozenset({"indexing", "savepoint"})
"""Kinds of instants that change no row of the table: catch-up has nothing to add for them."""


@dataclass
class CatchUp:
    """Catch-up of one build.

    Attributes:
        build: the build, announced.
        until_s: monotonic time at which it gives up.
        pulse: called at each look at a foreign writer; raises if the build was cancelled, or is to stop.
        settled_from: foreign instants requested before this time may not know the announcement.
        delta: records that are put and do not count yet.
        put_again: puts these records at another instant, for the state and the metadata table's timeline.
        above: ranges of partitions, to put above all other records.
        newest: newest instant whose records are below those of the next delta.
    """

    build: Build
    until_s: float
    pulse: Callable[[Progress], None]
    settled_from: str = ""
    delta: MetadataDelta | None = None
    put_again: Callable[[TableState, Timeline], MetadataDelta] | None = None
    above: Sequence[Records] = ()
    newest: str = ""
    _ours: set[str] = field(default_factory=set)
    _compactions: Compactions = field(init=False)

    def __post_init__(self) -> None:
        self._compactions = Compactions(self.build.session.ctx.storage)

    def begin(self) -> None:
        """Note the time of the announcement."""
        session = self.build.session
        own = load_metadata_timeline(session.ctx.storage)
        counts = [one for one in self.build.deltas if (found := own.find(one)) is not None and found.is_completed]
        self.newest = max((self.build.instant, *counts))
        newest = max(newest_known(session.loader.load().timeline, None))
        after_ms = max(session.ctx.clock.now_ms(), ms_of_instant(newest, self.build.begun.zone))
        self.settled_from = instant_of_ms(after_ms + UNSETTLED_MS, self.build.begun.zone)

    def add(self) -> None:
        """Put the records of the first completions that lack the partitions, uncounted.

        First the snapshot moves past earlier completions that carried the partitions. Otherwise a key that one of these added and a
        later completion removed would be in neither snapshot, and stay in the index. Later completions wait for the next round.

        Raises:
            Conflict: the table's columns changed, or catch-up took too long.
        """
        build = self.build
        state = self._settled()
        self._leave_listed(state)
        if not build.partitions or not (
            changing(state.timeline) - build.seen.completed or build.seen.undone_ahead(state) or self._undone(state)
        ):
            return
        refuse_changed_columns(build.session, build.begun, state)
        own = load_metadata_timeline(build.session.ctx.storage)
        self.newest = max(self.newest, self._compactions.newest(own, build.names))
        judged = list(self._judged(state, own))
        new = sorted(changing(state.timeline) - build.seen.completed, key=lambda one: one.completion_time)
        lead, run, rest = first_run(new, judged)
        if not run and not any(one.verdict == "undone" for one in judged):
            return
        self._refuse_late(state)
        if lead:
            build.seen = self._moved_on(without(state, {*run, *rest}))
        lacking = {one.instant for one in judged if one.verdict != "carried"}
        later = lacking & {one.time for one in rest}
        began_s, build.pace.left = build.session.ctx.clock.monotonic_s(), len(lacking)
        missing = [one for one in judged if one.verdict == "missing" and one.instant in {each.time for each in run}]
        self._add(state, own, run, rest, missing)
        build.pace.add_round(len(lacking - later), build.session.ctx.clock.monotonic_s() - began_s)
        build.pace.left = len(later)
        logger.info("catching up: %s instants added; %s", len(lacking - later), build.pace_words)
        build.put_checkpoint()

    def _add(
        self,
        state: TableState,
        own: Timeline,
        run: Sequence[Instant],
        rest: Sequence[Instant],
        missing: Sequence[Verdict],
    ) -> None:
        """Put the records of completions, uncounted; `rest` are completions of later rounds."""
        build = self.build
        after = snapshot(build.session, without(state, rest), build.seen)
        change = diff(build.seen, after, cleaned(build.session, state, run))
        build.reader.state = after.state
        facts = build.reader.facts(list(change.new))
        moved = build.reader.moved(change.slices)
        made = [
            build.building.changed(one, change.files, facts, moved.keys, moved.gone, moved.gone_entries)
            for one in build.partitions
        ]
        build.seen = after
        build.rounds += 1
        self._note(Verdict(one.time, one.kind, "applied", f"in round {build.rounds}") for one in run)
        if MetadataPartition.FILES in build.partitions:
            self._record(state, own, missing)
        records = [one for one in made if one]
        logger.info("catching up: round %s adds %s files, for %s instants", build.rounds, len(change.new), len(missing))
        if not records:
            return
        self.above = [one for one in records if one.partition == MetadataPartition.PARTITION_STATS]
        below = [one for one in records if one.partition != MetadataPartition.PARTITION_STATS]
        self.put_again = partial(self._put, records=below, missing=missing)
        self.delta = self.put_again(state, own)

    def _moved_on(self, state: TableState) -> TableSnapshot:
        """Return the snapshot after completions that carried the partitions.

        Nothing is added for them.
        """
        build = self.build
        after = snapshot(build.session, state, build.seen)
        build.reader.forget(diff(build.seen, after).slices)
        return after

    def finish(self, state: TableState) -> None:
        """Complete the delta that was put; called under the lock, with the state just read.

        Raises:
            Conflict: a foreign writer built and listed one of the partitions, and the delta is removed; or it rolls back the plan.
            Cancelled: the plan was cancelled, or taken over, and a foreign writer rolled back the delta.
        """
        build, delta = self.build, self.delta
        if delta is None:
            return
        storage = build.session.ctx.storage
        if taken := sorted(build.names & {*state.config.metadata_partitions}):
            undo_delta(storage, [delta.instant])
            self.delta, self.above = None, ()
            raise Conflict(
                f"a foreign writer built {', '.join(taken)} of the metadata table while catch-up added to it",
                table=state.config.name,
                instant=build.attempt.instant,
                expected="announced partitions that are not listed",
                found=", ".join(state.config.metadata_partitions),
                next_step="run the same call again: it leaves these partitions as they are, and builds the others",
            )
        own = load_metadata_timeline(storage)
        self.newest = max(self.newest, self._compactions.newest(own, build.names))
        if self.put_again is not None and is_rolled_back(own, delta.instant):
            # The successor of an executor that slept undoes its delta, too: then this call is refused.
            refuse_closed(storage, build.attempt, build.session.loader.load())
            logger.warning(
                "a foreign writer rolled back catch-up at %s of the metadata table: put again", delta.instant
            )
            undo_delta(storage, [delta.instant])  # a rollback that has only begun leaves its instant and some files
            delta = self.delta = self.put_again(state, own)
        completion = build.session.next_time(newest_known(state.timeline, state.log) | {own.newest_time}, state)
        if self.above:
            apply_delta(storage, self._made(completion, self.above), completion)
            completion = build.session.next_time(frozenset({completion}), state)
        complete_delta(storage, delta, completion)
        self.delta, self.above = None, ()
        build.covered = build.seen.completed

    def check(self, state: TableState) -> None:
        """Refuse to complete the build while anything is missing; call it under the lock.

        Raises:
            Conflict: names the first instant that the partitions lack.
        """
        build = self.build
        if not build.partitions:
            return
        gone = missing_names(build.names, state)
        if gone:
            build.is_announced = False
            self._refuse(state, "", f"{', '.join(gone)} not named by hoodie.properties any more")
        build.pace.saw(changing(state.timeline))
        waiting = self._foreign(state)
        if waiting:
            self._refuse(state, waiting[0].time, f"{waiting[0]}, which may not know the new partitions")
        own: Timeline | None = None
        new = changing(state.timeline) - build.seen.completed
        if any(not self._carries(state, one) for one in new):
            own = load_metadata_timeline(build.session.ctx.storage)
        for one in self._judged(state, own):
            self._note([one])
            if one.verdict != "carried":
                self._refuse(state, one.instant, f"{one.action} {one.instant}: {one.verdict} {one.why}".rstrip())

    def _note(self, verdicts: Iterable[Verdict]) -> None:
        """Note verdicts, and log those that are new."""
        for one in verdicts:
            if self.build.verdicts.get(one.instant) != one.verdict:
                self.build.verdicts[one.instant] = one.verdict
                logger.info("%s %s: %s%s", one.action, one.instant, one.verdict, f", {one.why}" if one.why else "")

    def _refuse(self, state: TableState, instant: str, found: str) -> None:
        """Refuse to complete: one more round is due.

        Raises:
            Conflict: always.
        """
        raise Conflict(
            "the new partitions lack a completion",
            table=state.config.name,
            instant=self.build.attempt.instant,
            expected="completions that carry the partitions, in order",
            found=found,
            next_step="the build adds it in its next round",
            other=instant,
            behind=True,
        )

    def _judged(self, state: TableState, own: Timeline | None) -> Iterator[Verdict]:
        """Yield a verdict for each completion, and each undone one, since the snapshot."""
        storage, names = self.build.session.ctx.storage, self.build.names
        for one in sorted(changing(state.timeline) - self.build.seen.completed, key=lambda one: one.time):
            has = names if self._carries(state, one) else names & wrote(storage, own, one)
            if has != names:
                yield Verdict(one.time, one.kind, "missing", "it completed without the new partitions", bool(has))
            elif one.time < self.newest:
                yield Verdict(one.time, one.kind, "out of order", f"it was requested before {self.newest}", True)
            else:
                yield Verdict(one.time, one.kind, "carried", has_records=True)
        for one in self._undone(state):
            yield Verdict(one.time, one.kind, "undone", "the new partitions may name its files")
        for file in self.build.seen.undone_ahead(state):
            yield Verdict(file.instant, "clustering", "undone", "its child logs are gone")

    def _carries(self, state: TableState, one: Instant) -> bool:
        """Return whether a completion's entry in the commit log names the partitions."""
        entry = state.log.completed.get(one.time)
        return entry is not None and self.build.names <= {*entry.indexes}

    def _undone(self, state: TableState) -> list[Instant]:
        """Return completions that the snapshot covers and that were undone since."""
        gone = self.build.seen.completed - changing(state.timeline)
        return [one for one in gone if one.time >= state.timeline.start]

    def _leave_listed(self, state: TableState) -> None:
        """Leave out of the build the partitions that a foreign writer built and listed by itself.

        Their file groups may differ from those of this build.
        """
        build = self.build
        listed = build.names & {*state.config.metadata_partitions}
        if listed:
            logger.warning(
                "a foreign writer built and listed %s itself: catch-up leaves that to it", ", ".join(sorted(listed))
            )
            build.partitions = tuple(one for one in build.partitions if str(one) not in listed)

    def _settled(self) -> TableState:
        """Wait for foreign writers that may not know the announcement; return the state."""
        session = self.build.session
        while True:
            state = session.loader.load()
            waiting = self._foreign(state)
            self.build.pace.saw(changing(state.timeline))
            if not waiting:
                self.build.end_wait()
                return state
            first = waiting[0]
            what = f"{first.action} {first.time} of a foreign writer, which may not know the new partitions"
            note = f"waits for {what}; {until_words(session.ctx.storage, first, self.build.begun.zone)}"
            self.build.waited_for[first.time] = f"waited for {what}"
            self._note(Verdict(one.time, one.action, "waiting", "for a foreign writer") for one in waiting)
            self.build.wait(note)
            self._refuse_late(state, note, first.time)
            self.pulse(Progress("foreign writers that ended", 0, len(waiting), note=note))
            session.ctx.clock.sleep_s(LOOK_EVERY_S)

    def _refuse_late(self, state: TableState, note: str = "adds what completed while it ran", other: str = "") -> None:
        """Refuse to go on after the limit of catch-up.

        Raises:
            Conflict: says what it waited for; the plan and the announced partitions stay.
        """
        if self.build.session.ctx.clock.monotonic_s() >= self.until_s:
            raise Conflict(
                f"the index build gave up: it {note}",
                table=state.config.name,
                instant=self.build.attempt.instant,
                expected="an end of catch-up within --timeout",
                found=f"{self.build.rounds} rounds so far; {self.build.pace_words}",
                next_step="the plan stays: run the same call again, with a longer --timeout; `hudi-ops index TABLE show` says "
                "what it waits for",
                other=other,
                timed_out=True,
            )

    def _foreign(self, state: TableState) -> list[Instant]:
        """Return pending foreign instants that may not know the announcement."""
        found = []
        for one in state.timeline.pending:
            is_judged = State.INFLIGHT in one.states and one.kind not in _WITHOUT_ROWS and one.time < self.settled_from
            if not is_judged or one.time in self._ours:
                continue
            lease = read_lease(self.build.session.ctx.storage, one.time)
            if lease is not None and not may_be_foreign(lease):
                self._ours.add(one.time)
            elif lease is None or not lease.is_dead(self.build.session.ctx.clock):
                found.append(one)
        return found

    def _record(self, state: TableState, own: Timeline, missing: Sequence[Verdict]) -> None:
        """Put empty delta commits of writes that began without a metadata table.

        Readers pass over a metadata table whose timeline lacks a completed write.
        """
        build, storage = self.build, self.build.session.ctx.storage
        for one in missing:
            write = state.timeline.find(one.instant, one.action)
            found = own.find(one.instant)
            if write is not None and write.is_write and (found is None or not found.is_completed):
                request_beginning(storage, write.time)
                build.recorded.append(write.time)
                complete_beginning(storage, build.begun.config.version, write.time, write.completion_time, ())

    def _put(
        self, state: TableState, own: Timeline, *, records: Sequence[Records], missing: Sequence[Verdict]
    ) -> MetadataDelta:
        """Put the log files of a delta at an instant above those whose records it replaces."""
        build = self.build
        foreign = [one.instant for one in missing if state.log.fate(one.instant) is None]
        floor = max((self.newest, *(one.completion_time for one in state.timeline if one.time in foreign)))
        instant = self._free_above(floor, state, own)
        self.newest = instant
        build.deltas = (*build.deltas, instant)
        build.put_checkpoint()
        request_beginning(build.session.ctx.storage, instant)
        delta = self._made(instant, records)
        for path, body in delta.files:
            build.session.ctx.storage.put(path, body)
        return delta

    def _made(self, instant: str, records: Sequence[Records]) -> MetadataDelta:
        token = f"0-{self.build.attempt.epoch}-0"
        version = self.build.begun.config.version
        return make_delta(records, self.build.groups, instant=instant, version=version, token=token)

    def _free_above(self, floor: str, state: TableState, own: Timeline) -> str:
        """Return a free time above `floor` that no other executor takes."""
        taken = known_times(state.timeline, state.log) | own.known_times
        return take_above(self.build.session.ctx, floor, taken, self.build.attempt.takeover)
