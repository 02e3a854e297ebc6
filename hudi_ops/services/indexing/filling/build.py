"""Fill new partitions of the metadata table, unseen by readers, and announce them.

Files are written at an instant of the metadata table that no write ever gets. Once the partitions are announced, writers add to
them, so that only completions between the last snapshot and the announcement are missing; `catch_up.py` adds those.

Source: RFC-45; docs/protocol §18.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hudi_ops.commit.checks import refuse_changed_columns, refuse_pending_restore
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.attempt_status import refuse_closed
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.config.table import INDEX_DEFINITIONS, INDEX_DEFINITIONS_PATH
from hudi_ops.engine.progress import Progress
from hudi_ops.errors import Busy, Cancelled, Conflict
from hudi_ops.metadata.definitions import with_definitions
from hudi_ops.metadata.index_definitions import encode_index_definitions
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.metadata.records.partitions import TIMELINE_FOLDER
from hudi_ops.metadata.writer.begin import (
    Beginning,
    begin_groups,
    complete_beginning,
    put_properties,
    request_beginning,
)
from hudi_ops.metadata.writer.building import Building, group_count
from hudi_ops.metadata.writer.commit import ACTION
from hudi_ops.metadata.writer.delta import log_files
from hudi_ops.services.indexing.filling.diff import TableSnapshot, diff, snapshot
from hudi_ops.services.indexing.filling.pace import Pace
from hudi_ops.services.indexing.filling.reserve import remove_build_files
from hudi_ops.services.indexing.filling.tasks import FactReader
from hudi_ops.services.indexing.rebuild import dropped_before
from hudi_ops.services.indexing.wanted import refuse_unbuildable
from hudi_ops.timeline.builds.checkpoint import BuildCheckpoint, put_checkpoint
from hudi_ops.timeline.completed import changing
from hudi_ops.timeline.content.commit_metadata import WriteStat
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.entries import Entry, Properties, cancel_of
from hudi_ops.timeline.log.reserve import newest_known
from hudi_ops.timeline.log.unique_keys import counted_until
from hudi_ops.timeline.names import completed_name
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

CHECKPOINT_EVERY_S = 5.0
"""Interval of checkpoints while files are read."""
ROUNDS_MAX = 2
"""Rounds that add completions before the partitions are announced; then writers add them."""


@dataclass
class Build:
    """A running build.

    Attributes:
        session: of this process.
        attempt: execution of the plan.
        partitions: what is built.
        begun: state in which the build's instant was taken.
        instant: the build's instant on the metadata table's timeline.
        seen: newest snapshot of the table; its files are in the new partitions, or in a delta that is put.
        covered: completed instants whose changes are in files that count.
        building: makes the records.
        reader: reads statistics and keys.
        groups: number of file groups by partition.
        stats: files of the build's instant.
        records: number of records of the first base files, by partition name.
        rounds: rounds that added completions.
        announcements: number of decisions that announced the partitions, or tried to.
        is_announced: whether writers add to the partitions.
        defined: names that the build added to the index definitions.
        deltas: instants of catch-up, in order; the last may be pending.
        recorded: writes whose empty delta commits the build put.
        doubled_keys: number of record keys in more than one file group when it was announced; None: not counted.
        verdicts: what each instant since the announcement means for the partitions, by instant.
        pace: of catch-up and of other writers.
        waited_for: what the build waited for, in words, by instant of a foreign writer.
    """

    session: Session
    attempt: Attempt
    partitions: tuple[str, ...]
    begun: TableState
    instant: str
    seen: TableSnapshot
    building: Building
    reader: FactReader
    groups: dict[str, int] = field(default_factory=dict)
    stats: list[WriteStat] = field(default_factory=list)
    records: dict[str, int] = field(default_factory=dict)
    rounds: int = 0
    announcements: int = 0
    is_announced: bool = False
    defined: tuple[str, ...] = ()
    deltas: tuple[str, ...] = ()
    recorded: list[str] = field(default_factory=list)
    doubled_keys: int | None = None
    verdicts: dict[str, str] = field(default_factory=dict)
    pace: Pace = field(default_factory=Pace)
    waited_for: dict[str, str] = field(default_factory=dict)
    covered: frozenset[Instant] = frozenset()
    _reading: Progress | None = None
    _reading_since_s: float = 0.0
    _told_s: float = 0.0
    _note: str = ""

    @property
    def names(self) -> frozenset[str]:
        """Names of the partitions."""
        return frozenset(map(str, self.partitions))

    def checkpoint(self, note: str = "") -> BuildCheckpoint:
        """Return what the next executor and users need to know."""
        now_ms = self.session.ctx.clock.now_ms()
        return BuildCheckpoint(
            plan=self.attempt.instant,
            epoch=self.attempt.epoch,
            built_at=self.instant,
            partitions=tuple(map(str, self.partitions)),
            phase="catch-up" if self.is_announced else "build",
            groups={str(partition): count for partition, count in self.groups.items()},
            looked_at=tuple(sorted(instant.file_name for instant in self.covered)),
            defined=self.defined,
            deltas=self.deltas,
            looked_at_last=tuple(sorted(one.file_name for one in self.seen.completed)) if self.deltas else (),
            rounds=self.rounds,
            records=self.records,
            at_ms=now_ms,
            verdicts=dict(Counter(self.verdicts.values())),
            note=note,
            **self._read(),
            **self.pace.facts(now_ms),
            seconds_left=None if note else self._seconds_left(now_ms),
        )

    def _read(self) -> dict[str, Any]:
        """Return what is read now, and how far."""
        now = self._reading
        if now is None or now.done >= now.total:
            return {}
        return {"reading": now.what, "done": now.done, "total": now.total}

    def _seconds_left(self, now_ms: int) -> float | None:
        """Return the estimated time to the end of catch-up.

        Before catch-up, and in its first round, this is the time to the end of the present reading.
        """
        if self.pace.catch_up_per_s is not None:
            return self.pace.seconds_left(now_ms)
        now = self._reading
        if now is None or not 0 < now.done < now.total:
            return None
        took_s = self.session.ctx.clock.monotonic_s() - self._reading_since_s
        return round(took_s / now.done * (now.total - now.done), 1)

    @property
    def pace_words(self) -> str:
        """Return the rates of catch-up and of other writers, in words; empty before it."""
        return self.pace.words(self.session.ctx.clock.now_ms()) if self.is_announced else ""

    def tell(self, progress: Progress) -> None:
        """Note how far reading has come, and put a checkpoint now and then."""
        now_s = self.session.ctx.clock.monotonic_s()
        if self._reading is None or self._reading.what != progress.what or progress.done < self._reading.done:
            self._reading_since_s = self._told_s = now_s
        self._reading = progress
        if now_s - self._told_s >= CHECKPOINT_EVERY_S:
            self._told_s = now_s
            self.put_checkpoint()

    def wait(self, note: str) -> None:
        """Log and put what the build waits for: when it changes, and now and then."""
        now_s = self.session.ctx.clock.monotonic_s()
        if note != self._note or now_s - self._told_s >= CHECKPOINT_EVERY_S:
            self._note, self._told_s = note, now_s
            logger.info("the index build %s", note)
            self.put_checkpoint(note)

    def end_wait(self) -> None:
        """Forget what the build waited for, once it goes on."""
        if self._note:
            logger.info("the index build goes on: it waits no longer")
            self._note = ""
            self.verdicts = {instant: said for instant, said in self.verdicts.items() if said != "waiting"}
            self.put_checkpoint()

    def put_checkpoint(self, note: str = "") -> None:
        """Put the checkpoint of this execution."""
        put_checkpoint(self.session.ctx.storage, self.checkpoint(note))


def fill(build: Build) -> None:
    """Put the first files of all partitions, and add completions in at most `ROUNDS_MAX` rounds.

    Raises:
        Conflict: the table's columns changed; or the plan completed or was archived, or a foreign writer rolls it back.
        Cancelled: the plan was cancelled, or taken over.
        Busy: the lock was not free in time, or was lost.
    """
    storage = build.session.ctx.storage
    put_properties(storage, build.begun.config, build.session.ctx.clock.now_ms())
    begin(build)
    _define(build)
    for _ in range(ROUNDS_MAX):
        state = build.session.loader.load()
        if not needs_round(build, state):
            return
        refuse_changed_columns(build.session, build.begun, state)
        _add_round(build, state)


def _define(build: Build) -> None:
    """Add the partitions to the index definitions, under the lock.

    Without the lock, an executor that slept would overwrite later changes of other processes. One that sleeps right before its put
    still does.

    Raises:
        Conflict: the plan completed or was archived, or a foreign writer rolls it back.
        Cancelled: the plan was cancelled, or taken over.
        Busy: the lock was not free in time, or was lost.
    """
    session = build.session
    columns, version = build.building.statistics.columns, build.begun.config.version
    with hold_lock(session.ctx, "define new partitions of the metadata table") as held:
        refuse_closed(session.ctx.storage, build.attempt, session.loader.load())
        definitions = load_index_definitions(session.ctx.storage)
        defined = with_definitions(definitions, build.partitions, columns, version)
        build.defined = tuple(sorted(defined.keys() - definitions.keys()))
        build.put_checkpoint()
        if not held.still_mine():
            raise Busy(
                "the table lock was lost before the new partitions were defined",
                table=build.begun.config.name,
                instant=build.attempt.instant,
                next_step="run the same call again, which builds them anew",
            )
        session.ctx.storage.put(INDEX_DEFINITIONS_PATH, encode_index_definitions(defined))


def begin(build: Build) -> None:
    """Put the first files of all partitions, with the content of the first snapshot."""
    files = list(build.seen.described.values())
    facts = build.reader.facts(files)
    keys = build.reader.located(list(build.seen.slices.values()))
    now_ms = build.session.ctx.clock.now_ms()
    for partition in build.partitions:
        records = build.building.whole(partition, build.seen.files, facts, keys)
        build.records[str(partition)] = len(records.keys)
        build.groups[partition] = group_count(partition, len(records.keys))
        beginning = Beginning(partition, build.instant, groups=build.groups[partition], records=records)
        build.stats += begin_groups(build.session.ctx.storage, beginning, now_ms)


def needs_round(build: Build, state: TableState) -> bool:
    """Return whether a state has other files than the newest snapshot."""
    return changing(state.timeline) != build.seen.completed or bool(build.seen.undone_ahead(state))


def _add_round(build: Build, state: TableState) -> None:
    """Put a log file of the build's instant into each group that changed since the snapshot."""
    after = snapshot(build.session, state, build.seen)
    change = diff(build.seen, after)
    build.rounds += 1
    build.reader.state = after.state
    facts = build.reader.facts(list(change.new))
    moved = build.reader.moved(change.slices)
    logger.info("building the metadata table: round %s adds %s files", build.rounds, len(change.new))
    for partition in build.partitions:
        records = build.building.changed(partition, change.files, facts, moved.keys, moved.gone, moved.gone_entries)
        if not records:
            continue
        # The first version begins the group.
        version, token = build.rounds + 1, "0-0-0"
        for path, body, stat in log_files(
            records, build.groups[partition], instant=build.instant, log_version=version, token=token
        ):
            build.session.ctx.storage.put(path, body)
            build.stats.append(stat)
    build.seen = after


