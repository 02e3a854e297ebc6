"""Read the record keys of file slices, and count those in more than one file group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.table import TableConfig
from hudi_ops.files.base.base_file import stored_schema
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.slice.slice_keys import SliceKeysTask
from hudi_ops.formats.large_arrays import joined
from hudi_ops.kernels.keys.keys import KeySpec
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.view.slices import Slice


def key_tasks(
    storage: Storage,
    config: TableConfig,
    timeline: Timeline,
    schema: pa.Schema,
    keys: KeySpec | None,
    slices: Sequence[Slice],
    columns: Sequence[str] = (),
) -> list[SliceKeysTask]:
    """Make the tasks that read the record keys of slices, and these columns beside them.

    `keys` is the key spec of a table without meta columns; None: files have a key column.
    """
    merging = None
    if any(slice_.logs for slice_ in slices):
        merging = replace(MergeRules.of(config, schema), keys=keys), BlockInstants.of(config, timeline)
    stored = stored_schema(schema, config.populate_meta_fields)
    return [
        SliceKeysTask(
            storage,
            slice_.base.path if slice_.base is not None else None,
            slice_.base.size_bytes if slice_.base is not None else 0,
            stored,
            keys,
            tuple((log.path, log.size_bytes) for log in slice_.logs),
            merging if slice_.logs else None,
            tuple(columns),
        )
        for slice_ in slices
    ]


def count_doubled(keys: Sequence[pa.Array]) -> int:
    """Count the record keys in more than one slice; an array has a slice's keys once."""
    every = joined(list(keys), pa.string())
    if pc.count_distinct(every).as_py() == len(every):
        return 0
    return int(pc.sum(pc.greater(pc.value_counts(every).field("counts"), 1)).as_py())
