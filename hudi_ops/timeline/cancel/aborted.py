"""Record of an aborted plan, and queue of requested cancels (RFC-79).

The slot decides. `.aborted` records a plan that was removed; `.hoodie/.cancel/<instant>` shows a cancel that is not executed yet.
Archiving moves the record into a history of its own (`timeline.cancel.aborted_history`).
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from hudi_ops.errors import Corrupt, InvalidRequest
from hudi_ops.formats.stored_forms import ABORTED_PLAN, CANCEL_REQUEST, FORM, AbortedPlanForm, refuse_newer
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.entries import Cancel
from hudi_ops.timeline.names import aborted_name, ms_of_instant, swept_name

QUEUE = ".hoodie/.cancel"


@dataclass(frozen=True)
class AbortedPlan:
    """Record of a cancelled plan that was removed.

    Attributes:
        table_id: id of the table.
        instant: instant of the plan.
        action: pending word of the plan.
        slot: slot of the CANCEL.
        reason: why it was cancelled; `cause`, `requester` and `by` are those of the CANCEL.
        cancelled_ms: time of the CANCEL, in ms since 1970.
        epochs: epochs of its executors, in order; none: it was never begun.
        rollback: the rollback instant that removed its files; empty: there were none.
        files: data files that its executors had announced, and that were deleted.
        plan: bytes of its requested file, in base64.
        form: number of the form in which it is stored.
    """

    table_id: str
    instant: str
    action: str
    slot: int
    reason: str
    cause: str = ""
    requester: str = ""
    by: str = ""
    cancelled_ms: int = 0
    epochs: tuple[int, ...] = ()
    rollback: str = ""
    files: tuple[str, ...] = ()
    plan: str = ""
    form: AbortedPlanForm = ABORTED_PLAN

    @classmethod
    def of(cls, plan: Instant, slot: int, cancel: Cancel, body: bytes, **facts: Any) -> AbortedPlan:
        """Return the record of a plan that the CANCEL in `slot` ended."""
        return cls(
            table_id=cancel.table_id,
            instant=plan.time,
            action=plan.action,
            slot=slot,
            reason=cancel.reason,
            cause=cancel.cause,
            requester=cancel.requester or cancel.owner,
            by=cancel.by,
            cancelled_ms=cancel.at_ms,
            plan=base64.b64encode(body).decode(),
            **facts,
        )

    def to_bytes(self) -> bytes:
        """Encode the `.aborted` file: one JSON object."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    def with_plan(self, body: bytes) -> AbortedPlan:
        """Return the record with the bytes of its plan."""
        return replace(self, plan=base64.b64encode(body).decode())


_ADAPTER: TypeAdapter[AbortedPlan] = TypeAdapter(AbortedPlan)


def aborted_path(timeline: Timeline, instant: Instant) -> str:
    """Return the path of a plan's `.aborted` file."""
    return timeline.path(aborted_name(instant.time, instant.action))


def read_aborted(storage: Storage, timeline: Timeline, instant: Instant) -> AbortedPlan:
    """Read the record of an aborted plan.

    Raises:
        Corrupt: its bytes are truncated, or of another instant.
        NotFound: the plan has no record.
    """
    path = aborted_path(timeline, instant)
    return parse_aborted(storage.get(path), path, instant.time)


def parse_aborted(body: bytes, path: str, instant: str) -> AbortedPlan:
    """Decode the record of an aborted plan.

    Raises:
        Corrupt: the bytes are no such record, or the record of another instant.
    """
    try:
        found = _ADAPTER.validate_json(body)
    except ValidationError as error:
        refuse_newer(body, ABORTED_PLAN, path)
        raise Corrupt(
            f"{path} is not the record of an aborted plan",
            instant=instant,
            expected="a JSON object",
            found=repr(body[:80]),
            next_step="the slot decides, so no row is at risk; delete the file if you do not need the record",
        ) from error
    if found.instant == instant:
        _refuse_impossible(path, instant)
        return found
    raise Corrupt(
        f"{path} is the record of another plan",
        instant=instant,
        expected=instant,
        found=found.instant,
        next_step="move it out of the timeline folder: a program copied it under a wrong name",
    )


def _refuse_impossible(path: str, instant: str) -> None:
    """Refuse a record whose instant is no calendar time.

    Raises:
        Corrupt: the instant is no calendar time.
    """
    try:
        ms_of_instant(instant)
    except InvalidRequest as error:
        raise Corrupt(
            f"{path} has an instant that is no time",
            instant=instant,
            expected=error.expected,
            found=instant,
            next_step="no plan has this instant, so no row is at risk: delete the file",
        ) from error


def mark_swept(storage: Storage, timeline: Timeline, instant: Instant) -> None:
    """Record that the second sweep for files of an aborted plan is done."""
    storage.put(timeline.path(swept_name(instant.time, instant.action)), b"")


def queue_path(instant: str) -> str:
    """Return the path of the file that shows a requested cancel."""
    return f"{QUEUE}/{instant}"


def queue_cancel(storage: Storage, table_id: str, instant: str, slot: int) -> None:
    """Put the file that shows a requested cancel; every caller writes the same bytes."""
    storage.put(queue_path(instant), json.dumps({FORM: CANCEL_REQUEST, "table_id": table_id, "slot": slot}).encode())
