"""Make, list and delete savepoints (docs/protocol §21).

A savepoint and a clean's plan are both decided in slots: the clean plans around the savepoint, or the savepoint is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from hudi_ops.commit.checks import completed_write, refuse_pending_restore
from hudi_ops.commit.owned.kinds import Reason
from hudi_ops.commit.owned.remove import remove_paths
from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.session import Session, best_effort
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.errors import Busy, Conflict, InvalidRequest
from hudi_ops.files.names import data_path
from hudi_ops.metadata.reader.listing import open_listing
from hudi_ops.metadata.reader.table import MetadataTable
from hudi_ops.read.prune import with_metadata
from hudi_ops.services.base.result import Result
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.plan_bytes import encode_savepoint
from hudi_ops.timeline.content.plans import (
    CleanPlan,
    CleanResult,
    FilesByPartition,
    Savepoint as SavepointFile,
    read_plan,
    read_result,
)
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import SAVEPOINT_SUFFIX
from hudi_ops.timeline.log.entries import Entry, Savepoint
from hudi_ops.timeline.log.reserve import newest_known
from hudi_ops.timeline.names import WRITE_ACTIONS
from hudi_ops.timeline.since import Since
from hudi_ops.timeline.state import TableState
from hudi_ops.view.moment import Moment

TRIES_MAX = 3
"""Number of times that the files are listed while other writes below the savepoint complete."""
_LATER = "choose a later write; `hudi-ops timeline TABLE` shows which instants the cleans retained"


@dataclass(frozen=True)
class SavepointResult(Result):
    """A savepoint: its write, completion time and files; `note` says what was done."""

    table: str
    instant: str
    completion_time: str
    files: int
    bytes: int | None = None
    comments: str = ""
    user: str = ""
    note: str = ""


@dataclass
class _Cleans:
    """Plans and results of the table's cleans, read once: under the lock only new ones."""

    session: Session
    _read: dict[Instant, CleanPlan | CleanResult | None] = field(default_factory=dict)

    def of(self, timeline: Timeline) -> Mapping[Instant, CleanPlan | CleanResult | None]:
        """Return the content of each clean on the timeline, pending ones included."""
        cleans = [one for one in timeline if one.kind == "clean"]
        for one in cleans:
            if one not in self._read:
                storage = self.session.ctx.storage
                said = read_result(storage, timeline, one) if one.is_completed else read_plan(storage, timeline, one)
                self._read[one] = said if isinstance(said, CleanPlan | CleanResult) else None
        return {one: self._read[one] for one in cleans}


def create_savepoint(
    session: Session, instant: str | None = None, *, comments: str = "", user: str = ""
) -> SavepointResult:
    """Protect a completed write, by default the newest, until its savepoint is deleted.

    Cleans keep the files that a read as of this instant needs, archiving stops before it, and the table can be restored to it. If
    the savepoint exists already, nothing changes.

    Raises:
        InvalidRequest: no completed write has this instant, it is archived, or a clean removed or will remove a file that it needs.
        Busy: a write requested earlier is pending, a restore is pending, or the lock was not free in time.
        Conflict: other writes below the instant completed each time that the files were listed.
        Unsupported: the table cannot be written.
        OutcomeUnknown: storage did not say whether it was decided; the next write settles that.
    """
    refuse_unwritable(session.loader.load().config)
    recover(session)
    session.memory.is_clean = False
    for _ in range(TRIES_MAX - 1):
        with suppress(Conflict):
            return _create(session, instant, comments, user)
    return _create(session, instant, comments, user)


