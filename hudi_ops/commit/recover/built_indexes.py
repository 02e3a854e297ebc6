"""List announced partitions of the metadata table whose build has completed.

The COMPLETE of a build says that its partitions are complete. Any process that finds them announced but not listed lists them: the
builder, or the next writer after its death.

Source: docs/protocol §18.
"""

from __future__ import annotations

from hudi_ops.commit.checks import was_completed
from hudi_ops.commit.session import Session, best_effort
from hudi_ops.timeline.builds.announced import announcement_of
from hudi_ops.timeline.builds.checkpoint import drop_checkpoints, planned_builds
from hudi_ops.timeline.log.cancelled import fate_of
from hudi_ops.timeline.log.entries import Complete, Entry, Properties
from hudi_ops.timeline.state import TableState


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
