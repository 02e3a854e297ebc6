"""Draft the plan of a resize, and revise it under the lock from the metadata of commits.

Log files that completed since the buckets were chosen join the plan. Groups that others rewrote or planned leave the
plan, as do all groups of a partition whose ring may have changed.

Source: docs/protocol §27; docs/format §6.12, §10.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers
from hudi_ops.index.resizes import RESIZE_STRATEGY
from hudi_ops.services.base.choice import Candidate, Measured
from hudi_ops.services.base.planned.groups import planned_group
from hudi_ops.services.base.planned.late_logs import Key, join_logs
from hudi_ops.services.base.planned.revise import NewestDraft, completed_between, other_plans, refuse_none_left
from hudi_ops.services.base.publish import Draft
from hudi_ops.services.resize.child_names import ChildNames
from hudi_ops.services.resize.choose import ACTION, ResizeChoice, ResizeGroup, refuse_foreign_writers
from hudi_ops.timeline.content.clean_bytes import planned_path
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS, Footprint
from hudi_ops.timeline.content.plan_bytes import encode_clustering
from hudi_ops.timeline.content.plans import ReplacePlan
from hudi_ops.timeline.names import MERGING_ACTIONS
from hudi_ops.timeline.state import TableState


@dataclass
class ResizeDraft:
    """Plan of the groups of a choice, made from the state `begun`."""

    session: Session
    begun: TableState
    choice: ResizeChoice
    _newest: NewestDraft[Draft] = field(default_factory=NewestDraft)

    def draft(self) -> Draft:
        """Return the draft of the groups as they were chosen."""
        return self._draft(self.begun, self._slices(), {})

    def revise(self, state: TableState) -> Draft:
        """Return the draft for a later state.

        Raises:
            Conflict: others took every group, or a completed write was undone or can no longer be read.
            Unsupported: a foreign writer has begun to write to the table.
        """
        has_any = has_foreign_writers(self.session.ctx.storage, self.session.commits, state, pending=False)
        refuse_foreign_writers(state, has_any=has_any)
        rings = self.choice.rings
        known = {path: {ring.file_id(node) for node in range(len(ring.prefixes))} for path, ring in rings.items()}
        slices, left, changed = self._slices(), dict[Key, str](), dict[str, str]()
        for other, metadata in completed_between(self.session, self.begun, state):
            left |= join_logs(slices, other, metadata)
            why = f"{other.action} {other.time} changed the file groups of its partition while the plan was made"
            changed |= dict.fromkeys(_with_other_groups(metadata, known), why)
        for instant, inputs in other_plans(self.session, state, ACTION):
            if inputs is None:
                continue  # the publication is refused
            why = f"{instant.action} {instant.time} was planned on it while the plan was made"
            left |= {key: why for key in slices if (key[0], key[1][:BUCKET_DIGITS]) in inputs.groups}
            if instant.action not in MERGING_ACTIONS:
                changed |= {path: why for path, _ in inputs.groups}
        left |= {key: changed[key[0]] for key in slices if key[0] in changed}
        if all(any(one.key in left for one in group.slices) for group in self.choice.groups):
            refuse_none_left(state, "a resize", next(iter(left.values()), ""))
        return self._draft(state, slices, left)

    def _slices(self) -> dict[Key, Candidate]:
        return {one.key: one for group in self.choice.groups for one in group.slices}

    def _draft(self, state: TableState, slices: Mapping[Key, Candidate], left: Mapping[Key, str]) -> Draft:
        names = ChildNames.of(state, self.choice.rings)
        return self._newest.of((names.slot, slices, left), lambda: self._made(names, slices, left))

    def _made(self, names: ChildNames, slices: Mapping[Key, Candidate], left: Mapping[Key, str]) -> Draft:
        choice, root = self.choice, planned_path(self.session.ctx.storage, "")
        kept: list[ResizeGroup] = []
        gone: list[tuple[Candidate, str]] = []
        for group in choice.groups:
            why = next((left[one.key] for one in group.slices if one.key in left), None)
            if why is not None:
                gone += [(one, why) for one in group.slices]
            else:
                kept.append(ResizeGroup(tuple(slices[one.key] for one in group.slices), names.named(group.change)))
        planned = [one for group in kept for one in group.slices]
        revised = replace(
            choice,
            groups=kept,
            planned=[Measured(one, float(one.bytes_in)) for one in planned],
            pending=[*choice.pending, *gone],
        )
        plan = ReplacePlan(
            "CLUSTER",
            tuple(planned_group(root, one.slices, one.outputs, one.change.extra()) for one in kept),
            RESIZE_STRATEGY,
            {},
            choice.cancel.extra(),
            # Apache Hudi 1.1 plans again in these partitions, and in those that are written from now on.
            unplanned=tuple(sorted({one.partition_path for one in (*revised.waiting(), *planned)})),
        )
        before = self._slices()
        return Draft(
            encode_clustering(plan),
            Footprint.of_groups(one.key for one in planned),
            self.begun,
            revise=self.revise,
            choice=revised,
            log_files_added=sum(len(one.logs) - len(before[one.key].logs) for one in planned),
            groups_dropped=len(choice.groups) - len(kept),
            cancel=choice.cancel,
        )


def _with_other_groups(metadata: CommitMetadata, known: Mapping[str, set[str]]) -> set[str]:
    """Return partitions in which a write replaced groups, or named one that the ring lacks."""
    strange = {
        stat.partition_path
        for stat in metadata.stats
        if stat.partition_path in known and stat.file_id not in known[stat.partition_path]
    }
    return strange | {path for path in metadata.replaced or {} if path in known}
