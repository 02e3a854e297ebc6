"""List the partitions of completed index builds, and remove the leftovers of cancelled ones.

The COMPLETE of a build says that its partitions are complete. Any process that finds them announced but not listed lists them: the
builder, or the next writer after its death.

Of a cancelled build the partitions' names are removed from the properties first, so that no writer adds to a folder that will be
deleted; then the folders, the instants and the definitions of the build. A partition that readers use is never removed.

Source: RFC-45; docs/protocol §18.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

from hudi_ops.commit.checks import was_completed
from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.owned.kinds import Part, Reason, Removal
from hudi_ops.commit.owned.remove import remove
from hudi_ops.commit.session import Session, best_effort
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.config.table import INDEX_DEFINITIONS_PATH
from hudi_ops.errors import Busy, Corrupt
from hudi_ops.metadata.index_definitions import encode_index_definitions
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.metadata.records.partitions import FOLDER, is_secondary
from hudi_ops.metadata.writer.commit import ACTION, undo_delta
from hudi_ops.timeline.builds.announced import announcement_of
from hudi_ops.timeline.builds.checkpoint import BuildCheckpoint, checkpoints_of, drop_checkpoints, planned_builds
from hudi_ops.timeline.content.plans import IndexPlan, read_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import fate_of
from hudi_ops.timeline.log.entries import Complete, Entry, Properties
from hudi_ops.timeline.names import State
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)


def remove_index_build(session: Session, state: TableState, plan: Instant) -> None:
    """Remove names, files, instants and definitions of a cancelled build; repeatable.

    Raises:
        Busy: the lock was not free in time, or was lost.
    """
    storage = session.ctx.storage
    try:
        checkpoints = checkpoints_of(storage, plan.time)
    except Corrupt as error:
        logger.warning("a checkpoint of the index build %s cannot be read: %s", plan.time, error.what)
        checkpoints = []
    names = _names(session, plan, checkpoints)
    announced = withdraw_announcement(session, plan.time, names)
    # No later build may use these instants: an executor that slept may still put files of an older snapshot at its instant.
    for instant in sorted({one.built_at for one in checkpoints} | {one.built_at for one in announced}):
        cancel_write(session, instant, f"the index build {plan.time} was removed")
    is_foreign = not checkpoints and not announced and _withdraw_foreign(session, plan, names)
    if checkpoints or announced or is_foreign or any(map(is_secondary, names)):
        _delete(session, plan, names, checkpoints, announced)
    remove(Removal(session, state, plan, Reason.BUILD_WITHDRAWN, ()), {Part.TRACES})
    for instant in sorted({time for one in checkpoints for time in one.instants}):
        session.drop_name(instant)


def withdraw_announcement(session: Session, plan: str, names: Collection[str]) -> Sequence[Properties]:
    """Take the announced partitions of a plan out of the properties; return their announcements."""
    found: list[Properties] = []

    def held(state: TableState) -> list[str]:
        found[:] = announcements(session, state, plan, names)
        mine = {name for entry in found for name in entry.announces if name in names}
        return sorted(mine & {*state.config.metadata_partitions_inflight})

    if announcements(session, session.loader.load(), plan, names):
        _withdraw(session, plan, held, lambda: found[0].decision_id)
    return found


def _withdraw_foreign(session: Session, plan: Instant, names: Collection[str]) -> bool:
    """Take the partitions of a foreign build out of the properties; return whether any was.

    Apache Hudi announces a partition in the properties alone, and forgets it there when its build dies.
    """

    def held(state: TableState) -> list[str]:
        return _held_by_foreign(session, state, plan, names)

    return bool(held(session.loader.load())) and _withdraw(session, plan.time, held)


def _withdraw(
    session: Session, plan: str, held: Callable[[TableState], list[str]], unique: Callable[[], str] = lambda: ""
) -> bool:
    """Decide to remove partitions from the properties; return whether these named any.

    Args:
        plan: instant of the plan that would have built the partitions.
        held: returns the names of the partitions in the properties; called under the lock.
        unique: returns a text that distinguishes this decision from an earlier withdrawal of the same plan.
    """
    withdrawn = False

    def prepare(state: TableState, slot: int) -> Entry | None:
        nonlocal withdrawn
        names = held(state)
        withdrawn = bool(names)
        if not names:
            return None
        return Properties(
            **session.entry(state, f"withdraw {plan} {','.join(names)} {unique()}".rstrip()),
            drops=tuple(names),
            plan=plan,
            to_build=state.log.properties.to_build,
            **state.log.properties.carried(),
        )

    session.decide(prepare, "withdraw new partitions of the metadata table")
    return withdrawn


def _held_by_foreign(session: Session, state: TableState, plan: Instant, names: Collection[str]) -> list[str]:
    """Return the inflight partitions of a plan that Apache Hudi began."""
    if State.INFLIGHT not in plan.states or state.log.takeover(plan.time) is not None:
        return []
    held = {*names} & {*state.config.metadata_partitions_inflight}
    return sorted(name for name in held if announcement_of(session.ctx.storage, state.log, name) is None)


def announcements(session: Session, state: TableState, plan: str, names: Collection[str]) -> list[Properties]:
    """Return the announcements of a plan's partitions that still stand."""
    entries = (announcement_of(session.ctx.storage, state.log, name) for name in names)
    return list({entry.decision_id: entry for entry in entries if entry is not None and entry.plan == plan}.values())


