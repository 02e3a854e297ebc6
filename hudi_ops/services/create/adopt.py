"""Adoption of a foreign table: begins its commit log and changes nothing else."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import Any

from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable, without_metadata_table
from hudi_ops.services.create.adoption import Adopter
from hudi_ops.services.indexing.drop import drop_metadata_table
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.settings.settings_check import logged_config, parsed_config

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Adoption:
    """What an adoption did, or with `dry_run` would do.

    `adopted` is False when the table had a commit log already. Counts of files and keys are those that the number of buckets was
    checked against; `dropped` names the partitions of the metadata table that went. `doubled_keys` counts record keys that lie in
    more than one file group; None: they were not counted.
    """

    table: str
    path: str
    adopted: bool
    table_id: str
    index: str
    buckets: int
    hash_fields: tuple[str, ...]
    timezone: str
    checked_files: int
    checked_keys: int
    dropped: tuple[str, ...]
    dry_run: bool
    doubled_keys: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def adopt_table(
    session: Session, adopter: Adopter, *, drop: bool = False, dry_run: bool = False, count_keys: bool = True
) -> Adoption:
    """Begin the commit log of a table, or find it begun; running it again changes nothing.

    Args:
        session: the table.
        adopter: the session's; it holds the caller's terms.
        drop: drop the table's metadata table.
        dry_run: check everything, change nothing.
        count_keys: read the keys of all files where buckets do not say where a key lies, and count those in several file groups.

    Raises:
        InvalidRequest: buckets, hash fields or time zone are missing or wrong, or differ from what the log says.
        Unsupported: the table cannot be written.
        Busy: the lock was not to be had, or the table's first write is under way.
        Conflict: the metadata table is being built again.
        Corrupt: the table's properties contradict its commit log.
    """
    ctx = session.ctx
    config = parsed_config(ctx.storage)
    log = session.loader.find(config)
    if log is not None:
        config = logged_config(ctx.storage, config, log, session.commits.settings)
    wanted = without_metadata_table(config) if drop else config
    refuse_unwritable(wanted)
    entry = log.properties if log is not None else None
    dropped = config.metadata_partitions + config.metadata_partitions_inflight if drop else ()
    if entry is None:
        adopter.counts_keys = count_keys
        entry = session.loader.propose(wanted, load_timeline(ctx.storage, config))
        if not dry_run:
            session.loader.seed(entry)
            found = session.loader.find(config)
            entry = found.properties if found is not None else entry
            logger.info("adopted %s at %s: %s", config.name, ctx.storage.uri, entry.facts)
    if drop and not dry_run:
        dropped = drop_metadata_table(session)
    files, keys = adopter.checked
    return Adoption(
        table=config.name,
        path=ctx.storage.uri,
        adopted=log is None,
        table_id=entry.table_id,
        index=entry.facts.index,
        buckets=entry.facts.buckets,
        hash_fields=entry.facts.hash_fields,
        timezone=entry.facts.timezone if config.is_in_local_time else "UTC",
        checked_files=files,
        checked_keys=keys,
        dropped=dropped,
        dry_run=dry_run,
        doubled_keys=entry.doubled_keys if log is None else None,
    )
