"""Dropping a metadata table: first the properties stop naming it, by a decision of the log, and only then its folder goes.

Readers list storage as soon as the properties name no partition, whether or not the folder is still there; a default writer of
Apache Hudi builds it again, over a stale folder too (docs/format.md §9.6). So a crash at any point leaves a table that is right.
"""

from __future__ import annotations

import logging

from hudi_ops.concurrency.locks import hold_lock
from hudi_ops.config.table import TableConfig
from hudi_ops.errors import Busy, Conflict
from hudi_ops.services.session import Session
from hudi_ops.timeline.entries import Entry, Properties
from hudi_ops.timeline.properties_file import load_config
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

FOLDER = ".hoodie/metadata"
KEYS = ("hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight")


def drop_metadata_table(session: Session) -> tuple[str, ...]:
    """Make a table one without a metadata table. Definitions of indexes stay, as when Apache Hudi drops it.

    Returns:
        The partitions that it had; empty when the properties named none. Files that an earlier try left are deleted all the same.

    Raises:
        Busy: the lock was not to be had in time, or an index is being built.
        Conflict: somebody builds it again at this moment.
    """
    dropped: tuple[str, ...] = ()

    def prepare(state: TableState, slot: int) -> Entry | None:
        nonlocal dropped
        dropped = _listed(state.config)
        if not any(key in state.config.raw for key in KEYS):
            return None
        indexing = next((one for one in state.timeline.pending if one.kind == "indexing"), None)
        if indexing is not None:
            raise Busy(
                "an index of the metadata table is being built",
                table=state.config.name,
                instant=indexing.time,
                next_step="finish or drop the index with Apache Hudi, then run the same call again",
            )
        return Properties(
            **session.entry(state, f"drop metadata table {session.ctx.ids.new_id()}"),
            remove=KEYS,
            facts=state.log.properties.facts,
        )

    session.decide(prepare, "drop the metadata table")
    ctx = session.ctx
    # Under the lock, and after a last look: Apache Hudi builds a metadata table under the same lock.
    with hold_lock(ctx, "delete the metadata table") as held:
        files = ctx.storage.list(FOLDER)
        if files and not held.still_mine():
            raise Busy("the table lock was lost before the metadata table's files were deleted", table=ctx.storage.uri)
        config = load_config(ctx.storage)
        if again := _listed(config):
            raise Conflict(
                f"somebody built the metadata table again ({', '.join(again)})",
                table=config.name,
                next_step="let Apache Hudi's writers run with hoodie.metadata.enable=false, then run the same call again",
            )
        for info in files:
            ctx.storage.delete(info.path)
    if dropped:
        logger.warning("dropped the metadata table of %s (%s)", config.name, ", ".join(dropped))
    return dropped


def _listed(config: TableConfig) -> tuple[str, ...]:
    return config.metadata_partitions + config.metadata_partitions_inflight
