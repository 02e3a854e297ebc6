"""Leases: who works on an instant, and whether it still beats. A lease says when to try; it never says who wins.

The file is Apache Hudi's heartbeat (`.hoodie/.heartbeat/<instant>`): its change time is the beat that Hudi judges, its content,
which Hudi ignores, names our owner, its role and the lock that it takes (docs/format.md §8.3).
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
from hudi_ops.storage.protocol import Storage

logger = logging.getLogger(__name__)

FOLDER = ".hoodie/.heartbeat"
BEAT_INTERVAL_S = 30.0
EXPIRY_MS = 120_000
"""Apache Hudi's default judgement: two missed beats of 60 s."""

LeaseRole = Literal["write", "plan", "execute", "rollback", "build"]
"""What the owner does with the instant: write it, plan a service, execute what was planned, undo another one by it, or build
partitions of the metadata table at it."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as found on storage. Heartbeats that Apache Hudi wrote have no owner and no role; times in ms since 1970 UTC.

    `lock` names the table lock that the owner takes; empty where it is not known. `has_ended`: it is of an attempt of this very
    process, and that one has failed.
    """

    instant: str
    owner: Owner | None
    role: str
    beaten_ms: int
    expires_ms: int
    lock: str = ""
    has_ended: bool = False

    def is_dead(self, clock: Clock) -> bool:
        """True when its process or attempt has ended, or its last beat lies further back than any judge allows."""
        if self.has_ended or (self.owner is not None and self.owner.is_gone()):
            return True
        return clock.now_ms() > self.expires_ms


class Renewal:
    """Keeps one lease fresh: called whenever a beat is due, from whatever thread or process beats; usable by several at once.

    It never makes a lease that is gone: whoever removed it had settled the instant.

    Args:
        ctx: components of the table.
        instant: whose lease it is.
        role: what the owner does with it.
        beaten_s: the monotonic clock just before the lease was taken, or last renewed.
    """

    def __init__(self, ctx: TableContext, instant: str, role: LeaseRole, beaten_s: float) -> None:
        self.storage = ctx.storage
        self.clock = ctx.clock
        self.instant = instant
        self.facts = lease_facts(ctx, role)
        self.look: Callable[[], None] = _nothing
        """Takes in what another process that beats has to tell."""
        self.when_settled: Callable[[], object] = _nothing
        """Tells another process, in which a beat hangs, that it must undo itself."""
        self._is_lost = False
        self._settled = threading.Event()
        self._guard = threading.Lock()
        self._beaten_s = beaten_s
        self._longest_s = 0.0

    def __call__(self) -> None:
        """Renew it once. A beat that fails is logged: the next one may succeed, and nothing relies on it for safety."""
        started_s = self.clock.monotonic_s()
        try:
            if renew(self.storage, self.instant, self.facts, self.clock.now_ms()):
                self.beaten(started_s, self.clock.monotonic_s())
            else:
                self.lost()
            if self._settled.is_set():
                # This beat hung while its instant was settled, and may have made the lease again.
                discard(self.storage, self.instant, self.facts)
        except HudiOpsError as error:
            logger.warning("lease of %s was not renewed: %s", self.instant, error)

    def beaten(self, started_s: float, ended_s: float) -> None:
        """Note a beat that landed some time between two readings of the monotonic clock."""
        with self._guard:
            self._longest_s = max(self._longest_s, ended_s - self._beaten_s)
            self._beaten_s = max(self._beaten_s, started_s)

    def lost(self) -> None:
        """Note that the lease is gone, or somebody else's."""
        if not self._is_lost:
            logger.warning("the lease of %s was removed, or taken, by somebody else", self.instant)
        self._is_lost = True

    def settle(self) -> None:
        """Say that the lease is about to be removed: a beat that is still under way undoes itself."""
        self._settled.set()
        self.when_settled()

    @property
    def is_lost(self) -> bool:
        """The lease is gone, or names somebody else."""
        self.look()
        return self._is_lost

    @property
    def longest_gap_s(self) -> float:
        """Longest time between two beats that landed, or since the last one."""
        self.look()
        with self._guard:
            return max(self._longest_s, self.clock.monotonic_s() - self._beaten_s)


