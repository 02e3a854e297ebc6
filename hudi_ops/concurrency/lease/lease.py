"""Leases: which process works on an instant, and its heartbeat. They are never proof.

The file is Apache Hudi's heartbeat (`.hoodie/.heartbeat/<instant>`): Hudi judges its change time and ignores its content. The
content names owner, role and table lock (docs/format §8.3).
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from hudi_ops.clock import Clock
from hudi_ops.concurrency.ended import begins, has_ended
from hudi_ops.concurrency.lock.locks import lock_of_table
from hudi_ops.context import Owner, TableContext
from hudi_ops.errors import AlreadyExists, HudiOpsError, NotFound, OutcomeUnknown
from hudi_ops.formats.stored_forms import FORM, LEASE, is_known_form
from hudi_ops.storage.protocol import FileInfo, Storage

logger = logging.getLogger(__name__)

FOLDER = ".hoodie/.heartbeat"
BEAT_INTERVAL_S = 30.0
EXPIRY_MS = 120_000
"""Apache Hudi's default expiry: two missed heartbeats of 60 s."""

LeaseRole = Literal["write", "plan", "execute", "rollback", "build"]
"""Work of the owner: write the instant, plan a service, execute a plan, roll back another instant, or build metadata partitions."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease on storage; foreign ones have no owner and no role. Times in ms since 1970 UTC.

    `lock` names the owner's table lock; empty if unknown. `has_ended`: it belongs to a failed attempt of this process.
    """

    instant: str
    owner: Owner | None
    role: str
    beaten_ms: int
    expires_ms: int
    lock: str = ""
    has_ended: bool = False

    def is_dead(self, clock: Clock) -> bool:
        """Return whether its process or attempt has ended, or it has expired for every reader."""
        if self.has_ended or (self.owner is not None and self.owner.is_gone()):
            return True
        return clock.now_ms() > self.expires_ms


class Renewal:
    """Renewal of one lease: called for each heartbeat, by any thread; several calls may overlap.

    It never recreates a removed lease, whose instant was closed. `beaten_s` is the monotonic time just before the lease was taken
    or last renewed.
    """

    def __init__(self, ctx: TableContext, instant: str, role: LeaseRole, beaten_s: float) -> None:
        self.storage = ctx.storage
        self.clock = ctx.clock
        self.instant = instant
        self.facts = lease_facts(ctx, role)
        self.look: Callable[[], None] = lambda: None
        """Function that reads the reports of a heartbeat process."""
        self._is_lost = False
        self._settled = threading.Event()
        self._guard = threading.Lock()
        self._beaten_s = beaten_s
        self._longest_s = 0.0

    def __call__(self) -> None:
        """Renew the lease once; log an error, as the next heartbeat may succeed."""
        started_s = self.clock.monotonic_s()
        try:
            if renew(self.storage, self.instant, self.facts, self.clock.now_ms()):
                self.beaten(started_s, self.clock.monotonic_s())
            else:
                self.lost()
            self.undo_if_settled()
        except HudiOpsError as error:
            logger.warning("lease of %s was not renewed: %s", self.instant, error)

    def beaten(self, started_s: float, ended_s: float) -> None:
        """Record a heartbeat that landed between two readings of the monotonic clock."""
        with self._guard:
            self._longest_s = max(self._longest_s, ended_s - self._beaten_s)
            self._beaten_s = max(self._beaten_s, started_s)

    def lost(self) -> None:
        """Record that the lease was removed or replaced."""
        if not self._is_lost:
            logger.warning("the lease of %s was removed or taken by another process", self.instant)
        self._is_lost = True

    def settle(self) -> None:
        """Announce the removal of the lease: a heartbeat that still hangs undoes itself."""
        self._settled.set()

    def undo_if_settled(self) -> None:
        """Remove the lease that a hung heartbeat recreated after `settle`."""
        if self._settled.is_set():
            discard(self.storage, self.instant, self.facts)

    @property
    def is_lost(self) -> bool:
        """Whether the lease was removed, or names another owner."""
        self.look()
        return self._is_lost

    @property
    def longest_gap_s(self) -> float:
        """Longest time between two landed heartbeats, or since the last one."""
        self.look()
        with self._guard:
            return max(self._longest_s, self.clock.monotonic_s() - self._beaten_s)


def lease_path(instant: str) -> str:
    """Return the path of an instant's lease."""
    return f"{FOLDER}/{instant}"


def lease_facts(ctx: TableContext, role: LeaseRole) -> dict[str, Any]:
    """Return the content of a lease that stays the same with every heartbeat."""
    return {"owner": asdict(ctx.owner), "role": role, "lock": lock_of_table(ctx).address}


