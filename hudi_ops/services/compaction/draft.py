"""Draft the plan of a compaction, and revise it under the lock from the metadata of commits.

Log files that completed since the slices were chosen join the plan. Nothing is listed, and steady ingestion never makes planning
start over.

Source: docs/protocol §17.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hudi_ops.commit.session import Session
from hudi_ops.services.base.choice import Candidate, Measured
from hudi_ops.services.base.planned.late_logs import Key, join_logs
from hudi_ops.services.base.planned.revise import NewestDraft, completed_between, other_plans, refuse_none_left
from hudi_ops.services.base.publish import Draft
from hudi_ops.services.compaction.choose import CompactionChoice
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS, Footprint
from hudi_ops.timeline.content.plan_bytes import encode_compaction, slice_metrics
from hudi_ops.timeline.content.plans import CompactionPlan, PlannedSlice
from hudi_ops.timeline.state import TableState


@dataclass
class CompactionDraft:
    """Plan of a choice from the state `begun`."""

    session: Session
    begun: TableState
    choice: CompactionChoice
    _newest: NewestDraft[Draft] = field(default_factory=NewestDraft)

    @property
    def chosen(self) -> dict[Key, Candidate]:
        """Slices of the choice."""
        return {found.candidate.key: found.candidate for found in self.choice.planned}

    def draft(self) -> Draft:
        """Return the draft of the slices as they were chosen."""
        return self._draft(self.chosen, {})

    def revise(self, state: TableState) -> Draft:
        """Return the draft for a later state.

        Raises:
            Conflict: others took every group, or a completed write was undone or can no longer be read.
        """
        groups = self.chosen
        left: dict[Key, str] = {}
        for other, metadata in completed_between(self.session, self.begun, state):
            left |= join_logs(groups, other, metadata)
        for instant, inputs in other_plans(self.session, state, "compaction"):
            for key in groups:
                if inputs is not None and (key[0], key[1][:BUCKET_DIGITS]) in inputs.groups:
                    left[key] = f"{instant.action} {instant.time} was planned on it while the plan was made"
        if left.keys() >= groups.keys():
            refuse_none_left(state, "compaction", next(iter(left.values()), ""))
        return self._draft({key: group for key, group in groups.items() if key not in left}, left)

    def _draft(self, groups: dict[Key, Candidate], left: dict[Key, str]) -> Draft:
        return self._newest.of((groups, left), lambda: self._made(groups, left))

    def _made(self, groups: dict[Key, Candidate], left: dict[Key, str]) -> Draft:
        unplanned = {*self.choice.unplanned(), *(partition for partition, _ in left)}
        slices = tuple(map(planned_slice, groups.values()))
        plan = CompactionPlan(slices, self.choice.cancel.extra(), tuple(sorted(unplanned)))
        added = sum(len(groups[key].logs) - len(group.logs) for key, group in self.chosen.items() if key in groups)
        return Draft(
            encode_compaction(plan),
            Footprint.of_groups(groups),
            self.begun,
            revise=self.revise,
            choice=self._choice(groups, left),
            log_files_added=added,
            groups_dropped=len(left),
            cancel=self.choice.cancel,
        )

    def _choice(self, groups: dict[Key, Candidate], left: dict[Key, str]) -> CompactionChoice:
        """Return the choice without the slices that others took."""
        chosen = self.choice.planned
        kept = [
            Measured(groups[found.candidate.key], found.measure) for found in chosen if found.candidate.key in groups
        ]
        gone = [(found.candidate, left[found.candidate.key]) for found in chosen if found.candidate.key in left]
        return replace(self.choice, planned=kept, pending=[*self.choice.pending, *gone])


def planned_slice(group: Candidate) -> PlannedSlice:
    """Return the entry of a file group in its plan, with bare file names.

    Without the metrics Apache Hudi does not execute the plan.
    """
    base_bytes = group.base.size_bytes if group.base is not None else None
    return PlannedSlice(
        partition_path=group.partition_path,
        file_id=group.file_id,
        base_file=group.base.name if group.base is not None else "",
        log_files=tuple(file.name for file in group.logs),
        base_instant=group.base.instant if group.base is not None else min(file.instant for file in group.logs),
        metrics=slice_metrics(base_bytes, len(group.logs), group.log_bytes),
    )
