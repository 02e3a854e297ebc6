"""State for decisions, read in the safe order: settings, then the log, then the timeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

from hudi_ops.config.logged_settings import Settings, SettingsSource
from hudi_ops.config.table import TableConfig, TableFacts
from hudi_ops.errors import Conflict, Corrupt, Internal, NotFound, Unsupported
from hudi_ops.storage.claim import claim
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.content.archived import ArchivedTimes
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Log, Pointer, extended, read_slot, refresh_log, slot_path
from hudi_ops.timeline.log.entries import ADOPTS, Entry, Properties, decision_id_of, encode_entry
from hudi_ops.timeline.log.head import open_log
from hudi_ops.timeline.settings.settings_check import logged_config, parsed_config, repaired_config

ENTRIES_KEPT_MAX = 1024
COMMITS_KEPT_MAX = 4096
"""Most log entries, and most commits, that a session remembers; others are read again."""


@dataclass
class CommitReader:
    """Reader of commits' metadata; each is read once, since completed files never change.

    `archived` returns completion times of archived writes.
    """

    storage: Storage
    archived: ArchivedTimes = field(init=False)
    _read: dict[str, CommitMetadata] = field(default_factory=dict)
    _named: dict[str, frozenset[str]] = field(default_factory=dict)
    _fresh: list[tuple[str, Instant]] = field(default_factory=list)
    _made: dict[str, Instant] = field(default_factory=dict)
    _put: tuple[str, bytes] = ("", b"")
    _adopted: dict[str, bool] = field(default_factory=dict)
    settings: dict[int, Settings] = field(default_factory=dict)
    """Settings of the table by slot, as far as they were requested."""
    reads: int = 0
    """Number of commits that were read so far."""

    def __post_init__(self) -> None:
        self.archived = ArchivedTimes(self.storage)

    def keep(self, path: str, body: bytes) -> None:
        """Remember the bytes of a completed file that was just put, so that they are not read back."""
        self._put = path, body

    def was_adopted(self, log: Log) -> bool:
        """Return whether slot 0 was created by an adoption; it is read at most once."""
        if log.table_id not in self._adopted:
            first: Entry | None = log.properties if log.properties_slot == 0 else read_slot(self.storage, 0)
            self._adopted[log.table_id] = first is None or first.decision_id.startswith(ADOPTS)
        return self._adopted[log.table_id]

    def metadata(self, timeline: Timeline, instant: Instant) -> CommitMetadata | None:
        """Read the metadata of a completed write; None when its file vanished (archived, restored).

        Raises:
            Corrupt: its bytes are not commit metadata.
        """
        path = timeline.path(instant.file_name)
        if path not in self._read:
            try:
                body = self._put[1] if path == self._put[0] else self.storage.get(path)
            except NotFound:
                return None
            self._read[path] = CommitMetadata.from_bytes(body, path)
            self._fresh.append((path, instant))
            self.reads += 1
            if len(self._read) > COMMITS_KEPT_MAX:
                for oldest in list(self._read)[: COMMITS_KEPT_MAX // 2]:
                    self._forget(oldest)
                del self._fresh[:-COMMITS_KEPT_MAX]
        return self._read[path]

    def known(self, timeline: Timeline, instant: Instant) -> CommitMetadata | None:
        """Return a completed write's metadata, if it was read before; no storage call."""
        return self._read.get(timeline.path(instant.file_name))

    def read_since(self, reads: int) -> Iterator[str]:
        """Yield the paths of remembered commits that were read after the first `reads` ones.

        Commits that were read earlier may be among them.
        """
        return islice(reversed(self._read), self.reads - reads)

    def files_named(self, timeline: Timeline, instant: Instant) -> frozenset[str]:
        """Return paths that a completed write names, if it was read before; no storage call."""
        return self._named_in(timeline.path(instant.file_name))

    def _named_in(self, path: str) -> frozenset[str]:
        if path not in self._named and path in self._read:
            self._named[path] = frozenset(named.lstrip("/") for named in self._read[path].paths)
        return self._named.get(path, frozenset())

    def writers(self) -> Mapping[str, Instant]:
        """Return data files with the writes that made and name them; some may be undone.

        Only writes whose metadata was read before are considered.
        """
        for path, instant in self._fresh:
            for named in self._named_in(path):
                if f"_{instant.time}." in named:
                    self._made[named] = instant
        self._fresh.clear()
        return self._made

    def made_beside(
        self, timeline: Timeline, present: Set[str], partitions: Set[str] | None = None
    ) -> Iterator[tuple[str, Instant]]:
        """Yield the files of completed writes that are not `present`, with their writers.

        Only writes whose metadata was read before are considered. A file's name has its writer. `partitions` None: all.
        """
        made = self.writers()
        others = made.keys() - present
        for file in sorted(f for f in others if partitions is None or f.rpartition("/")[0] in partitions):
            if (writer := made.get(file)) is None:
                continue  # its write was forgotten in this loop
            found = timeline.find(writer.time, writer.kind)
            if found is not None and found.is_completed and found.file_name == writer.file_name:
                yield file, found
            elif writer.time < timeline.start:  # archived, and its file cleaned: forgotten
                self._forget(timeline.path(writer.file_name))

    def _forget(self, path: str) -> None:
        self._read.pop(path, None)
        for named in self._named.pop(path, ()):
            made = self._made.get(named)
            if made is not None and path.endswith(f"/{made.file_name}"):
                del self._made[named]

    def is_ours_alone(self, timeline: Timeline) -> bool:
        """Return whether no other program has ever written the table, as its newest write says."""
        said = next((one for each in timeline.newest_first if (one := self.metadata(timeline, each)) is not None), None)
        pointer = Pointer.decode(said.extra) if said is not None else None
        return said is None or (pointer is not None and not pointer.shared)

    def newest_with(self, timeline: Timeline, key: str) -> CommitMetadata | None:
        """Return the write that completed last among those whose extra metadata has `key`."""
        for instant in timeline.newest_first:
            metadata = self.metadata(timeline, instant)
            if metadata is not None and key in metadata.extra:
                if key == POINTER_KEY:
                    Pointer.decode(metadata.extra, timeline.path(instant.file_name))  # here its file is known
                return metadata
        return None


