"""The live record keys of file groups that a write hides: a record index must not go on naming those groups."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.commit.session import Session
from hudi_ops.files.base.base_file import stored_schema
from hudi_ops.files.slice.slice_keys import SliceKeysTask, keys_of_slice
from hudi_ops.formats.large_arrays import joined
from hudi_ops.index.simple_bucket import computed_keys
from hudi_ops.services.base.merging import merging_of
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import table_schema
from hudi_ops.view.slices import Slice


def hidden_keys(session: Session, state: TableState, slices: Iterable[Slice]) -> pa.Array:
    """The keys of the rows that these slices hold, each once, in no order. Key columns are read; outside the lock.

    Raises:
        NotFound: a file is gone: cleaned since it was listed.
        Unsupported: a log block holds what cannot be merged here.
    """
    config = state.config
    schema = table_schema(config, state.timeline, session.commits)
    merging = merging_of(state, schema) if config.table_type == "MERGE_ON_READ" else None
    tasks = [
        SliceKeysTask(
            session.ctx.storage,
            one.base.path if one.base is not None else None,
            one.base.size_bytes if one.base is not None else 0,
            stored_schema(schema, config.populate_meta_fields),
            computed_keys(config, state.log.properties.facts),
            tuple((log.path, log.size_bytes) for log in one.logs),
            merging if one.logs else None,
        )
        for one in slices
    ]
    found = session.ctx.engine.map(keys_of_slice, tasks)
    return pc.unique(joined(found, pa.string()))
