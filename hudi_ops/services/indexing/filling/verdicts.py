"""Judge what completions mean for announced partitions, and choose those to add next."""

from __future__ import annotations

from collections.abc import Sequence, Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile

from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.errors import NotFound
from hudi_ops.metadata.records.partitions import TIMELINE_FOLDER
from hudi_ops.metadata.writer.compaction import compactions
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import instant_of_ms


@dataclass(frozen=True)
class Verdict:
    """What a completion or a pending instant means for the new partitions.

    `verdict` is `carried`, `missing`, `applied`, `undone`, `out of order` or `waiting`.
    """

    instant: str
    action: str
    verdict: str
    why: str = ""
    has_records: bool = False


class Compactions:
    """Compactions of a metadata table that merged announced partitions.

    Those of this library leave such partitions out.

    A delta of catch-up that completes after such a compaction lies above its base file, and so above records of writers that began
    later than the completions that the delta adds. So the next delta is put above the compaction, and completions that the
    compaction merged are out of order.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._partitions: dict[str, set[str]] = {}

    def newest(self, own: Timeline, names: AbstractSet[str]) -> str:
        """Return the time of the newest compaction that merged any of the partitions.

        The result is empty if there is none. Each compaction is read once.
        """
        for time in compactions(own) - self._partitions.keys():
            found = own.find(time, "commit")
            self._partitions[time] = set()
            with suppress(NotFound):  # archived since the timeline was read: older than the build
                self._partitions[time] = partitions_of(self._storage, found) if found is not None else set()
        return max((time for time, merged in self._partitions.items() if merged & names), default="")


def partitions_of(storage: Storage, instant: Instant) -> set[str]:
    """Return the partitions in which an instant of the metadata table has files."""
    path = f"{TIMELINE_FOLDER}/{instant.file_name}"
    return {stat.partition_path for stat in CommitMetadata.from_bytes(storage.get(path), path).stats}


def wrote(storage: Storage, own: Timeline | None, one: Instant) -> set[str]:
    """Return the partitions in which the metadata delta of an instant has files.

    Apache Hudi may carry one partition and not another: it may have made `files` anew without knowing of the others. A writer that
    had nothing to put into a partition counts as one that does not carry it; its changes are added once more.
    """
    found = own.find(one.time, "deltacommit") if own is not None else None
    return partitions_of(storage, found) if found is not None and found.is_completed else set()


def until_words(storage: Storage, writer: Instant, zone: str) -> str:
    """Return until when a foreign writer counts as alive, in words."""
    lease = read_lease(storage, writer.time)
    if lease is None:
        return "it has no heartbeat: the build waits until its instant has ended"
    return f"its heartbeat counts until {instant_of_ms(lease.expires_ms, zone)}"


def is_rolled_back(own: Timeline, instant: str) -> bool:
    """Return whether another program rolled back a pending instant, or has begun any rollback.

    Then the log files of the instant in the metadata table are gone, or may be deleted at any moment. Apache Hudi 1.0.2 rolls back
    pending instants before each write (docs/format §14.10).
    """
    return own.find(instant) is None or any(one.kind == "rollback" and not one.is_completed for one in own)


def first_run(new: Sequence[Instant], judged: Sequence[Verdict]) -> tuple[list[Instant], list[Instant], list[Instant]]:
    """Return the leading completions that are carried, the next ones to add, and the rest.

    Each list is in order of completion. A completion that lacks the partitions is never added together with an earlier one that has
    records in them. Otherwise a key that the earlier one inserted and the later one deleted would be in neither snapshot, and stay
    in the index.

    Args:
        new: completions since the snapshot, in order of completion.
        judged: their verdicts. If one is `undone`, none counts as carried, since the snapshot names files that are gone.
    """
    verdicts = {one.instant: one for one in judged}
    is_undone = any(one.verdict == "undone" for one in judged)
    lead = [] if is_undone else list(takewhile(lambda one: verdicts[one.time].verdict == "carried", new))
    run: list[Instant] = []
    for one in new[len(lead) :]:
        said = verdicts[one.time]
        is_carried = said.verdict == "carried" and not is_undone
        follows_records = said.verdict == "missing" and any(verdicts[before.time].has_records for before in run)
        if is_carried or follows_records:
            break
        run.append(one)
    return lead, run, list(new[len(lead) + len(run) :])
