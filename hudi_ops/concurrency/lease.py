"""Leases: who works on an instant, and whether it still beats. A lease says when to try; it never says who wins.

The file is Apache Hudi's heartbeat (`.hoodie/.heartbeat/<instant>`): its change time is the beat that Hudi judges, its content,
which Hudi ignores, names our owner (docs/format.md §8.3).
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass

from hudi_ops.clock import Clock
from hudi_ops.context import Owner, TableContext
from hudi_ops.errors import AlreadyExists, HudiOpsError, NotFound, OutcomeUnknown
from hudi_ops.storage.protocol import Storage

logger = logging.getLogger(__name__)

FOLDER = ".hoodie/.heartbeat"
BEAT_INTERVAL_S = 30.0
EXPIRY_MS = 120_000
"""Apache Hudi's default judgement: two missed beats of 60 s."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as found on storage. `owner` is None for heartbeats that Apache Hudi wrote; times in ms since 1970 UTC."""

    instant: str
    owner: Owner | None
    beaten_ms: int

    def is_dead(self, clock: Clock) -> bool:
        """True when its process has ended, or its last beat lies further back than any judge allows."""
        if self.owner is not None and self.owner.is_gone():
            return True
        return clock.now_ms() - self.beaten_ms > EXPIRY_MS


def lease_path(instant: str) -> str:
    """Path of an instant's lease."""
    return f"{FOLDER}/{instant}"


def take_lease(ctx: TableContext, instant: str) -> bool:
    """Create the lease of a new instant; False when the instant is taken already."""
    body = _content(ctx, ctx.ids.new_id())
    try:
        ctx.storage.put_if_absent(lease_path(instant), body)
    except (AlreadyExists, OutcomeUnknown):
        # A lost reply looks like a name that is taken: only what lies there tells.
        try:
            return ctx.storage.get(lease_path(instant)) == body
        except NotFound:
            return False
    return True


def beat(ctx: TableContext, instant: str) -> None:
    """Renew a lease. A beat that fails is logged: the next one may succeed, and nothing relies on it for safety."""
    try:
        ctx.storage.put(lease_path(instant), _content(ctx))
    except HudiOpsError as error:
        logger.warning("lease of %s was not renewed: %s", instant, error)


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
        return Lease(instant, Owner(**said["owner"]), max(info.modified_ms, int(said.get("beaten_ms", 0))))
    except (ValueError, KeyError, TypeError):
        return Lease(instant, None, info.modified_ms)


def list_leases(storage: Storage) -> list[str]:
    """Instants that have a lease."""
    return [info.name for info in storage.list_folder(FOLDER).files]


def _content(ctx: TableContext, taken: str = "") -> bytes:
    return json.dumps({"owner": asdict(ctx.owner), "beaten_ms": ctx.clock.now_ms(), "taken": taken}).encode()
