"""Find indexes that readers cannot use: not built, behind, or dropped by another program.

A writer of Apache Hudi drops the indexes that its options do not name. It deletes their files before it writes, so its write is the
first one without records of the index. This library does not build such an index again by itself: that writer would drop it again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.foreign.foreign_instants import has_foreign_executor
from hudi_ops.concurrency.lease.lease import Lease
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.services.indexing.choose import pending_builds
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.builds.announced import announcement_of, built_indexes
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import POINTER_KEY
from hudi_ops.timeline.log.entries import Properties
from hudi_ops.timeline.state import TableState

ENTRIES_READ = 4
"""Most PROPERTIES entries that `unready_indexes` looks at, the newest ones: a build makes two, a drop one."""


@dataclass(frozen=True)
class UnreadyIndex:
    """An index that readers cannot use.

    Attributes:
        name: its partition of the metadata table.
        why: `announced`, `behind`, `dropped` (by another program), or `being built` (a live process executes its plan).
        executor: the process that builds it; empty: none does.
        command: words of the command that makes it usable, with `TABLE` for the table; empty while it is built.
    """

    name: str
    why: str
    executor: str
    command: tuple[str, ...]


def unready_indexes(
    session: Session, state: TableState, behind: Collection[str], lease_of: Callable[[str], Lease | None]
) -> tuple[UnreadyIndex, ...]:
    """Return the indexes that readers cannot use.

    An index that another program dropped is found if it was built among the newest `ENTRIES_READ` changes of the settings.

    Args:
        session: of this process.
        state: of the table.
        behind: completed writes that the metadata table lacks; readers then ignore all its indexes.
        lease_of: returns the lease of an instant.

    Raises:
        Corrupt: a plan or an entry of the log cannot be read.
    """
    config, storage = state.config, session.ctx.storage
    announced = sorted({*config.metadata_partitions_inflight} - {*config.metadata_partitions})
    absent = {*map(str, MetadataPartition)} - {*config.all_metadata_partitions}
    gone = built_indexes(storage, state.log, absent, ENTRIES_READ) if absent else {}
    plans = dict(_plans_of(session, state)) if announced or gone else {}
    rebuild, run = ("index", "TABLE", "run", "--rebuild"), ("index", "TABLE", "run")
    lacking = sorted(config.metadata_partitions) if behind else ()
    missing = tuple(sorted(gone.keys() - plans.keys()))
    return (
        *(UnreadyIndex(name, "behind", "", rebuild) for name in lacking),
        *(_announced(session, state, name, plans.get(name), lease_of) for name in announced),
        *(UnreadyIndex(name, "dropped", "", (*run, *missing)) for name in missing),
    )


def unready_count(found: Iterable[UnreadyIndex]) -> int:
    """Return the number of indexes that readers cannot use and that no process builds now."""
    return sum(one.why != "being built" for one in found)


def _plans_of(session: Session, state: TableState) -> Iterator[tuple[str, Instant]]:
    for plan, names in pending_builds(session, state):
        yield from ((name, plan) for name in names)


def _announced(
    session: Session, state: TableState, name: str, plan: Instant | None, lease_of: Callable[[str], Lease | None]
) -> UnreadyIndex:
    if plan is None:
        entry = announcement_of(session.ctx.storage, state.log, name, ENTRIES_READ)
        # The build of ours has ended, and its process died before it listed the index; or another program announced it.
        is_ours = entry is not None and bool(entry.plan)
        again = ("index", "TABLE", "run", name, "--rebuild")
        return UnreadyIndex(name, "announced", "", ("recover", "TABLE") if is_ours else again)
    lease = lease_of(plan.time)
    if lease is not None and not lease.is_dead(session.ctx.clock):
        return UnreadyIndex(name, "being built", str(lease.owner or "a foreign program"), ())
    is_foreign_run = has_foreign_executor(plan, lease)
    execute = ("index", "TABLE", "execute", "--instant", plan.time)
    return UnreadyIndex(name, "announced", "", (*execute, "--abandoned") if is_foreign_run else execute)


def dropped_indexes(session: Session, state: TableState, names: Collection[str]) -> dict[str, str]:
    """Return the indexes that another program dropped, and a sentence that names its write.

    PROPERTIES entries are read from the newest down to those that concern the indexes, and for a dropped index the commits of
    foreign writers since its build.

    Args:
        session: of this process.
        state: whose settings do not name `names`.
        names: indexes to look for.

    Raises:
        Corrupt: a commit of the metadata table cannot be read.
        NotFound: it was archived at this moment.
    """
    built = built_indexes(session.ctx.storage, state.log, names) if names else {}
    return {name: _sentence(_first_without(session, state, name, entry)) for name, entry in built.items()}


def _sentence(write: Instant | None) -> str:
    if write is None:
        return "another program dropped it"
    return f"another program dropped it: {write.action} {write.time} is its first write without the index"


def _first_without(session: Session, state: TableState, name: str, built: Properties) -> Instant | None:
    """Return the first foreign write without records of an index; None: the timeline has none.

    Only writes that were requested after the build completed are judged. Earlier ones may not have known the index.
    """
    own = load_metadata_timeline(session.ctx.storage)
    plan = state.timeline.find(built.plan, "indexing") if built.plan else None
    since = (plan.completion_time if plan is not None else "") or built.built_at
    for write in sorted(state.timeline.completed_writes, key=lambda one: one.completion_time):
        if write.time <= since or write.time in state.log.instants:
            continue
        said = session.commits.metadata(state.timeline, write)
        is_ours = said is not None and POINTER_KEY in said.extra
        if not is_ours and name not in _partitions_written(session, own, write):
            return write
    return None


def _partitions_written(session: Session, own: Timeline, write: Instant) -> frozenset[str]:
    """Return the partitions of the metadata table to which a write added records."""
    delta = own.find(write.time, "deltacommit")
    if delta is None or not delta.is_completed:
        return frozenset()
    path = own.path(delta.file_name)
    return frozenset(
        stat.partition_path for stat in CommitMetadata.from_bytes(session.ctx.storage.get(path), path).stats
    )
