"""Restore a deleted completed file from the payload in the commit log.

The deletion of a completed file hides acknowledged rows. A rollback or restore of a completed write deletes this file on purpose,
before the data files, so a write that one of them undoes is never put back.
Source: docs/protocol §6.1.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from hudi_ops.commit.apply.invalidate import PROMPT_MS
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.concurrency.transaction import newest_decision
from hudi_ops.context import TableContext
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import Corrupt, NotFound
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.archived import load_history
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.footprint import is_child_log
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import Log, payload_folder, read_slot
from hudi_ops.timeline.log.entries import Cancel, Complete, Entry, Restore, Void
from hudi_ops.timeline.names import WRITE_ACTIONS, State, completes_as
from hudi_ops.timeline.state import CommitReader, TableState
from hudi_ops.view.cleaned_files import files_of_cleans
from hudi_ops.view.slices import replaced_groups

logger = logging.getLogger(__name__)

_BOTH = frozenset({State.REQUESTED, State.INFLIGHT})


def was_applied(
    ctx: TableContext, state: TableState, slot: int, entry: Complete, *, asks_storage: bool = False
) -> bool:
    """Return whether a decided write without a completed file had one before.

    All entries below the newest decision were applied before its slot was claimed. The newest decision was applied if both its
    lease and its metadata delta are gone: they are deleted only after success. `state` holds a log read before its timeline. For an
    entry that this process has just decided, storage is not read unless `asks_storage`.
    """
    if completes_as(entry.action) not in WRITE_ACTIONS:
        return False
    if slot < newest_decision(state.log)[0]:
        return True
    is_prompt = str(ctx.owner) == entry.owner and ctx.clock.now_ms() - entry.at_ms < PROMPT_MS
    if is_prompt and not asks_storage:
        return False  # this process is about to apply it
    if read_lease(ctx.storage, entry.instant) is not None:
        return False
    return not entry.metadata or ctx.storage.head(entry.metadata) is None


def refuse_lost(storage: Storage, commits: CommitReader, state: TableState, entry: Complete) -> None:
    """Refuse to put back a deleted completed file unless every check agrees.

    Only here data files are checked under the table lock, so no clean or rollback runs at that time. `entry` must not be voided,
    nor undone by a rollback or restore.

    Raises:
        Corrupt: names the failed check.
    """
    against = _against(storage, commits, state, entry)
    if against:
        raise Corrupt(
            f"the completed file of {entry.action} {entry.instant} was deleted, and cannot be put back: {against}",
            table=state.config.name,
            instant=entry.instant,
            expected="a write that is on the timeline, with its requested, inflight and data files",
            found=against,
            next_step="restore what is missing from a copy of the table; `hudi-ops verify` lists it. Until then the rows of this "
            f"write are not read. The bytes of its completed file are in {entry.payload}",
        )
    logger.warning("the completed file of %s %s was deleted: it is put back", entry.action, entry.instant)


def decided_before(storage: Storage, log: Log, instant: str) -> tuple[int, Complete] | None:
    """Return an instant's COMPLETE anywhere in the log, unless it was voided or undone.

    Its payload names the slot.
    Costs one listing, and two reads or more where there is one.
    """
    for info in storage.list(payload_folder(instant)):
        number = info.name.partition("-")[0]
        entry = read_slot(storage, int(number)) if number.isdecimal() else None
        if not isinstance(entry, Complete) or (entry.table_id, entry.instant) != (log.table_id, instant):
            continue
        slot = int(number)
        if slot in log.voided or isinstance((log.fate(instant) or (0, None))[1], Cancel):
            continue
        if not any(_takes_back(read_slot(storage, above), slot, instant) for above in range(slot + 1, log.base)):
            return slot, entry
    return None


def _takes_back(entry: Entry | None, slot: int, instant: str) -> bool:
    """Return whether an entry voids a slot, or undoes its instant."""
    return (isinstance(entry, Void) and entry.slot == slot) or (isinstance(entry, Restore) and instant in entry.undone)


def may_be_lost(instant: Instant) -> bool:
    """Return whether a pending instant may be a hudi_ops write without its completed file."""
    return instant.action in WRITE_ACTIONS or (instant.is_write and State.INFLIGHT in instant.states)


def _against(storage: Storage, commits: CommitReader, state: TableState, entry: Complete) -> str:
    found = state.timeline.find(entry.instant, entry.action)
    if found is None or not found.states >= _BOTH:
        return "its requested or inflight file is gone, too"
    if entry.instant < state.timeline.start:
        return f"it is before the timeline's start {state.timeline.start}"
    if entry.instant <= state.log.boundary:
        return f"it is at or below the boundary {state.log.boundary} of the archive"
    history = load_history(storage, state.config, only=frozenset({entry.instant})).instants
    if any(archived.action in WRITE_ACTIONS for archived in history):
        return "it is in the archived timeline, so its requested and inflight files are the wrong ones"
    try:
        said = CommitMetadata.from_bytes(storage.get(entry.payload), entry.payload)
    except NotFound:
        return f"its bytes {entry.payload} are gone"
    lost = next(_unexplained(storage, commits, state, said, entry.instant), "")
    return f"{lost}, which it names, is missing, and no clean or replace explains that" if lost else ""


def _unexplained(
    storage: Storage, commits: CommitReader, state: TableState, said: CommitMetadata, instant: str
) -> Iterator[str]:
    named = {stat.path.lstrip("/"): stat for stat in said.stats if stat.path not in {"", "null"}}
    # Log files for a resize are deleted if it is aborted or leaves out their group.
    kept = sorted(path for path, stat in named.items() if not is_child_log(stat, instant))
    paths = [(path, named[path]) for path in kept]
    heads = LocalEngine().map(storage.head, [path for path, _ in paths])
    missing = [item for item, head in zip(paths, heads, strict=True) if head is None]
    if not missing:
        return
    cleaned = files_of_cleans(storage, state.config)
    hidden = replaced_groups(commits, state.timeline)
    for path, stat in missing:
        if path not in cleaned and (stat.partition_path, stat.file_id) not in hidden:
            yield path
