"""Repair hash rings that lead to no visible file group (docs/protocol.md §27)."""

from __future__ import annotations

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.index.ring_files import RINGS_FOLDER, RingReader, delete_rings, ring_versions
from hudi_ops.services.repair.owners import Left
from hudi_ops.services.write.operations import DELETE_PARTITION
from hudi_ops.services.write.remove import remove
from hudi_ops.timeline.content.undone import undone_by


def delete_ring(session: Session, where: str, abandoned: bool) -> str:
    """Delete the files of a ring version that does not count; return what was done.

    Raises:
        Left: the version counts, or its instant is pending.
    """
    folder, _, name = where.rpartition("/")
    path, instant = folder.removeprefix(RINGS_FOLDER).removeprefix("/"), name.partition(".")[0]
    storage = session.ctx.storage
    with hold_lock(session.ctx, f"delete the hash ring of {instant}"):
        state = session.loader.load()
        if state.timeline.find(instant) is not None:
            raise Left(f"{instant} is on the timeline")
        undo = undone_by(storage, state.config, state.timeline, instant)
        reader = RingReader.of(storage, state, session.commits)
        if not undo and reader.counts(instant, ring_versions(storage, path)):
            raise Left(f"the ring of {instant} counts")
        delete_rings(storage, [path], instant)
    return f"deleted the ring files of {instant} in partition {path or '.'}"


def renew_ring(session: Session, where: str, abandoned: bool) -> str:
    """Renew the ring of an empty partition; return what was done.

    Raises:
        Left: the partition has rows, or its ring leads to groups that are not replaced.
    """
    path = "" if where == "." else where
    done = remove(session, DELETE_PARTITION, [path], session.ctx.clock.monotonic_s(), is_empty=True)
    if done.instant is None:
        raise Left(f"nothing replaced the groups of partition {where}")
    return f"{done.instant} renewed the hash ring of partition {where}"
