"""Holds: keep an instant readable for a consumer until a time (docs/protocol §21).

A hold needs no slot. A process that takes a hold puts its file and then reads the log. An executor of a clean claims its TAKEOVER
and then reads the holds. So at least one of the two sees the other.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from hudi_ops.clock import DURATION_MAX_S
from hudi_ops.commit.checks import completed_write
from hudi_ops.commit.session import Session
from hudi_ops.context import TableContext
from hudi_ops.errors import Corrupt, InvalidRequest, NotFound
from hudi_ops.formats.stored_forms import HOLD, HoldForm, refuse_newer
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.plans import CleanPlan, CleanResult, read_plan, read_result
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.head import reaching_back
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

FOLDER = ".hoodie/.holds"
_SUFFIX = ".json"


class _HoldFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    instant: str
    until_ms: int
    owner: str
    form: HoldForm = HOLD
    reason: str = ""


@dataclass(frozen=True)
class Hold:
    """Promise that reads as of `instant`, or later, stay possible for a time.

    It ends at `until_ms` (ms since 1970); `id` names its file; `owner` is the process or person that took it.
    """

    id: str
    instant: str
    until_ms: int
    owner: str
    purpose: str = ""

    @property
    def why(self) -> str:
        """Reason to keep a file or an instant, for people."""
        return f"hold {self.id} of {self.owner} keeps instant {self.instant}" + (
            f" ({self.purpose})" if self.purpose else ""
        )

    @property
    def path(self) -> str:
        """Path of its file below the table's root."""
        return f"{FOLDER}/{self.id}{_SUFFIX}"


def take_hold(session: Session, instant: str, seconds: float, *, owner: str = "", purpose: str = "") -> Hold:
    """Keep an instant readable for some seconds, and return the hold.

    Args:
        instant: request time of a completed write on the timeline.

    Raises:
        InvalidRequest: no completed write has this instant, or a clean that has begun, or completed, retains only later ones.
    """
    until_ms = _until_ms(session, seconds)
    completed_write(session.loader.load(), instant)
    hold = Hold(session.ctx.ids.new_id(), instant, until_ms, owner or str(session.ctx.owner), purpose)
    return _put(session, hold)


def renew_hold(session: Session, hold: Hold, seconds: float) -> Hold:
    """Let a hold end `seconds` from now, and return it.

    Raises:
        InvalidRequest: it expired, and a clean has begun since that retains only later instants.
    """
    until_ms = _until_ms(session, seconds)
    return _put(session, Hold(hold.id, hold.instant, until_ms, hold.owner, hold.purpose))


def _until_ms(session: Session, seconds: float) -> int:
    """Return when a hold that lasts for `seconds` ends.

    Raises:
        InvalidRequest: it would not last, or last for more than ten years.
    """
    if not 0 < seconds <= DURATION_MAX_S:
        raise InvalidRequest(
            "a hold must last, and end",
            expected=f"a time above 0 s, and of at most {DURATION_MAX_S // 86_400:,} days",
            found=f"{seconds:g} s",
            next_step="name a shorter time, and renew the hold; a savepoint has no end",
        )
    return session.ctx.clock.now_ms() + int(seconds * 1000)


def release_hold(session: Session, hold_id: str) -> bool:
    """Delete a hold; return False if there was none.

    Raises:
        InvalidRequest: the id cannot be that of a hold.
    """
    if not hold_id or "/" in hold_id or hold_id.startswith("."):
        raise InvalidRequest(
            f"{hold_id!r} is not the id of a hold",
            expected="an id as `hudi-ops hold list TABLE` shows it",
            found=repr(hold_id),
        )
    path = f"{FOLDER}/{hold_id}{_SUFFIX}"
    was_there = session.ctx.storage.head(path) is not None
    session.ctx.storage.delete(path)
    return was_there


