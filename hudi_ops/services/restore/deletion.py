"""Delete the writes that a restore undoes (docs/protocol §23).

For each write, the completed file is deleted first, then its data files, inflight and requested file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hudi_ops.commit.owned.kinds import Reason, Removal
from hudi_ops.commit.owned.remove import remove
from hudi_ops.commit.recover.rollback_bodies import absolute_path
from hudi_ops.commit.session import Session
from hudi_ops.engine.progress import Tally
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
    done, deleted = list[Undone](), set[str]()
    for target in targets:
        check()
        mark_cancelled(session.ctx.storage, target.time, refuse_uncancelled(session.ctx.storage, state, target.time))
        own = [file for file in files.by_writer.get(target.time, ()) if file.path not in deleted]
        removal = Removal(session, state, target, Reason.RESTORED, [file.path for file in own], is_foreign=True)
        remove(removal, check=check)
        by_partition: dict[str, list[str]] = {}
        for file in own:
            deleted.add(file.path)
            tally.add(file.size_bytes)
            by_partition.setdefault(file.partition_path, []).append(absolute_path(session.ctx.storage, file.path))
        done.append(Undone(target, by_partition))
    return done
