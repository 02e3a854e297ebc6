"""Restrict a table's lock to clients with the configured credentials.

Other clients then cannot delete a lock that is held.
"""

from __future__ import annotations

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers
from hudi_ops.concurrency.lock.locks import Guarded, lock_of_table
from hudi_ops.errors import InvalidRequest, Unsupported


def protect_lock(session: Session) -> str:
    """Set the access list of the parent of the lock nodes, and return the lock's address.

    Raises:
        InvalidRequest: no credentials are configured; or Apache Hudi's writers would be kept from the lock.
        Unsupported: a lock without nodes.
        Unavailable: the lock service does not answer.
    """
    lock = lock_of_table(session.ctx)
    if not isinstance(lock, Guarded):
        raise Unsupported(
            "this table's lock has no nodes to protect",
            table=session.ctx.storage.uri,
            expected="a lock over ZooKeeper",
            found=lock.address,
            next_step="declare `lock: zookeeper://…` in tables.yaml",
        )
    state = session.loader.load()
    if not lock.shares_credentials and has_foreign_writers(session.ctx.storage, session.commits, state):
        raise InvalidRequest(
            "foreign writers share this table: without our credentials they could no longer take its lock",
            table=state.config.name,
            expected="a table that only hudi-ops writes, or `shares_credentials: true`",
            found="a table that was adopted, or that a foreign writer writes",
            next_step="give them the same credentials, then declare `shares_credentials: true` under `zookeeper` in tables.yaml",
        )
    lock.protect()
    return lock.address
