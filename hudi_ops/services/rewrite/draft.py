"""Draft the plan of a service that rewrites file groups, and revise it under the lock.

A revision reads the metadata of what completed or was planned since the slices were chosen, and lists nothing. In a compaction and
a resize, log files that completed since join the plan: below the plan's instant they would be hidden by the new files. In a
clustering their groups leave it, as do groups that others rewrote or planned. So ingestion makes planning start over only if
it touches every group of a clustering.

Source: docs/protocol §17, §27; docs/format §6.12.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from hudi_ops.commit.session import Session
from hudi_ops.files.names import parse_data_file
from hudi_ops.services.base.choice import Candidate
from hudi_ops.services.base.publish import Draft
from hudi_ops.services.rewrite.choice import RewriteChoice, members
from hudi_ops.services.rewrite.later_changes import completed_between, other_plans, refuse_none_left
from hudi_ops.timeline.content.clean_bytes import planned_path
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS, Footprint
from hudi_ops.timeline.content.plan_bytes import encode_clustering, group_metrics
from hudi_ops.timeline.content.plans import PlannedGroup, PlannedSlice, ReplacePlan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import REWRITING_ACTIONS
from hudi_ops.timeline.state import TableState
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.slices import Slice, merge_order

Key: TypeAlias = tuple[str, str]
"""Partition path and file id."""

Slices: TypeAlias = dict[Key, Candidate]

C = TypeVar("C", bound=RewriteChoice[Any])


@dataclass
class RewriteDraft(ABC, Generic[C]):
    """Plan of the groups of a choice, made from the state `begun`.

    Attributes:
        action: word of the service's pending instants.
        work: the service's work, in errors.
    """

    session: Session
    begun: TableState
    choice: C
    # The newest draft with its parts: most revisions leave them as they are, and a plan of many groups takes long to encode.
    _newest: tuple[object, Draft] | None = field(default=None, init=False)

    action: ClassVar[str] = "clustering"
    work: ClassVar[str]

    @abstractmethod
    def encoded(self, choice: C) -> bytes:
        """Return the bytes of the plan for a revised choice."""

    def draft(self) -> Draft:
        """Return the draft of the groups as they were chosen."""
        return self._draft(self.begun, self._slices(), {})

    def revise(self, state: TableState) -> Draft:
        """Return the draft for a later state.

        Raises:
            Conflict: others took every group, or a completed write was undone or can no longer be read.
        """
        slices, left = self._slices(), dict[Key, str]()
        for write, metadata in completed_between(self.session, self.begun, state):
            left |= self.taken_by_write(slices, write, metadata)
        for plan, inputs in other_plans(self.session, state, self.action):
            if inputs is not None:  # else the publication is refused
                why = f"{plan.action} {plan.time} was planned on it while the plan was made"
                left |= dict.fromkeys(self.taken_by_plan(slices, plan, inputs), why)
        if all(any(slice_.key in left for slice_ in group.slices) for group in self.choice.groups):
            refuse_none_left(state, self.work, next(iter(left.values()), ""))
        return self._draft(state, slices, left)

    def taken_by_write(self, slices: Slices, write: Instant, metadata: CommitMetadata) -> dict[Key, str]:
        """Add a write's log files to `slices`; return the slices that it rewrote, with the reason."""
        for file in _logs_of(write, metadata):
            key = (file.partition_path, file.file_id)
            if key in slices:
                slices[key] = _with_log(slices[key], file, write)
        why = f"{write.action} {write.time} replaced it while the plan was made"
        return {key: why for key in _rewritten(write, metadata) if key in slices}

    def taken_by_plan(self, slices: Slices, plan: Instant, inputs: Footprint) -> Iterable[Key]:
        """Return the slices that another plan took."""
        return touched_by(inputs, slices)

    def slot(self, state: TableState) -> int:
        """Return the slot of a plan from a state, if names in the plan depend on it, else 0."""
        return 0

    def named(self, groups: list[Any], slot: int) -> list[Any]:
        """Return groups with names for a plan in a slot; by default they have none."""
        return groups

    def _slices(self) -> Slices:
        return {slice_.key: slice_ for slice_ in members(self.choice.groups)}

    def _draft(self, state: TableState, slices: Slices, left: Mapping[Key, str]) -> Draft:
        parts = self.slot(state), slices, left
        if self._newest is None or self._newest[0] != parts:
            self._newest = parts, self._made(*parts)
        return self._newest[1]

    def _made(self, slot: int, slices: Slices, left: Mapping[Key, str]) -> Draft:
        kept, reasons = [], dict[Key, str]()
        for group in self.choice.groups:
            keys = [slice_.key for slice_ in group.slices]
            why = next((left[key] for key in keys if key in left), None)
            if why is None:
                kept.append(replace(group, slices=tuple(slices[key] for key in keys)))
            else:
                reasons |= dict.fromkeys(keys, why)
        choice = self.choice.revised(self.named(kept, slot), reasons)
        before = self._slices()
        return Draft(
            self.encoded(choice),
            Footprint.of_groups(slice_.key for slice_ in members(kept)),
            self.begun,
            revise=self.revise,
            choice=choice,
            log_files_added=sum(len(slice_.logs) - len(before[slice_.key].logs) for slice_ in members(kept)),
            groups_dropped=len(self.choice.groups) - len(kept),
            cancel=choice.cancel,
        )