def stray_deltas(session: Session, since: str) -> list[str]:
    """Return pending instants of the metadata table, after `since`, of no write and no build.

    A catch-up that died during its decision leaves such an instant: it puts ranges at the time of its completion, so that they
    override all others.
    """
    storage = session.ctx.storage
    own = load_metadata_timeline(storage)
    # A writer puts its instant onto the data table's timeline first.
    timeline = session.loader.load().timeline
    try:
        built = {
            time for plan in planned_builds(storage) for one in checkpoints_of(storage, plan) for time in one.instants
        }
    except Corrupt:
        return []  # an instant may be that of a build whose checkpoint cannot be read
    return [
        one.time
        for one in own
        if one.kind == ACTION
        and not one.is_completed
        and one.time > since
        and one.time not in built
        and timeline.find(one.time) is None
    ]


def _names(session: Session, plan: Instant, checkpoints: Sequence[BuildCheckpoint]) -> frozenset[str]:
    names = {name for one in checkpoints for name in one.partitions}
    try:
        content = read_plan(session.ctx.storage, session.loader.load().timeline, plan)
    except Corrupt:
        content = None
    if isinstance(content, IndexPlan):
        names |= {name for name, _ in content.partitions}
    return frozenset(names)


def _delete(
    session: Session,
    plan: Instant,
    names: Collection[str],
    checkpoints: Sequence[BuildCheckpoint],
    announced: Sequence[Properties],
) -> None:
    """Delete the files of a build under the lock, while its plan is still on the timeline.

    Until the plan is gone no other build of these partitions is planned, so the files are this build's.

    Raises:
        Busy: the lock was lost.
    """
    storage = session.ctx.storage
    with hold_lock(session.ctx, f"remove the index build {plan.time}") as held:
        state = session.finish_decided()
        if state.timeline.find(plan.time, plan.action) is None:
            return
        config = load_config(storage)
        instants = {time for one in checkpoints for time in one.instants} | {entry.built_at for entry in announced}
        folders = [name for name in sorted(names) if name not in config.all_metadata_partitions]
        if not held.still_mine():
            raise Busy(
                "the table lock was lost before the files of an index build were deleted",
                table=config.name,
                instant=plan.time,
                next_step="run the same call again: readers do not use the files",
            )
        if announced:
            instants |= {*stray_deltas(session, min(entry.built_at for entry in announced))}
        deltas = undo_delta(storage, instants)
        places = [f"{FOLDER}/{name}" for name in folders] if config.all_metadata_partitions else [FOLDER]
        files = [info.path for place in places for info in storage.list(place)]
        remove(Removal(session, state, plan, Reason.BUILD_WITHDRAWN, files), {Part.CONTENT})
        # A plan of a secondary index defines it, unless a rebuild dropped it before.
        defined = {name for one in checkpoints for name in one.defined} | {*filter(is_secondary, names)}
        _forget(session, defined - {*config.all_metadata_partitions, *state.log.properties.to_build})
    logger.warning(
        "removed the index build %s of %s: %s files", plan.time, ", ".join(sorted(names)), len(deltas) + len(files)
    )


def _forget(session: Session, names: Collection[str]) -> None:
    """Remove definitions that the build added."""
    definitions = load_index_definitions(session.ctx.storage)
    kept = {name: one for name, one in definitions.items() if name not in names}
    if kept != definitions:
        session.ctx.storage.put(INDEX_DEFINITIONS_PATH, encode_index_definitions(kept))


def list_built_indexes(session: Session) -> tuple[str, ...]:
    """List the announced partitions of completed builds; return their names."""
    listed: tuple[str, ...] = ()
    found = _built(session, session.loader.load())
    if found is None:
        return ()

    def prepare(state: TableState, slot: int) -> Entry | None:
        nonlocal listed
        built = _built(session, state)
        listed = ()
        if built is None:
            return None
        announcement, listed = built
        return Properties(
            **session.entry(state, f"list {announcement.plan} {','.join(listed)} {announcement.decision_id}"),
            set=announcement.set,
            adds=listed,
            plan=announcement.plan,
            built_at=announcement.built_at,
            to_build=tuple(sorted({*state.log.properties.to_build} - {*listed})),
            **state.log.properties.carried(),
            doubled_keys=announcement.doubled_keys,
            counted_until=announcement.counted_until,
        )

    session.decide(prepare, "list new partitions of the metadata table")
    return listed


def drop_ended_checkpoints(session: Session, state: TableState) -> None:
    """Delete the checkpoints of ended builds whose executors died before they deleted them."""
    if not state.timeline.by_kind.get("indexing"):
        return
    for plan in planned_builds(session.ctx.storage):
        found = state.timeline.find(plan, "indexing")
        if found is None or found.is_completed:
            with best_effort(plan):
                drop_checkpoints(session.ctx.storage, plan)


def _built(session: Session, state: TableState) -> tuple[Properties, tuple[str, ...]] | None:
    """Return the announcement of a completed build, and its partitions that are not listed yet."""
    waiting = [
        name for name in state.config.metadata_partitions_inflight if name not in state.config.metadata_partitions
    ]
    for name in waiting:
        entry = announcement_of(session.ctx.storage, state.log, name)
        if entry is not None and entry.plan and _has_completed(session, state, entry.plan):
            return entry, tuple(one for one in entry.announces if one in waiting)
    return None


def _has_completed(session: Session, state: TableState, plan: str) -> bool:
    found = state.timeline.find(plan, "indexing")
    if found is not None:
        return found.is_completed
    fate = fate_of(session.ctx.storage, state, plan)
    return isinstance(fate[1], Complete) if fate is not None else was_completed(session, state, plan)
