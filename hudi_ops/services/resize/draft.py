"""Draft the plan of a resize: a change of a ring takes all groups of its partition.

Source: docs/protocol §27; docs/format §6.12, §10.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property

from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers
from hudi_ops.index.resizes import RESIZE_STRATEGY
from hudi_ops.services.base.publish import Draft
from hudi_ops.services.resize.child_names import ChildNames
from hudi_ops.services.resize.choose import ResizeChoice, ResizeGroup, refuse_foreign_writers
from hudi_ops.services.rewrite.draft import Key, ReplaceDraft, Slices
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import MERGING_ACTIONS
from hudi_ops.timeline.state import TableState


class ResizeDraft(ReplaceDraft[ResizeChoice]):
    """Plan of the splits and merges of a choice, whose child groups are named by its slot."""

    work = "a resize"

    def strategy(self) -> tuple[str, Mapping[str, str]]:
        """Return Apache Hudi's class for a resize, which takes no parameters."""
        return RESIZE_STRATEGY, {}

    def revise(self, state: TableState) -> Draft:
        """Return the draft for a later state.

        Raises:
            Conflict: others took every group, or a completed write was undone or can no longer be read.
            Unsupported: a foreign writer has begun to write to the table.
        """
        has_any = has_foreign_writers(self.session.ctx.storage, self.session.commits, state, pending=False)
        refuse_foreign_writers(state, has_any=has_any)
        return super().revise(state)

    def taken_by_write(self, slices: Slices, write: Instant, metadata: CommitMetadata) -> dict[Key, str]:
        """Add a write's log files to `slices`; return the slices that it took, with the reason."""
        changed = self._with_other_groups(metadata)
        why = f"{write.action} {write.time} changed the file groups of its partition while the plan was made"
        taken = super().taken_by_write(slices, write, metadata)
        return taken | {key: why for key in slices if key[0] in changed}

    def taken_by_plan(self, slices: Slices, plan: Instant, inputs: Footprint) -> Iterable[Key]:
        """Return the slices of a compaction, or all slices of the partitions of another plan."""
        if plan.action in MERGING_ACTIONS:
            return super().taken_by_plan(slices, plan, inputs)
        paths = {path for path, _ in inputs.groups}
        return [key for key in slices if key[0] in paths]

    def slot(self, state: TableState) -> int:
        """Return the slot after a state, which names the child groups."""
        return state.log.head + 1

    def named(self, groups: list[ResizeGroup], slot: int) -> list[ResizeGroup]:
        """Return groups with names for their children."""
        names = ChildNames(self.begun.log.table_id, slot, self.choice.rings)
        return [replace(group, change=names.named(group.change)) for group in groups]

    @cached_property
    def _known(self) -> dict[str, set[str]]:
        """Return the file ids that the rings name, by partition path."""
        rings = self.choice.rings
        return {path: {ring.file_id(node) for node in range(len(ring.prefixes))} for path, ring in rings.items()}

    def _with_other_groups(self, metadata: CommitMetadata) -> set[str]:
        """Return partitions in which a write replaced groups, or named one that the ring lacks."""
        known = self._known
        strange = {
            stat.partition_path
            for stat in metadata.stats
            if stat.partition_path in known and stat.file_id not in known[stat.partition_path]
        }
        return strange | {path for path in metadata.replaced or {} if path in known}