class ReplaceDraft(RewriteDraft[C]):
    """Plan of a service that completes as a replace commit."""

    @abstractmethod
    def strategy(self) -> tuple[str, Mapping[str, str]]:
        """Return the class with which Apache Hudi executes the plan, and its parameters."""

    def encoded(self, choice: C) -> bytes:
        """Return the bytes of the plan, with the groups of the choice."""
        root = planned_path(self.session.ctx.storage, "")
        groups = tuple(planned_group(root, group.slices, group.outputs, group.extra()) for group in choice.groups)
        # Apache Hudi 1.1 plans again in these partitions, and in those that are written from now on.
        unplanned = {slice_.partition_path for slice_ in (*choice.waiting(), *members(choice.groups))}
        return encode_clustering(
            ReplacePlan("CLUSTER", groups, *self.strategy(), choice.cancel.extra(), unplanned=tuple(sorted(unplanned)))
        )


def touched_by(footprint: Footprint, keys: Iterable[Key]) -> list[Key]:
    """Return those of the file groups that a write or plan touches."""
    return [
        key
        for key in keys
        if (key[0], key[1][:BUCKET_DIGITS]) in footprint.groups or key[0] in footprint.partitions or footprint.is_whole
    ]


def planned_group(
    root: str, slices: Sequence[Slice], outputs: int, extra: Mapping[str, str] | None = None
) -> PlannedGroup:
    """Return the plan group of slices that are rewritten together into `outputs` file groups.

    `root` is the folder of the table as plans spell it, with a slash at its end.
    """
    sizes = [
        (slice_.base.size_bytes if slice_.base is not None else None, [file.size_bytes for file in slice_.logs])
        for slice_ in slices
    ]
    planned = tuple(_planned_slice(root, slice_) for slice_ in slices)
    return PlannedGroup(planned, outputs, group_metrics(sizes), extra or {})


def _planned_slice(root: str, slice_: Slice) -> PlannedSlice:
    """Return a slice with whole paths, as Apache Hudi's executor needs them; newest log first."""
    base = root + slice_.base.path if slice_.base is not None else ""
    logs = tuple(root + file.path for file in reversed(slice_.logs))
    return PlannedSlice(*slice_.key, base, logs, begun_by(slice_), {})


def begun_by(slice_: Slice) -> str:
    """Return the instant that began a slice: of its base file, or of its oldest log file."""
    return slice_.base.instant if slice_.base is not None else min(file.instant for file in slice_.logs)


def _with_log(slice_: Candidate, file: DataFile, write: Instant) -> Candidate:
    if slice_.base is not None and write.completion_time < slice_.base.instant:
        return slice_  # the writer's clock lags: the file is older than the base file, and no reader sees it
    if any(known.path == file.path for known in slice_.logs):
        return slice_
    return replace(slice_, logs=merge_order((*slice_.logs, file)))


def _logs_of(write: Instant, metadata: CommitMetadata) -> Iterator[DataFile]:
    """Yield the log files that a write put under its own instant.

    Log files of a dual writer of a resize carry the instant of the resize plan.
    """
    for stat in metadata.stats:
        named = parse_data_file(stat.file_name)
        if named is not None and named.is_log and not named.is_cdc and named.instant == write.time:
            yield DataFile(
                stat.partition_path,
                stat.path.lstrip("/"),
                stat.file_id,
                write.time,
                stat.file_size_in_bytes,
                is_log=True,
            )


def _rewritten(write: Instant, metadata: CommitMetadata) -> Iterator[Key]:
    """Yield the file groups that a write gave a new base file or replaced."""
    for stat in metadata.stats:
        named = parse_data_file(stat.file_name)
        if (named is not None and not named.is_log) or write.action in REWRITING_ACTIONS:
            yield stat.partition_path, stat.file_id
    for partition, file_ids in (metadata.replaced or {}).items():
        yield from ((partition, file_id) for file_id in file_ids)
