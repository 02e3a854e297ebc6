"""Make an action's metadata table delta before the lock, and check it under the lock.

Other processes add and drop partitions of the metadata table. Under the lock one listing shows whether the partitions are still
those of the delta; if not, the lock is released and the delta is made again.

Source: docs/protocol §18.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.metadata.kinds.registry import kind_of
from hudi_ops.metadata.reader.instants import completed_beside, load_metadata_timeline
from hudi_ops.metadata.reader.later_deltas import is_ours, later_deltas, refuse_contradicted
from hudi_ops.metadata.reader.layout import Basis, basis_of
from hudi_ops.metadata.records.partitions import MetadataPartition, is_secondary
from hudi_ops.metadata.records.records import Records
from hudi_ops.metadata.writer.compaction import deltas_since_compaction
from hudi_ops.metadata.writer.delta import MetadataDelta, make_delta
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.completed import logged_digest
from hudi_ops.timeline.state import TableState


@dataclass
class DeltaMaker(ABC):
    """Maker of an attempt's metadata delta, repeated whenever the metadata table changes.

    A subclass makes the records of one kind of action.
    """

    session: Session
    attempt: Attempt
    _basis: Basis | None = field(default=None, init=False)
    _path: str = field(default="", init=False)
    _delta: MetadataDelta | None = field(default=None, init=False)
    _records: Mapping[str, Records] = field(default_factory=dict, init=False)
    _raised: Sequence[Records] = field(default=(), init=False)
    _is_overtaken: bool = field(default=False, init=False)
    _upon: frozenset[str] | None = field(default=None, init=False)
    """Completed writes of which the delta has records; None if it only has records of its own write."""
    _compared: set[str] = field(default_factory=set, init=False)
    """Later requests that completed first and do not contradict the delta."""
    _own: Timeline | None = field(default=None, init=False)

    @abstractmethod
    def made(self, state: TableState) -> dict[str, Records]:
        """Return the records of the action for the metadata table's partitions of `state`.

        Raises:
            Unsupported: the metadata table has a partition that hudi_ops does not keep.
            Conflict: the action lacks facts that a new partition needs.
        """

    def raised(self, state: TableState) -> Sequence[Records]:
        """Return records that override those of later requests, even if the action is voided."""
        return ()

    def make(self, state: TableState) -> None:
        """Make the delta for the current metadata table and put it; called without the lock.

        Raises:
            Unsupported: the metadata table has a partition that hudi_ops does not keep.
            Conflict: another process builds or drops a partition now; or the table got a record index since the attempt began, and
                the write's files do not say which keys it removed; or a later request that completed first contradicts it.
        """
        if not state.config.all_metadata_partitions:
            self._basis, self._path, self._delta, self._records, self._raised = None, "", None, {}, ()
            return
        storage = self.session.ctx.storage
        # The timeline that the last `fits` listed will do: if it is outdated, the next `fits` returns False and keeps a new one.
        own = self.session.memory.metadata_timeline or load_metadata_timeline(storage)
        basis = basis_of(storage, state, own)
        self._upon = None
        self._records, self._raised = self.made(state), self.raised(state)
        self._compared.clear()
        self._compare_later(state, own)
        self._delta = self._delta_of(list(self._records.values()), basis, state, self.attempt.instant)
        self._basis, self._path = basis, self.session.put_delta(self._delta)

    def fits(self, state: TableState) -> bool:
        """Return whether the delta is valid for the current metadata table; if not, `make` it again.

        Raises:
            Conflict: a later request that completed first contradicts it.
        """
        self._own, self._is_overtaken = None, False
        self.session.memory.metadata_deltas = 0
        if not state.config.all_metadata_partitions:
            # The metadata table was dropped: the delta is deleted with those of lost tries.
            self._basis, self._path, self._delta = None, "", None
            return True
        storage = self.session.ctx.storage
        own = load_metadata_timeline(storage)
        self._own = self.session.memory.metadata_timeline = own
        self.session.memory.metadata_deltas = deltas_since_compaction(own) + 1
        if self._basis != basis_of(storage, state, own):
            return False
        if self._upon is not None and self._upon != completed_of(state):
            return False
        self._compare_later(state, own)
        return True

    def _compare_later(self, state: TableState, own: Timeline) -> None:
        """Compare the delta with later requests that completed first; few are new under the lock."""
        later = later_deltas(self.attempt.instant, own, state)
        foreign = [delta for delta in later if not is_ours(delta, state)]
        self._is_overtaken = any(delta.is_write for delta in foreign)
        # Of hudi_ops deltas only those of the record index and of secondary indexes remove records.
        removes = MetadataPartition.RECORD_INDEX in self._records or any(map(is_secondary, self._records))
        relevant = later if removes else foreign
        new = [delta for delta in relevant if delta.time not in self._compared]
        refuse_contradicted(self.session.ctx.storage, self._records, self.attempt.instant, new, state.config.version)
        self._compared |= {delta.time for delta in new}

    @property
    def times(self) -> frozenset[str]:
        """Newest time on the metadata table's timeline as of the last `fits`; empty if unknown."""
        return frozenset({self._own.newest_time}) if self._own is not None else frozenset()

    @property
    def partitions(self) -> tuple[str, ...]:
        """Partitions of the metadata table for which the delta was made."""
        return self._basis.partitions if self._basis is not None else ()

    def seen_at(self, completion_time: str) -> str:
        """Return a digest of the metadata table's timeline; appliers compare it with theirs."""
        if self._own is None:
            return ""
        return logged_digest(completed_beside(self._own, self.attempt.instant, completion_time))

    def entry_fields(self, completion_time: str, state: TableState) -> dict[str, Any]:
        """Return the fields of a COMPLETE that describe the delta, once it `fits`."""
        return {
            "metadata": self.path_at(completion_time, state),
            "metadata_seen": self.seen_at(completion_time),
            "indexes": self.partitions,
        }

    def path_at(self, completion_time: str, state: TableState) -> str:
        """Return the path of the delta to decide, once it `fits`; empty without a metadata table.

        Some records are put at the completion time, to override later requests that completed first: the records of `raised`, and,
        if such a request is foreign, records that only widen others.
        """
        loose = [records for name, records in self._records.items() if kind_of(name).widens and records]
        above = [*(loose if self._is_overtaken else []), *self._raised]
        if self._delta is not None and self._basis is not None and above:
            made = self._delta_of(above, self._basis, state, completion_time)
            return self.session.put_delta(replace(self._delta, above=made))
        return self._path

    def _delta_of(self, records: Sequence[Records], basis: Basis, state: TableState, instant: str) -> MetadataDelta:
        return make_delta(
            records,
            self.session.metadata_groups(basis, state.config),
            instant=instant,
            version=state.config.version,
            token=f"0-{self.attempt.epoch}-0",
        )


def completed_of(state: TableState) -> frozenset[str]:
    """Return the request times of the completed writes."""
    return frozenset(write.time for write in state.timeline.completed_writes)
