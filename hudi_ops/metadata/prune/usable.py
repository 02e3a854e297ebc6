"""Find why indexes of keys may lack entries, so that a read does not use them."""

from __future__ import annotations

import logging

from hudi_ops.config.table import IndexKind, TableConfig
from hudi_ops.errors import Corrupt
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.log.commit_log import read_slot
from hudi_ops.timeline.log.entries import Properties
from hudi_ops.timeline.log.unique_keys import why_doubtful
from hudi_ops.timeline.settings.properties_file import folded_slot
from hudi_ops.timeline.state import CommitReader

logger = logging.getLogger(__name__)


def why_index_unused(storage: Storage, config: TableConfig, timeline: Timeline, commits: CommitReader) -> str:
    """Return why the record index may lack rows of a key; empty if it lacks none.

    Apache Hudi does not store which index writers use, and a record index in the metadata table does not prove that they use it:
    slot 0 of the commit log holds the index. A second reason: for a key in two file groups the record index names only one.
    """
    try:
        first = read_slot(storage, 0)
        if reason := _of_index(first.facts.index if isinstance(first, Properties) else None):
            return reason
        slot = folded_slot(config.raw) or 0

        def counted() -> Properties | None:
            entry = read_slot(storage, slot) if slot else first
            return entry if isinstance(entry, Properties) and entry.doubled_keys is not None else None

        return why_doubtful(commits, timeline, counted)
    except Corrupt as error:
        logger.warning("the table's index is not known: %s", error)
        return _of_index(None)


def why_values_unused(timeline: Timeline, commits: CommitReader) -> str:
    """Return why secondary indexes may lack entries; empty if they do not.

    Apache Hudi adds no entries in a bulk insert, and not always for rows in log files (docs/format §14.11). The newest write
    records whether a foreign writer has ever written the table.
    """
    try:
        is_ours_alone = commits.is_ours_alone(timeline)
    except Corrupt as error:
        return f"the newest write cannot be read: {error.what}"
    return "" if is_ours_alone else "another program has written the table, and may have left entries out"


def _of_index(index: IndexKind | None) -> str:
    if index == "record_index":
        return ""
    if index in {None, "other"}:
        return "nothing says that all writers find keys by it, and others may leave keys out of it"
    name = "bucket" if index.endswith("_bucket") else index
    return (
        f"the table's index is {name}, and writers that do not find keys by the record index may leave keys out of it"
    )