def _create(session: Session, instant: str | None, comments: str, user: str) -> SavepointResult:
    begun = session.loader.load()
    name = begun.config.name
    target = _target(begun, instant)
    if (before := begun.timeline.find(target.time, "savepoint")) is not None and before.is_completed:
        return _described(session, begun, before, note="this savepoint exists already")
    cleans = _Cleans(session)
    refuse_cleaned(begun, target.time, cleans.of(begun.timeline), {})
    _refuse_pending_below(begun, target.time)
    files, size = files_as_of(session, begun, target.time)
    refuse_cleaned(begun, target.time, cleans.of(begun.timeline), files)
    body = encode_savepoint(SavepointFile(user, session.ctx.clock.now_ms(), comments, files))
    decision_id = f"savepoint {target.time} {session.ctx.ids.new_id()}"
    existing: list[Instant] = []

    def prepare(state: TableState, slot: int) -> Entry | None:
        refuse_gone(state, target)
        if (other := state.timeline.find(target.time, "savepoint")) is not None and other.is_completed:
            existing.append(other)
            return None
        _refuse_pending_below(state, target.time)
        refuse_cleaned(state, target.time, cleans.of(state.timeline), files)
        _refuse_changed(begun, state, target.time)
        return Savepoint(
            **session.entry(state, decision_id),
            instant=target.time,
            is_made=True,
            completion_time=session.next_time(newest_known(state.timeline, state.log), state),
            payload=session.put_payload(_payloads_of(target.time), slot, body),
        )

    decided = session.decide(prepare, f"make the savepoint of {target.time}")
    session.memory.is_clean = True
    session.drop_lost_payloads(_payloads_of(target.time), decided, alone=True)
    if decided is None:
        return _described(session, session.loader.load(), existing[-1], note="another process made this savepoint")
    completion = decided.entry.completion_time if isinstance(decided.entry, Savepoint) else ""
    for path in getattr(decided.entry, "notes", ()):
        with best_effort(target.time):
            # From now on its absence tells that the savepoint was made.
            remove_paths(session.ctx.storage, Reason.COMPLETED, [path])
    count = sum(map(len, files.values()))
    return SavepointResult(name, target.time, completion, count, size, comments, user, "made")


def list_savepoints(session: Session) -> list[SavepointResult]:
    """Return the savepoints of the table, oldest first, those of Apache Hudi included.

    Raises:
        Corrupt: a savepoint cannot be read.
    """
    state = session.loader.load()
    return [_described(session, state, one) for one in state.timeline.savepoints]


def delete_savepoint(session: Session, instant: str) -> SavepointResult:
    """Delete a savepoint, ours or Apache Hudi's; the write stays.

    Later cleans may remove its files.

    Raises:
        InvalidRequest: there is no savepoint of this instant.
        Busy: a restore is pending, or the lock was not free in time.
        Unsupported: the table cannot be written.
        OutcomeUnknown: storage did not say whether it was decided; the next write settles that.
    """
    refuse_unwritable(session.loader.load().config)
    recover(session)
    session.memory.is_clean = False
    begun = session.loader.load()
    described = _described(session, begun, savepoint_at(begun, instant), note="deleted")
    decision_id = f"savepoint {instant} {session.ctx.ids.new_id()}"

    def prepare(state: TableState, slot: int) -> Entry | None:
        found = state.timeline.find(instant, "savepoint")
        if found is None or not found.is_completed:
            return None  # another process deleted it
        refuse_pending_restore(state, instant)
        fields = session.entry(state, decision_id)
        return Savepoint(**fields, instant=instant, is_made=False, completion_time=found.completion_time)

    session.decide(prepare, f"delete the savepoint of {instant}")
    session.memory.is_clean = True
    return described


def savepoint_at(state: TableState, instant: str) -> Instant:
    """Return the completed savepoint of an instant.

    Raises:
        InvalidRequest: there is none.
    """
    found = state.timeline.find(instant, "savepoint")
    if found is None or not found.is_completed:
        there = ", ".join(one.time for one in state.timeline.savepoints) or "none"
        raise InvalidRequest(
            f"the table has no savepoint of {instant}",
            table=state.config.name,
            instant=instant,
            expected="the instant of a savepoint",
            found=f"savepoints: {there}",
            next_step="copy an instant from `hudi-ops savepoint list TABLE`",
        )
    return found


def files_as_of(session: Session, state: TableState, instant: str) -> tuple[FilesByPartition, int]:
    """Return the files that a read as of an instant needs: names by partition, bytes.

    Raises:
        InvalidRequest: a clean removed one of them.
        Corrupt: one of them is lost.
    """
    storage, config, engine = session.ctx.storage, state.config, session.ctx.local_engine
    moment = Moment(storage, config, state.timeline, session.commits, instant, is_whole=True)

    def seen(metadata: MetadataTable | None) -> tuple[FilesByPartition, int]:
        listing = open_listing(storage, config, metadata, engine=engine)
        names: dict[str, list[str]] = {}
        size = 0
        for one in moment.slices(listing.walk().files, listing.source):
            files = [*((one.base,) if one.base is not None else ()), *one.logs]
            names.setdefault(one.partition_path, []).extend(file.path.rpartition("/")[2] for file in files)
            size += one.bytes_in
        return {path: tuple(sorted(found)) for path, found in sorted(names.items())}, size

    return with_metadata(storage, config, state.timeline, "auto", seen, engine, session.commits.archived)


