"""Repair hash rings that lead to no visible file group (docs/protocol §27)."""

from __future__ import annotations

from dataclasses import replace

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.index.ring_files import RINGS_FOLDER, RingReader, committed_path, delete_rings, ring_versions
from hudi_ops.services.repair.owners import Left
from hudi_ops.services.write.operations import DELETE_PARTITION, TRUNCATE
from hudi_ops.services.write.remove import remove
from hudi_ops.storage.claim import ensure
from hudi_ops.timeline.content.undone import undone_by


def delete_ring(session: Session, where: str, abandoned: bool) -> str:
    """Delete the files of a ring version that does not count; return what was done.

    Raises:
        Left: the version counts, or its instant is pending.
    """
    path, instant = _version_at(where)
    storage = session.ctx.storage
    with hold_lock(session.ctx, f"delete the hash ring of {instant}"):
        state = session.loader.load()
        if state.timeline.find(instant) is not None:
            raise Left(f"{instant} is on the timeline")
        undo = undone_by(storage, state.config, state.timeline, instant)
        reader = RingReader.of(storage, state, session.commits)
        versions = ring_versions(storage, path)
        if not undo and reader.counts(instant, versions):
            raise Left(f"the ring of {instant} counts")
        others = replace(
            versions,
            rings=tuple(one for one in versions.rings if one != instant),
            committed=versions.committed - {instant},
        )
        if instant in versions.committed and reader.current(others) is None:
            raise Left(
                "no other ring of the partition counts: restore an older ring file from a copy of the table first"
            )
        delete_rings(storage, [path], instant)
    return f"deleted the ring files of {instant} in partition {path or '.'}"


def seal_ring(session: Session, where: str, abandoned: bool) -> str:
    """Put the `.commit` file of a ring version that counts; return what was done.

    Raises:
        Left: the version does not count.
    """
    path, instant = _version_at(where)
    storage = session.ctx.storage
    with hold_lock(session.ctx, f"seal the hash ring of {instant}"):
        reader = RingReader.of(storage, session.loader.load(), session.commits)
        if reader.current(ring_versions(storage, path)) != instant:
            raise Left(f"the ring of {instant} does not count")
        ensure(storage, committed_path(path, instant), b"")
    return f"put the `.commit` file of ring {instant} in partition {path or '.'}"


def _version_at(where: str) -> tuple[str, str]:
    """Return partition path and instant of a ring file."""
    folder, _, name = where.rpartition("/")
    return folder.removeprefix(RINGS_FOLDER).removeprefix("/"), name.partition(".")[0]


def renew_ring(session: Session, where: str, abandoned: bool) -> str:
    """Renew the ring of an empty partition; return what was done.

    Raises:
        Left: the partition has rows, or its ring leads to groups that are not replaced.
    """
    path = "" if where == "." else where
    operation, paths = (DELETE_PARTITION, [path]) if path else (TRUNCATE, [])
    done = remove(session, operation, paths, session.ctx.clock.monotonic_s(), is_empty=True)
    if done.instant is None:
        raise Left(f"nothing replaced the groups of partition {where}")
    return f"{done.instant} renewed the hash ring of partition {where}"
