"""The state of a table that facts come from, and whether the table still has it.

Six reads tell: settings, the next slot of the commit log, and the folders of the timeline, of leases, of holds, and of the metadata
table's timeline. A change that concerns a check changes one of them; what changes with time has `Facts.until_ms`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from hudi_ops.config.table import PROPERTIES_PATH
from hudi_ops.errors import NotFound

if TYPE_CHECKING:
    from hudi_ops.commit.session import Session
    from hudi_ops.storage.protocol import Storage


class Seen(BaseModel):
    """Facts of a table and the state that they come from.

    Attributes:
        release: of this library; another one may measure in another way.
        uri: of the table.
        table_id: of its commit log; empty: it was not adopted; None: unknown.
        head: newest slot of the commit log; -1 without a log.
        digest: of the state.
        settings: digest of the settings that the measures depend on.
        until_ms: time from which the facts must be read anew, in ms since 1970; None: never.
        facts: of each check, as plain values; none of a check that says nothing about the table, for the reason in `not_here`, and
            none at all after an error of a check.
        not_here: reasons, by check.
        since: status and time of each check that is missed or unknown: it goes on as long as the status stays.
    """

    model_config = ConfigDict(frozen=True)

    release: str
    uri: str
    table_id: str | None = None
    head: int = Field(ge=-1, le=10**12)
    digest: str
    settings: str
    until_ms: int | None = None
    facts: dict[str, dict[str, Any]]
    not_here: dict[str, str] = {}
    since: dict[str, tuple[str, str]] = {}


def state_digest(storage: Storage, head: int, *, with_beats: bool = True) -> str:
    """Return the digest of a table's state, with six reads.

    Args:
        storage: of the table.
        head: newest slot that the caller knows.
        with_beats: whether a lease that is renewed is a change.

    Raises:
        InvalidRequest: the path is not a table.
        Corrupt: its settings cannot be read.
        Unsupported: a table version that cannot be opened.
    """
    # Imported here, since verdicts are shown in processes that must not load what reads tables: Airflow's API server.
    from hudi_ops.commit.holds import FOLDER as HOLDS
    from hudi_ops.concurrency.lease.lease import FOLDER as LEASES
    from hudi_ops.metadata.records.partitions import TIMELINE_FOLDER as METADATA_TIMELINE
    from hudi_ops.timeline.log.commit_log import slot_path
    from hudi_ops.timeline.settings.settings_check import parsed_config

    config = parsed_config(storage)
    found = hashlib.sha256(storage.get(PROPERTIES_PATH))
    # The log is read before the timeline, as in `StateLoader.load`: a later slot alone is a change.
    try:
        storage.get(slot_path(head + 1))
        found.update(b"a later slot")
    except NotFound:
        found.update(str(head).encode())
    for folder in (config.timeline_folder, METADATA_TIMELINE):
        found.update("\n".join(info.name for info in storage.list_folder(folder).files).encode() + b"\0")
    for folder, with_times in ((LEASES, with_beats), (HOLDS, True)):
        files = storage.list_folder(folder).files
        names = (f"{one.name} {one.modified_ms} {one.size_bytes}" if with_times else one.name for one in files)
        found.update("\n".join(names).encode() + b"\0")
    return found.hexdigest()


def settings_digest(session: Session) -> str:
    """Return the digest of the session's settings that measures depend on."""
    said = (session.upkeep, session.metadata_compact_after, session.file_sizes, session.conflicts)
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]