def announce(build: Build) -> None:
    """Announce the partitions: writers add to them from this decision on, readers ignore them.

    The build's instant completes first. Otherwise a compaction of the metadata table, which sees only completed instants, could
    make a base file from the logs of writers alone, which would hide those of the build.

    Raises:
        Conflict: another process changed the metadata table.
        Cancelled: the plan or the build was cancelled, or the plan was taken over.
        Busy: a restore is pending, or a resize is being undone.
    """
    session = build.session
    build.doubled_keys = build.reader.doubled_keys()
    build.covered = build.seen.completed
    build.announcements += 1
    tried = announced_at = ""
    build.put_checkpoint()
    # What completed since the last look is read before the lock, not under it.
    session.loader.load()

    def prepare(state: TableState, slot: int) -> Entry | None:
        nonlocal tried, announced_at
        refuse_pending_restore(state)
        refuse_closed(session.ctx.storage, build.attempt, state)
        _refuse_changed(build, state)
        own = load_metadata_timeline(session.ctx.storage)
        found = own.find(build.instant)
        if tried:
            # An earlier try lost its slot, so no writer uses its completed instant.
            remove_build_files(session, build.attempt, state, [tried])
        if tried or found is None or not found.is_completed:
            completion = session.next_time(newest_known(state.timeline, state.log) | {own.newest_time}, state)
            tried = f"{TIMELINE_FOLDER}/{completed_name(build.instant, ACTION, completion)}"
            request_beginning(session.ctx.storage, build.instant)
            complete_beginning(session.ctx.storage, state.config.version, build.instant, completion, build.stats)
            announced_at = completion
        else:
            announced_at = found.completion_time
        return Properties(
            **session.entry(state, f"announce {build.attempt.instant} {build.attempt.epoch} {build.announcements}"),
            set={INDEX_DEFINITIONS: INDEX_DEFINITIONS_PATH},
            announces=tuple(map(str, build.partitions)),
            plan=build.attempt.instant,
            built_at=build.instant,
            to_build=tuple(dropped_before(state)),
            **state.log.properties.carried(),
            doubled_keys=build.doubled_keys,
            counted_until=counted_until(build.seen.state.timeline) if build.doubled_keys is not None else "",
        )

    session.decide(prepare, "announce new partitions of the metadata table")
    build.is_announced = True
    build.pace = Pace(announced_at, build.begun.zone, build.pace.catch_up_per_s)
    build.put_checkpoint()
    logger.info("announced %s of the metadata table, built at %s", ", ".join(build.partitions), build.instant)


def _refuse_changed(build: Build, state: TableState) -> None:
    """Refuse to announce a build if its conditions do not hold any more.

    Raises:
        Cancelled: another process took it for dead.
        Conflict: the metadata table got or lost partitions.
        Busy: a cancelled resize is being removed.
    """
    if cancel_of(state.log.fate(build.instant)) is not None:
        raise Cancelled(
            "the build of the metadata table was taken for dead",
            instant=build.instant,
            next_step="run the same call again; if it repeats, find out why this process stops for so long",
        )
    had, has = (sorted({*one.config.all_metadata_partitions} - build.names) for one in (build.begun, state))
    built = sorted(build.names & {*state.config.metadata_partitions})
    if had != has or built:
        raise Conflict(
            "the metadata table got or lost partitions during the build",
            table=state.config.name,
            expected=", ".join(had) or "none",
            found=", ".join([*has, *built]) or "none",
            next_step="run the same call again",
        )
    refuse_unbuildable(build.session, state)


def missing_names(names: Sequence[str] | frozenset[str], state: TableState) -> list[str]:
    """Return announced partitions that the properties do not name."""
    return sorted({*names} - {*state.config.all_metadata_partitions})