def take_lease(ctx: TableContext, instant: str, role: LeaseRole = "write") -> bool:
    """Create the lease of a new instant; return False when the instant is taken."""
    body = _content(lease_facts(ctx, role), ctx.clock.now_ms(), ctx.ids.new_id())
    try:
        ctx.storage.put_if_absent(lease_path(instant), body)
    except (AlreadyExists, OutcomeUnknown):
        # After a lost reply the name looks taken: only the stored bytes tell by which process.
        try:
            if ctx.storage.get(lease_path(instant)) != body:
                return False
        except NotFound:
            return False
    begins(ctx, instant)
    return True


def inherit_lease(ctx: TableContext, instant: str, role: LeaseRole) -> None:
    """Take over a dead lease; log a failure, as the TAKEOVER decides and not the lease."""
    try:
        begins(ctx, instant)
        ctx.storage.put(lease_path(instant), _content(lease_facts(ctx, role), ctx.clock.now_ms()))
    except HudiOpsError as error:
        logger.warning("lease of %s was not renewed: %s", instant, error)


def renew(storage: Storage, instant: str, facts: Mapping[str, Any], now_ms: int) -> bool:
    """Renew a lease; return False, without a write, when it is gone or has another owner."""
    is_ours = _is_ours(storage, instant, facts)
    if is_ours:
        storage.put(lease_path(instant), _content(facts, now_ms))
    return is_ours


def discard(storage: Storage, instant: str, facts: Mapping[str, Any]) -> None:
    """Remove a lease if it is ours: recreated by a late heartbeat, or not wanted."""
    if _is_ours(storage, instant, facts):
        storage.delete(lease_path(instant))


def warn_other_lock(ctx: TableContext, lease: Lease) -> None:
    """Warn about a live lease under another table lock: safe, but the writers lose work."""
    if is_under_other_lock(ctx, lease):
        logger.warning(
            "%s works on %s under the lock %s, this process under %s: they do not exclude each other. Give both the same `lock`",
            lease.owner,
            lease.instant,
            lease.lock,
            lock_of_table(ctx).address,
        )


def is_under_other_lock(ctx: TableContext, lease: Lease) -> bool:
    """Return whether a lease is live, and its owner uses another table lock than this process."""
    is_other = lease.lock not in {"", lock_of_table(ctx).address} and lease.owner != ctx.owner
    return is_other and not lease.is_dead(ctx.clock)


def drop_lease(ctx: TableContext, instant: str) -> None:
    """Remove the lease of a closed instant."""
    ctx.storage.delete(lease_path(instant))


def read_lease(storage: Storage, instant: str) -> Lease | None:
    """Read the lease of an instant; None without one."""
    info = storage.head(lease_path(instant))
    if info is None:
        return None
    try:
        body = storage.get(lease_path(instant))
    except NotFound:
        return None
    by_time = _by_time(info)
    try:
        said = json.loads(body)
        if not is_known_form(said, LEASE):
            return by_time  # a newer release may say in another way who the owner is
        # The storage's clock may lag behind, so the later of its time and the writer's counts.
        beaten_ms = max(info.modified_ms, int(said.get("beaten_ms", 0)))
        owner = Owner(**said["owner"])
        return Lease(
            instant=instant,
            owner=owner,
            role=str(said.get("role", "write")),
            beaten_ms=beaten_ms,
            expires_ms=max(beaten_ms + EXPIRY_MS, int(said.get("expires_ms", 0))),
            lock=str(said.get("lock", "")),
            has_ended=has_ended(storage.uri, instant, owner),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return by_time


def list_leases(storage: Storage) -> list[str]:
    """Return the instants with a lease."""
    # Apache Hudi leaves checksum files beside its heartbeats on a local disk.
    return [info.name for info in storage.list_folder(FOLDER).files if info.name.isdecimal()]


def oldest_leases(storage: Storage, count: int) -> tuple[dict[str, Lease], dict[str, Lease]]:
    """Read at most `count` leases, those with the oldest beats; return them and the others.

    The others have no owner, no role and no own expiry: only the listing is known of them. Both are by instant.
    """
    files = sorted(
        (info for info in storage.list_folder(FOLDER).files if info.name.isdecimal()),
        key=lambda info: (info.modified_ms, info.name),
    )
    read = {info.name: read_lease(storage, info.name) for info in files[:count]}
    others = {info.name: _by_time(info) for info in files[count:]}
    return {instant: lease for instant, lease in read.items() if lease is not None}, others


def _by_time(info: FileInfo) -> Lease:
    return Lease(info.name, None, "", info.modified_ms, info.modified_ms + EXPIRY_MS)


def _is_ours(storage: Storage, instant: str, facts: Mapping[str, Any]) -> bool:
    try:
        return bool(json.loads(storage.get(lease_path(instant)))["owner"] == facts["owner"])
    except (NotFound, ValueError, KeyError, TypeError, RecursionError):
        return False


def _content(facts: Mapping[str, Any], now_ms: int, taken: str = "") -> bytes:
    times = {"beaten_ms": now_ms, "expires_ms": now_ms + EXPIRY_MS}
    return json.dumps({FORM: LEASE, **facts, **times, "taken": taken}).encode()
