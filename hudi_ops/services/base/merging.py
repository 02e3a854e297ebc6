"""Merge rules for writers: the table's merge mode, with the key spec of the commit log."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.index.simple_bucket import computed_keys
from hudi_ops.timeline.state import TableState


def merging_of(state: TableState, schema: pa.Schema) -> tuple[MergeRules, BlockInstants]:
    """Return the merge rules of a table, and the instants whose blocks count.

    `schema` is without meta columns.

    Raises:
        Unsupported: the table's merge rule is not supported.
    """
    keys = computed_keys(state.config, state.log.properties.facts)
    return replace(MergeRules.of(state.config, schema), keys=keys), BlockInstants.of(state.config, state.timeline)
