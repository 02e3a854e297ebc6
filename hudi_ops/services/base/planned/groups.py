"""Make the plan groups of a plan that replaces file groups.

Source: docs/format §6.12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hudi_ops.timeline.content.plan_bytes import group_metrics
from hudi_ops.timeline.content.plans import PlannedGroup, PlannedSlice
from hudi_ops.view.slices import Slice


def planned_group(
    root: str, slices: Sequence[Slice], outputs: int, extra: Mapping[str, str] | None = None
) -> PlannedGroup:
    """Return the plan group of slices that are rewritten together into `outputs` file groups.

    `root` is the folder of the table as plans spell it, with a slash at its end.
    """
    sizes = [
        (one.base.size_bytes if one.base is not None else None, [file.size_bytes for file in one.logs])
        for one in slices
    ]
    return PlannedGroup(tuple(_planned_slice(root, one) for one in slices), outputs, group_metrics(sizes), extra or {})


def _planned_slice(root: str, one: Slice) -> PlannedSlice:
    """Return a slice with whole paths, as Apache Hudi's executor needs them; newest log first."""
    base = root + one.base.path if one.base is not None else ""
    logs = tuple(root + file.path for file in reversed(one.logs))
    base_instant = one.base.instant if one.base is not None else min(file.instant for file in one.logs)
    return PlannedSlice(one.partition_path, one.file_id, base, logs, base_instant, {})
