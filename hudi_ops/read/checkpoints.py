"""Make checkpoints from a caller's text, consumed writes, or a read of a whole table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hudi_ops.config.table import TableConfig
from hudi_ops.errors import InvalidRequest
from hudi_ops.read.as_of import instant_meant
from hudi_ops.read.plan import Opened
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.content.archived import ArchivedHistory
from hudi_ops.timeline.content.undone import undone_by
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.checkpoint import Checkpoint, is_checkpoint, still_open
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Pointer, read_slot
from hudi_ops.timeline.names import WRITE_ACTIONS

EARLIEST = "earliest"

BEGIN_ANEW = "read the whole table, and begin with the checkpoint of that read: Table.scan().checkpoint"


def checkpoint_meant(storage: Storage, text: str | None, timezone: str | None = None) -> Checkpoint:
    """Return the checkpoint for the beginning or end that a caller gives.

    `text` is a checkpoint, a completion time of 17 digits, an ISO time, or `earliest`; None means `earliest`. `timezone` is as in
    `instant_meant`.

    Raises:
        InvalidRequest: the text has none of these forms.
    """
    if text is None or text.strip() in {"", EARLIEST}:
        return Checkpoint()
    if is_checkpoint(text):
        return Checkpoint.decode(text)
    return Checkpoint(instant_meant(storage, text, timezone))


def table_id_of(opened: Opened) -> str:
    """Return the table's id in its commit log; empty without a commit log."""
    newest = opened.commits.newest_with(opened.timeline, POINTER_KEY)
    pointer = Pointer.decode(newest.extra) if newest is not None else None
    if pointer is not None:
        return pointer.table_id
    first = read_slot(opened.commits.storage, 0)
    return first.table_id if first is not None else ""


def refuse_other_table(name: str, table_id: str, checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint of another table, or of an earlier table under the same path.

    Raises:
        InvalidRequest: the checkpoint holds the id of another table.
    """
    # A table that Apache Hudi created gets its id when it is adopted; earlier checkpoints hold no id.
    if checkpoint.table_id and checkpoint.table_id != table_id:
        raise InvalidRequest(
            "the checkpoint is of another table, or the table was dropped and made anew",
            table=name,
            expected=f"a checkpoint of table id {table_id or 'none'}",
            found=checkpoint.table_id,
            next_step=BEGIN_ANEW,
        )


def refuse_forgotten(
    storage: Storage, config: TableConfig, timeline: Timeline, history: ArchivedHistory, since: Checkpoint
) -> None:
    """Refuse a beginning for which the table no longer records all later completions.

    Raises:
        InvalidRequest: the checkpoint's newest consumed instant is gone, or archived instants cannot be read.
    """
    if history.note and since.completed < timeline.start:
        raise InvalidRequest(
            f"the table does not tell all that completed since then: {history.note}",
            table=config.name,
            expected=f"a beginning at or after {timeline.start}",
            found=since.completed or EARLIEST,
            next_step=BEGIN_ANEW,
        )
    if not since.instant:
        return
    found = timeline.find(since.instant)
    is_active = found is not None and found.is_completed
    if not is_active and all(one.time != since.instant for one in history.instants):
        by = undone_by(storage, config, timeline, since.instant) or "an archived rollback or restore"
        raise InvalidRequest(
            f"the write that the checkpoint stands on was undone by {by}: rows given before are not in the table any more",
            table=config.name,
            instant=since.instant,
            expected="the write on the active or on the archived timeline",
            found="no such instant",
            next_step=BEGIN_ANEW,
        )


def newest_completion(instants: Iterable[Instant]) -> str:
    """Return the newest completion time of a write; empty when nothing completed."""
    return max((one.completion_time for one in instants if one.is_completed and one.is_write), default="")


def lowered(since: Checkpoint, horizon: str, timeline: Timeline, history: ArchivedHistory) -> Checkpoint:
    """Return a checkpoint that is at most at the newest completion that a read looked at.

    A caller may name a time above it. What completes below that time later has not been read.
    """
    if since.completed <= horizon:
        return since
    writes = [(one.completion_time, one.time) for one in timeline.completed_writes]
    writes += [(one.completion_time, one.time) for one in history.instants if one.action in WRITE_ACTIONS]
    completed, instant = max((one for one in writes if one[0] <= horizon), default=("", ""))
    return replace(since, completed=completed, instant=instant)


def checkpoint_at(
    table_id: str, timeline: Timeline, consumed: Sequence[tuple[str, str]], since: Checkpoint
) -> Checkpoint:
    """Return the checkpoint after `since` and the consumed writes.

    `consumed` holds the (completion time, request time) of each. `timeline` was listed before the writes were consumed.
    """
    completed, instant = max(consumed, default=(since.completed, since.instant))
    if completed < since.completed:
        # All consumed writes completed late, with earlier completion times: the clock of their writer was behind.
        completed, instant = since.completed, since.instant
    taken = {request for _, request in consumed}
    taken |= {one.time for one in timeline if one.is_completed and since.is_consumed(one.time, one.completion_time)}
    return Checkpoint(completed, instant, table_id, still_open(timeline, frozenset(taken), completed))


def checkpoint_of_all(opened: Opened) -> Checkpoint:
    """Return the checkpoint of a whole read; later completions come after it.

    The timeline is listed again: one listing may hold a write and miss another that completed before it. Writes that only the
    second listing holds were not read, and stay open in the checkpoint.
    """
    seen = opened.timeline
    consumed = [(one.completion_time, one.time) for one in seen.completed_writes]
    now = load_timeline(opened.commits.storage, opened.config)
    completed, instant = max(consumed, default=("", ""))
    left = still_open(now, frozenset(time for _, time in consumed), completed)
    return Checkpoint(completed, instant, table_id_of(opened), left)