def refuse_cleaned(
    state: TableState,
    instant: str,
    cleans: Mapping[Instant, CleanPlan | CleanResult | None],
    files: FilesByPartition,
) -> None:
    """Refuse a savepoint of which a clean removed, or will remove, a file.

    After a restore, the newest write may lie below the earliest retained instant of a clean. It is accepted: no clean removes files
    that it needs.

    Raises:
        InvalidRequest: names the clean.
    """
    is_newest = instant == state.timeline.completed_writes[-1].time
    for clean, said in cleans.items():
        if said is None:
            continue
        if instant < said.earliest_retained and not is_newest:
            raise InvalidRequest(
                f"clean {clean.time} retains the instants from {said.earliest_retained} on: this write is older",
                table=state.config.name,
                instant=instant,
                expected=f"a write requested at or after {said.earliest_retained}",
                found=f"clean {clean.time}, {'completed' if clean.is_completed else 'pending'}",
                next_step=_LATER,
                clean=clean.time,
            )
        named = said.files if isinstance(said, CleanPlan) else said.named
        shared = next(
            (data_path(path, name) for path in files for name in files[path] if name in named.get(path, ())), ""
        )
        if shared:
            raise InvalidRequest(
                f"clean {clean.time} removes {shared}, which this write needs",
                table=state.config.name,
                instant=instant,
                expected="a write whose files no clean removes",
                found=f"clean {clean.time}, {'completed' if clean.is_completed else 'pending'}",
                next_step=_LATER,
                clean=clean.time,
            )


def refuse_gone(state: TableState, target: Instant) -> None:
    """Refuse a write that was archived or undone since it was chosen.

    Raises:
        Conflict: it is not on the timeline any more.
    """
    found = state.timeline.find(target.time)
    if found != target or target.time <= state.log.boundary:
        raise Conflict(
            f"{target.action} {target.time} was archived or undone meanwhile",
            table=state.config.name,
            instant=target.time,
            next_step="run the same call again with an instant of `hudi-ops timeline TABLE`",
        )


def _target(state: TableState, instant: str | None) -> Instant:
    writes = state.timeline.completed_writes
    if instant is None:
        if not writes:
            raise InvalidRequest(
                "the table has no completed write", table=state.config.name, next_step="write rows first"
            )
        return writes[-1]
    return completed_write(state, instant)


def _refuse_pending_below(state: TableState, instant: str) -> None:
    """Refuse while an earlier write may still complete, or the table is restored.

    Raises:
        Busy: names it.
    """
    refuse_pending_restore(state, instant)
    for one in state.timeline.pending:
        if one.action in WRITE_ACTIONS and one.time < instant:
            raise Busy(
                f"{one.action} {one.time} was requested before this write and is pending: reads as of {instant} may get its rows",
                table=state.config.name,
                instant=instant,
                expected=f"no pending write below {instant}",
                found=str(one),
                next_step="wait until it has completed; if its writer died, run `hudi-ops recover TABLE` first",
                other=one.time,
            )


def _refuse_changed(begun: TableState, state: TableState, instant: str) -> None:
    """Refuse if the files that a read as of the instant needs changed since they were listed.

    Raises:
        Conflict: a write below it completed, or was undone.
    """
    since = Since(begun, state)
    for one in [*since.completed, *since.undone]:
        if one.time <= instant:
            raise Conflict(
                f"{one.action} {one.time} completed or was undone while the files of the savepoint were listed",
                table=state.config.name,
                instant=instant,
                next_step="run the same call again",
                other=one.time,
            )


def _described(session: Session, state: TableState, found: Instant, note: str = "") -> SavepointResult:
    said = read_result(session.ctx.storage, state.timeline, found)
    if not isinstance(said, SavepointFile):
        raise Conflict(
            f"the savepoint of {found.time} was deleted meanwhile",
            table=state.config.name,
            instant=found.time,
            next_step="run the same call again",
        )
    count = sum(map(len, said.files.values()))
    table, completed = state.config.name, found.completion_time
    return SavepointResult(table, found.time, completed, count, None, said.comments, said.made_by, note)


def _payloads_of(instant: str) -> str:
    """Return the name of a savepoint's payload folder, which is not that of its write."""
    return f"{instant}{SAVEPOINT_SUFFIX}"