def lease_path(instant: str) -> str:
    """Path of an instant's lease."""
    return f"{FOLDER}/{instant}"


def lease_facts(ctx: TableContext, role: LeaseRole) -> dict[str, Any]:
    """What a lease says of its owner; the same with every beat."""
    return {"owner": asdict(ctx.owner), "role": role, "lock": lock_of_table(ctx).address}


def take_lease(ctx: TableContext, instant: str, role: LeaseRole = "write") -> bool:
    """Create the lease of a new instant; False when the instant is taken already."""
    body = _content(lease_facts(ctx, role), ctx.clock.now_ms(), ctx.ids.new_id())
    try:
        ctx.storage.put_if_absent(lease_path(instant), body)
    except (AlreadyExists, OutcomeUnknown):
        # A lost reply looks like a name that is taken: only what lies there tells.
        try:
            if ctx.storage.get(lease_path(instant)) != body:
                return False
        except NotFound:
            return False
    begins(ctx, instant)
    return True


def inherit_lease(ctx: TableContext, instant: str, role: LeaseRole) -> None:
    """Put our name on the lease of an instant whose owner is gone. A failure is logged: a TAKEOVER decides, not the lease."""
    try:
        begins(ctx, instant)
        ctx.storage.put(lease_path(instant), _content(lease_facts(ctx, role), ctx.clock.now_ms()))
    except HudiOpsError as error:
        logger.warning("lease of %s was not renewed: %s", instant, error)


def renew(storage: Storage, instant: str, facts: Mapping[str, Any], now_ms: int) -> bool:
    """Write a lease anew.

    Returns:
        False when it is gone, or somebody else's: then nothing was written.
    """
    is_ours = _is_ours(storage, instant, facts)
    if is_ours:
        storage.put(lease_path(instant), _content(facts, now_ms))
    return is_ours


def discard(storage: Storage, instant: str, facts: Mapping[str, Any]) -> None:
    """Remove a lease if it is ours: one that a late beat made again, or whose name is not wanted."""
    if _is_ours(storage, instant, facts):
        storage.delete(lease_path(instant))


def warn_other_lock(ctx: TableContext, lease: Lease) -> None:
    """Writers with different locks do not wait for each other: safe by the slots, but they lose work to each other."""
    mine = lock_of_table(ctx).address
    if not lease.lock or lease.lock == mine or lease.owner == ctx.owner or lease.is_dead(ctx.clock):
        return
    logger.warning(
        "%s works on %s under the lock %s, this process under %s: they do not exclude each other. Give both the same `lock`",
        lease.owner,
        lease.instant,
        lease.lock,
        mine,
    )


def drop_lease(ctx: TableContext, instant: str) -> None:
    """Remove a lease; the instant must be settled by then."""
    ctx.storage.delete(lease_path(instant))


def read_lease(storage: Storage, instant: str) -> Lease | None:
    """The lease of an instant, or None."""
    info = storage.head(lease_path(instant))
    if info is None:
        return None
    try:
        body = storage.get(lease_path(instant))
    except NotFound:
        return None
    try:
        said = json.loads(body)
        # The storage's clock may lag behind everybody's: the writer's own word counts too, and the later of the two.
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
        return Lease(instant, None, "", info.modified_ms, info.modified_ms + EXPIRY_MS)


def list_leases(storage: Storage) -> list[str]:
    """Instants that have a lease."""
    # Beside its own, Apache Hudi leaves checksum files on a local disk.
    return [info.name for info in storage.list_folder(FOLDER).files if info.name.isdecimal()]


def _is_ours(storage: Storage, instant: str, facts: Mapping[str, Any]) -> bool:
    try:
        return bool(json.loads(storage.get(lease_path(instant)))["owner"] == facts["owner"])
    except (NotFound, ValueError, KeyError, TypeError, RecursionError):
        return False


def _nothing() -> None:
    """Beats of this process have nothing to tell, and see by themselves what was settled."""


def _content(facts: Mapping[str, Any], now_ms: int, taken: str = "") -> bytes:
    times = {"beaten_ms": now_ms, "expires_ms": now_ms + EXPIRY_MS}
    return json.dumps({**facts, **times, "taken": taken}).encode()
