"""Delete the writes that a restore undoes (docs/protocol §23).

For each write, the completed file is deleted first, then its data files, inflight and requested file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hudi_ops.commit.session import Session
from hudi_ops.commit.undo.rollback_files import absolute_path, delete_files, delete_own_notes, delete_pending
from hudi_ops.engine.progress import Tally
from hudi_ops.index.ring_files import delete_rings_of, has_rings
from hudi_ops.services.restore.survey import Survey
from hudi_ops.timeline.content.plans import RestorePlan
from hudi_ops.timeline.content.restore_bytes import Undone
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import mark_cancelled, refuse_uncancelled
from hudi_ops.timeline.names import State
from hudi_ops.timeline.state import TableState


def targets_left(session: Session, state: TableState, plan: RestorePlan) -> list[Instant]:
    """Return the writes of a restore's plan, newest completion first.

    Those that an earlier executor took off the timeline are among them: its death may have left files.
    """
    action = state.config.completed_write_action
    return [state.timeline.find(time) or Instant(time, action, State.REQUESTED) for time in plan.targets]


def delete_undone(
    session: Session,
    state: TableState,
    targets: Sequence[Instant],
    files: Survey,
    check: Callable[[], None],
    tally: Tally,
) -> list[Undone]:
    """Delete the writes one after another; return the deleted files of each.

    A write's completed file goes first, so that readers take its data files for uncommitted ones. `check` may raise.
    """
    storage, done = session.ctx.storage, list[Undone]()
    has_ring, deleted = has_rings(storage), set[str]()
    for target in targets:
        check()
        mark_cancelled(storage, target.time, refuse_uncancelled(storage, state, target.time))
        if target.is_completed:
            storage.delete(state.timeline.path(target.file_name))
        if has_ring:
            delete_rings_of(storage, target.time)
        by_partition: dict[str, list[str]] = {}
        for file in files.by_writer.get(target.time, ()):
            if file.path in deleted:
                continue
            deleted.add(file.path)
            delete_files(storage, [file.path], foreign=True, check=check)
            tally.add(file.size_bytes)
            by_partition.setdefault(file.partition_path, []).append(absolute_path(storage, file.path))
        delete_own_notes(session, target.time)
        delete_pending(session, state.timeline.folder, target)
        done.append(Undone(target, by_partition))
    return done