def list_holds(storage: Storage) -> list[Hold]:
    """Return all holds of a table, expired ones included, oldest instant first.

    Raises:
        Corrupt: a file below `.hoodie/.holds` is no hold; it may protect something.
    """
    found = []
    for info in storage.list_folder(FOLDER).files:
        if not info.name.endswith(_SUFFIX):
            continue
        try:
            body = storage.get(info.path)
        except NotFound:
            continue  # released meanwhile
        try:
            said = _HoldFile.model_validate_json(body)
        except ValidationError as error:
            refuse_newer(body, HOLD, info.path)
            raise Corrupt(
                f"{info.path} is not a hold",
                expected="a JSON object with instant, until_ms and owner",
                found=str(error.errors()[0]["msg"]),
                next_step=f"delete it once its owner has ended: `hudi-ops hold release TABLE {info.name.removesuffix(_SUFFIX)}`",
            ) from error
        found.append(Hold(info.name.removesuffix(_SUFFIX), said.instant, said.until_ms, said.owner, said.reason))
    return sorted(found, key=lambda one: (one.instant, one.id))


def live_holds(ctx: TableContext, now_ms: int | None = None) -> Sequence[Hold]:
    """Return the holds that have not expired, oldest instant first.

    Args:
        ctx: storage and clock.
        now_ms: time in ms since 1970; None: by the clock.

    Raises:
        Corrupt: a file below `.hoodie/.holds` is no hold.
    """
    now_ms = ctx.clock.now_ms() if now_ms is None else now_ms
    return [hold for hold in list_holds(ctx.storage) if hold.until_ms > now_ms]


def drop_expired_holds(session: Session) -> int:
    """Delete the files of holds that expired more than a day ago; return their number."""
    before_ms = session.ctx.clock.now_ms() - 86_400_000
    expired = [hold for hold in list_holds(session.ctx.storage) if hold.until_ms < before_ms]
    for hold in expired:
        logger.info("hold %s of %s expired: deleted", hold.id, hold.owner)
        session.ctx.storage.delete(hold.path)
    return len(expired)


def _put(session: Session, hold: Hold) -> Hold:
    said = _HoldFile(instant=hold.instant, until_ms=hold.until_ms, owner=hold.owner, reason=hold.purpose)
    session.ctx.storage.put(hold.path, said.model_dump_json().encode())
    # Read the log after the put: an executor whose TAKEOVER is not in it yet will read the holds later, and find this one.
    state = session.loader.load()
    try:
        completed_write(state, hold.instant)
        _refuse_begun(session, state, hold.instant)
    except InvalidRequest:
        session.ctx.storage.delete(hold.path)
        raise
    return hold


def _refuse_begun(session: Session, state: TableState, instant: str) -> None:
    """Refuse a hold below the earliest retained instant of a clean that began or completed.

    The instant of the newest write is never refused, since no clean removes the files that it needs. After a restore it may be
    below the earliest instant that an earlier clean retained.

    Raises:
        InvalidRequest: names the clean.
    """
    if instant == state.timeline.completed_writes[-1].time:
        return
    for clean in (one for one in state.timeline if one.kind == "clean"):
        if not clean.is_completed and not is_begun(session, state, clean):
            continue
        earliest = _earliest_of(session.ctx.storage, state.timeline, clean)
        if instant < earliest:
            raise InvalidRequest(
                f"clean {clean.time} may have removed files that this instant needs",
                table=state.config.name,
                instant=instant,
                expected=f"an instant at or after {earliest}",
                found=f"clean {clean.time}, {'completed' if clean.is_completed else 'begun'}",
                next_step="hold a later instant; `hudi-ops timeline TABLE` shows them",
                clean=clean.time,
            )


def is_begun(session: Session, state: TableState, clean: Instant) -> bool:
    """Return whether an executor took a pending clean over, or another program may have."""
    if len(clean.states) > 1:
        return True  # an inflight file
    log = state.log
    return (
        log.takeover(clean.time) or reaching_back(session.ctx.storage, log, clean.time).takeover(clean.time)
    ) is not None


def _earliest_of(storage: Storage, timeline: Timeline, clean: Instant) -> str:
    """Return the earliest instant whose files a clean certainly keeps; empty: all of them.

    Without an earliest retained instant (policy by file versions) it is the newest write before the clean.
    """
    said = read_result(storage, timeline, clean) if clean.is_completed else read_plan(storage, timeline, clean)
    if not isinstance(said, CleanPlan | CleanResult):
        return ""
    # Count failed files, too: an executor that died may have deleted them, and the next executor names them as failed.
    named = said.files if isinstance(said, CleanPlan) else said.named
    if not any(named.values()):
        return ""
    before = (write.time for write in timeline.completed_writes if write.time < clean.time)
    return said.earliest_retained or max(before, default="")