@dataclass(frozen=True)
class TableState:
    """Consistent view for a decision; if the table changed since, the next slot is taken."""

    config: TableConfig
    log: Log
    timeline: Timeline

    @property
    def zone(self) -> str:
        """Time zone of the table's instants."""
        return self.log.properties.facts.timezone if self.config.is_in_local_time else "UTC"


class SlotZero(Protocol):
    """Proposer of slot 0 of a table without a commit log: `services.create.adoption`."""

    def propose(self, config: TableConfig, timeline: Timeline, commits: CommitReader) -> Properties:
        """Return the entry for slot 0; raise if the table cannot be written with the known facts."""
        ...

    def accept(self, config: TableConfig, facts: TableFacts) -> None:
        """Refuse a table whose log contradicts the caller's facts."""
        ...


@dataclass
class StateLoader:
    """Loader of the state of one table, which reads only what is new.

    A foreign writer's table has no log. Its state then contains the log that `seed` will begin, so that everything can be checked
    before the first byte is written.
    """

    storage: Storage
    commits: CommitReader
    adopter: SlotZero | None = None
    repairs: SettingsSource | None = None
    """Source that a repair trusts if the file contradicts the log; None: no repair, a contradiction is an error."""
    _log: Log | None = None
    _proposed: Properties | None = None
    _left: TableState | None = None
    _set_out: int = -1

    @property
    def known_log(self) -> Log | None:
        """Log as far as it was read; None before the first load."""
        return self._log

    def load(self) -> TableState:
        """Read settings, log and timeline.

        Raises:
            Unsupported: the table has no commit log and cannot be adopted.
            InvalidRequest: the table can be adopted, but not with the caller's facts.
            Conflict: another table is under the path now.
            Corrupt: its log was lost, or the file contradicts it.
        """
        self._left = None
        config = repaired_config(self.storage) if self.repairs == "log" else parsed_config(self.storage)
        log, timeline = self._log, None
        if log is None:
            timeline = load_timeline(self.storage, config)
            log = self._found(config, timeline)
            if log is None:
                log = self._begin(config, timeline)
        else:
            self._log = log = refresh_log(self.storage, log)
        # Log before timeline: an instant completed in between is then on the timeline, never "decided but unfinished". Where
        # no slot was found above the newest commit of the timeline, there is no such instant.
        if timeline is None or log.entries:
            timeline = load_timeline(self.storage, config)
        state = TableState(config, log, timeline)
        if self._log is not None:
            self._refuse_replaced(state)
            if self.repairs is None:
                state = self._agreeing(state)
        return state

    def _agreeing(self, state: TableState) -> TableState:
        """Return the state with settings that agree with its log; read again if they do not."""
        found = logged_config(self.storage, state.config, state.log)
        if found is state.config:
            return state
        return TableState(found, state.log, load_timeline(self.storage, found))

    def leave(self, state: TableState) -> None:
        """Keep the state after a decision of this process, so that the next write need not read it.

        It is not kept if others decided since the write began: they will probably decide again before the next write.
        """
        is_alone = state.log.head == self._set_out + 1
        self._left = state if is_alone and self._log is not None and self._log.head == state.log.head else None

    def set_out(self, state: TableState) -> None:
        """Record that a write begins from a state, and drop the state kept by the last decision.

        If this write fails, the next write reads the state.
        """
        self._left = None
        self._set_out = state.log.head
        # A session may live for weeks. Entries below the state were applied, and no running write needs them; entries above
        # it are those against which this write will be validated.
        if self._log is not None and len(self._log.entries) > ENTRIES_KEPT_MAX:
            self._log = self._log.newest(ENTRIES_KEPT_MAX // 4 + self._log.head - state.log.head)

    def resume(self) -> TableState:
        """Return the state from which a write may begin, kept or read.

        A kept state is valid only if the log has no newer slot, which the write has to check (`has_left`). It lacks instants that
        others put on the timeline without a slot since. That is safe: checks of pending instants only save work, and writes that
        Apache Hudi completed are validated under the lock.
        """
        return self._left or self.load()

    def has_left(self, state: TableState) -> bool:
        """Return whether a state was not read, but kept from a decision of this process."""
        return state is self._left

    @property
    def probed_head(self) -> int:
        """Number of the newest slot that was read so far; -1 before the first."""
        return self._log.head if self._log is not None else -1

    def probe(self) -> Log:
        """Read the slots above the log's known head, and nothing else.

        Raises:
            Internal: nothing was loaded yet.
        """
        if self._log is None:
            raise Internal("the log was probed before the state was loaded", table=self.storage.uri)
        self._log = refresh_log(self.storage, self._log)
        return self._log

    def learn(self, slot: int, entry: Entry) -> None:
        """Add the entry that a claim found in a slot, so that the slot is not read again."""
        if self._log is not None and slot == self._log.head + 1:
            self._log = extended(self._log, [entry])

    def reload(self, state: TableState) -> TableState:
        """Read log and timeline again, in this order; settings stay.

        This is enough to apply decided entries; a decision needs the settings that `load` reads.
        """
        if self._log is None:
            return self.load()
        return self.relist(TableState(state.config, self.probe(), state.timeline))

    def relist(self, state: TableState) -> TableState:
        """Read the timeline again, for a log that was read before."""
        return replace(self.with_log(state), timeline=load_timeline(self.storage, state.config))

    def with_log(self, state: TableState) -> TableState:
        """Return a state with the log as far as it was read; no storage call."""
        return state if self._log is None else replace(state, log=self._log)

    def seed(self, proposed: Properties | None = None) -> None:
        """Begin the proposed log of a foreign writer's table, or read a log begun concurrently.

        This precedes every other write. Adoption writes nothing but slot 0.

        Raises:
            InvalidRequest: the table was adopted with other facts.
            OutcomeUnknown: adopted or not; the same call settles it.
        """
        self._proposed = proposed or self._proposed
        if self._log is not None:
            return
        if self._proposed is None:
            self.load()
        if self._log is None and (entry := self._proposed) is not None:
            claim(self.storage, slot_path(0), encode_entry(entry), entry.decision_id, decision_id_of)
            self.load()

    def propose(self, config: TableConfig, timeline: Timeline) -> Properties:
        """Return the entry for slot 0 of a table that has no commit log.

        Raises:
            Unsupported: the table cannot be adopted, or this loader has no adopter.
            InvalidRequest: the table can be adopted, but not with the caller's facts.
        """
        if self.adopter is None:
            raise Unsupported(
                "this table was not made by hudi-ops and was not adopted yet",
                table=config.name,
                expected="a commit log under .hoodie/.commit_log",
                found="none",
                next_step="run `hudi-ops adopt`",
            )
        return self.adopter.propose(config, timeline, self.commits)

    def find(self, config: TableConfig) -> Log | None:
        """Return the table's log; None for a foreign writer's table that was not adopted yet.

        Raises:
            InvalidRequest: the log contradicts the caller's facts.
            Corrupt: the log was lost.
        """
        return self._log or self._found(config, load_timeline(self.storage, config))

    def _found(self, config: TableConfig, timeline: Timeline) -> Log | None:
        pointer = self._pointer(timeline)
        log = open_log(self.storage, pointer)
        if log is None and pointer is not None:
            raise Corrupt(
                "the commit log that the table's commits name does not exist",
                table=config.name,
                expected=slot_path(pointer.properties_slot),
                found="no such slot",
                next_step="restore .hoodie/.commit_log from a copy of the table: without it the cancelled instants are unknown",
            )
        if log is not None and self.adopter is not None:
            self.adopter.accept(config, log.properties.facts)
        self._log = log
        return log

    def _begin(self, config: TableConfig, timeline: Timeline) -> Log:
        self._proposed = self._proposed or self.propose(config, timeline)
        return Log(self._proposed.table_id, base=0, entries=(), properties_slot=0, properties=self._proposed)

    def _refuse_replaced(self, state: TableState) -> None:
        pointer = self._pointer(state.timeline)
        found = pointer.table_id if pointer is not None else self._id_on_storage(state.log)
        if found != state.log.table_id:
            self._log = self._proposed = None
            raise Conflict(
                "the table was dropped and created again under this path",
                table=state.config.name,
                expected=f"table id {state.log.table_id}",
                found=found or "no commit log",
                next_step="run the same call again: it starts from the new table",
            )

    def _id_on_storage(self, log: Log) -> str:
        # No commit on the timeline has a pointer: ours are archived, or there is none yet, or a foreign writer created a table of
        # its own here and the loaded log belongs to a deleted table.
        entry = read_slot(self.storage, log.properties_slot)
        return entry.table_id if entry is not None else ""

    def _pointer(self, timeline: Timeline) -> Pointer | None:
        newest = self.commits.newest_with(timeline, POINTER_KEY)
        return Pointer.decode(newest.extra) if newest is not None else None
