"""Draft the plan of a clustering, and revise it under the lock.

Groups that others touched leave the draft.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hudi_ops.commit.session import Session
from hudi_ops.services.base.planned.groups import planned_group
from hudi_ops.services.base.planned.revise import NewestDraft, completed_between, other_plans, refuse_none_left
from hudi_ops.services.base.publish import Draft
from hudi_ops.services.clustering.choose import ClusteringChoice
from hudi_ops.services.clustering.layout import SORT_AND_SIZE, SORT_IN_FILE, strategy_params
from hudi_ops.timeline.content.clean_bytes import planned_path
from hudi_ops.timeline.content.footprint import Footprint, footprint_of
from hudi_ops.timeline.content.plan_bytes import encode_clustering
from hudi_ops.timeline.content.plans import ReplacePlan
from hudi_ops.timeline.state import TableState


@dataclass
class ClusteringDraft:
    """Plan of the groups of a choice, made from the state `begun`."""

    session: Session
    begun: TableState
    choice: ClusteringChoice
    _newest: NewestDraft[Draft] = field(default_factory=NewestDraft)

    def draft(self) -> Draft:
        """Return the draft of the groups as they were chosen."""
        return self._draft({})

    def revise(self, state: TableState) -> Draft:
        """Return the draft for a later state, without groups that others touched or planned.

        Raises:
            Conflict: others took every group, or a completed write was undone or can no longer be read.
        """
        left: dict[int, str] = {}
        footprints = [Footprint.of_groups(one.key for one in group.slices) for group in self.choice.groups]
        for other, metadata in completed_between(self.session, self.begun, state):
            touched = footprint_of(metadata, other.time)
            for number, inputs in enumerate(footprints):
                if inputs.overlap(touched):
                    left[number] = f"{other.action} {other.time} wrote to it while the plan was made"
        for instant, planned in other_plans(self.session, state, "clustering"):
            for number, inputs in enumerate(footprints):
                if planned is not None and inputs.overlap(planned):
                    left[number] = f"{instant.action} {instant.time} was planned on it while the plan was made"
        if len(left) == len(footprints):
            refuse_none_left(state, "clustering", next(iter(left.values()), ""))
        return self._draft(left)

    def _draft(self, left: dict[int, str]) -> Draft:
        return self._newest.of(left, lambda: self._made(left))

    def _made(self, left: dict[int, str]) -> Draft:
        choice = self.choice
        kept = [group for number, group in enumerate(choice.groups) if number not in left]
        gone = {one.key: left[number] for number in left for one in choice.groups[number].slices}
        planned = [found for found in choice.planned if found.candidate.key not in gone]
        taken = [
            (found.candidate, gone[found.candidate.key]) for found in choice.planned if found.candidate.key in gone
        ]
        revised = replace(choice, groups=kept, planned=planned, pending=[*choice.pending, *taken])
        root, has_buckets = planned_path(self.session.ctx.storage, ""), self.begun.log.properties.facts.has_buckets
        plan = ReplacePlan(
            "CLUSTER",
            tuple(planned_group(root, group.slices, group.outputs) for group in kept),
            SORT_IN_FILE if has_buckets else SORT_AND_SIZE,
            strategy_params(choice.order),
            choice.cancel.extra(),
            # Apache Hudi 1.1 plans again in these partitions, and in those that are written from now on.
            unplanned=tuple(
                sorted({*(one.partition_path for one in revised.waiting()), *(one.partition_path for one in kept)})
            ),
        )
        return Draft(
            encode_clustering(plan),
            Footprint.of_groups(one.key for group in kept for one in group.slices),
            self.begun,
            revise=self.revise,
            choice=revised,
            groups_dropped=len(left),
            cancel=choice.cancel,
        )
