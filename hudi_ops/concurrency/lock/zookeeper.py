"""Table lock over ZooKeeper, shared with Apache Hudi's own writers.

Its nodes look like those of Curator's `InterProcessMutex`, so that both exclude each other. Every wait has a limit, and a partial
failure ends the session: a leftover node in line would block every writer.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from kazoo.exceptions import AuthFailedError, NoAuthError, NoNodeError
from kazoo.protocol.states import KazooState

from hudi_ops.clock import SystemClock, ToldTime
from hudi_ops.concurrency.lock.lock_nodes import busy, from_node_data, in_line, lock_path, to_node_data
from hudi_ops.concurrency.lock.locks import Held, LockHolder
from hudi_ops.concurrency.lock.zookeeper_session import FAILURES, OURS, CuratorLock, end_session, new_client
from hudi_ops.config.zookeeper_settings import ZooKeeperSettings
from hudi_ops.errors import InvalidRequest, Unavailable

logger = logging.getLogger(__name__)

# A holder that waited longer than this updates the start of its hold.
_STALE_SINCE_S = 1.0
# How often nodes may vanish between two reads before it is an error.
_VANISHED_TRIES = 20


class ZooKeeperLock:
    """`LockProvider` over ZooKeeper that excludes Apache Hudi's `ZookeeperBasedLockProvider`.

    One session per lock, opened by its first use and kept; usable by many threads, only in the process that opened it.

    Args:
        hosts: ZooKeeper's connect string, as in `hoodie.write.lock.zookeeper.url`.
        base_path: `hoodie.write.lock.zookeeper.base_path`, beginning with `/`.
        lock_key: `hoodie.write.lock.zookeeper.lock_key`, by default in Hudi the table's name.
        session_timeout_s: time without a sign of life after which ZooKeeper passes the lock on.
        connect_timeout_s: longest wait for a connection, and for each answer.
        owner: this process, as shown to other waiters.
        run: the Airflow run or application, if any.
        settings: credentials and TLS; None: neither.

    Raises:
        InvalidRequest: hosts, path or key cannot be used.
        Unsupported: SASL without its package.

    Source: docs/format §8.4.
    """

    def __init__(
        self,
        hosts: str,
        base_path: str,
        lock_key: str,
        *,
        session_timeout_s: float = 15.0,
        connect_timeout_s: float = 10.0,
        owner: str,
        run: str = "",
        settings: ZooKeeperSettings | None = None,
    ) -> None:
        self.has_foreign_writers: bool | None = None
        """Whether foreign writers, which an access list would exclude, share the table; None: unknown."""
        self._settings = settings or ZooKeeperSettings()
        self.hosts = hosts
        self.path = lock_path(base_path, lock_key)
        self._session_timeout_s = session_timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._owner = owner
        self._run = run
        self._guard = threading.Lock()
        self._client: Any = None
        self._live: Any = None
        self._pid = os.getpid()
        self.told: ToldTime | None = None
        """Creation time of this process's newest lock node, by ZooKeeper's clock."""
        # This does not connect; it refuses an invalid connect string early.
        new_client(hosts, session_timeout_s, connect_timeout_s, settings=self._settings)

    def __reduce__(self) -> tuple[Any, ...]:
        raise InvalidRequest(
            f"the ZooKeeper lock {self.path} cannot be sent to another process",
            next_step="keep the lock, and the table object that has it, out of functions that run on Spark executors.",
        )

    @contextmanager
    def acquire(self, timeout_s: float, purpose: str) -> Iterator[Held]:
        """Wait for the lock, hold it inside the `with` block, release it at its end.

        An unconfirmed release raises nothing: it ends the session, which releases the lock too. Connecting may take up to
        `connect_timeout_s` in addition to `timeout_s`.

        Raises:
            Busy: not acquired in time; names the holder.
            Unavailable: no server answers.
            InvalidRequest: the lock was used in another process before.
        """
        held = self._acquire(timeout_s, purpose)
        try:
            yield held
        finally:
            self._release(held)

    @property
    def address(self) -> str:
        """URL `zookeeper://host:port/base/path/key`."""
        return f"zookeeper://{self.hosts}{self.path}"

    @property
    def shares_credentials(self) -> bool:
        """Whether the settings declare that foreign writers use the same credentials."""
        return self._settings.shares_credentials

    def holder(self) -> LockHolder | None:
        """Return the current holder, or None; raise as `line` does."""
        return next(iter(self._line(1)), None)

    def line(self) -> list[LockHolder]:
        """Return the holder, then the waiters in order, each with its time of arrival.

        Raises:
            Unavailable: no server answers.
            InvalidRequest: the lock was used in another process before.
        """
        return self._line(None)

    def protect(self) -> None:
        """Restrict the lock to clients with the configured credentials, also where its node exists.

        Raises:
            InvalidRequest: no credentials are configured, or the node is protected by other credentials.
            Unavailable: no server answers.
        """
        if not self._settings.has_credentials:
            raise InvalidRequest(
                f"the lock {self.path} cannot be protected without credentials",
                expected="settings for ZooKeeper with auth: digest or sasl",
                next_step="declare `zookeeper` in tables.yaml, or set HUDI_OPS_ZOOKEEPER_AUTH, _USER and _PASSWORD",
            )
        client = self._connected()
        try:
            client.retry(client.ensure_path, self.path)
            client.retry(client.set_acls, self.path, OURS)
        except (NoAuthError, AuthFailedError) as error:
            raise self._unauthorised() from error
        except FAILURES as error:
            raise self._unavailable("it could not be protected") from error

    def close(self) -> None:
        """End the session and release the lock; the next use opens another session."""
        client = self._client
        if client is not None and self._pid == os.getpid():
            self._give_up(client)

    def _acquire(self, timeout_s: float, purpose: str) -> _HeldNode:
        deadline_s = time.monotonic() + timeout_s
        client = self._connected()
        try:
            held = self._stand_in_line(client, purpose, deadline_s)
            ahead = [] if held else client.retry(self._read_line, client, 1)
        except (NoAuthError, AuthFailedError) as error:
            self._give_up(client)
            raise self._unauthorised() from error
        except FAILURES as error:
            self._give_up(client)
            raise self._unavailable(f"it could not be taken for {purpose}") from error
        except BaseException:
            # An interrupt (Ctrl-C, a task's time limit) must not leave a node in line.
            self._give_up(client)
            raise
        if held is None:
            raise busy(self.path, next(iter(ahead), None), timeout_s)
        return held

    def _stand_in_line(self, client: Any, purpose: str, deadline_s: float) -> _HeldNode | None:
        me = LockHolder(self._owner, socket.gethostname(), purpose, SystemClock().now_ms(), self._run)
        for _ in range(_VANISHED_TRIES):
            asked_s = time.monotonic()
            lock = CuratorLock(client, self.path, to_node_data(me), deadline_s, self._access_list())
            try:
                if lock.wait():
                    return self._hold(client, lock, me, asked_s)
                client.retry(self._forget, client, lock)
                return None
            except NoNodeError:
                # Curator creates the parents as container nodes, which the server removes when they are empty.
                with suppress(NoNodeError):
                    client.retry(self._forget, client, lock)
                if time.monotonic() >= deadline_s:
                    return None
        raise self._unavailable(f"its node vanished {_VANISHED_TRIES} times; a chroot in the hosts must exist")

    def _hold(self, client: Any, lock: CuratorLock, me: LockHolder, asked_s: float) -> _HeldNode:
        node = f"{self.path}/{lock.node}"
        # Listen before the check, so that a loss in between is seen by one of them.
        held = _HeldNode(client, node)
        client.add_listener(held.on_state)
        try:
            now_ms = SystemClock().now_ms()
            if now_ms - me.since_ms > _STALE_SINCE_S * 1000:
                stat = client.retry(client.set, node, to_node_data(replace(me, since_ms=now_ms)).encode())
            else:
                stat = client.retry(client.exists, node)
            if not held.found(stat):
                raise NoNodeError
            self.told = ToldTime(f"ZooKeeper at {self.hosts}", stat.ctime, asked_s)
        except BaseException:
            client.remove_listener(held.on_state)
            raise
        logger.debug("took %s for %s, token %s", node, me.purpose, held.token)
        return held

    def _release(self, held: _HeldNode) -> None:
        was_lost, held.lost = held.lost, True
        if held.pid != os.getpid():
            return  # a forked child leaves its parent's `with` blocks too
        held.client.remove_listener(held.on_state)
        if was_lost:
            logger.warning("the lock %s was lost while it was held: other processes may have held it", self.path)
        if held.client is not self._client:
            return  # its session ended, and the node with it
        try:
            # Retried for a while: without an answer the lock stays taken until the session times out.
            held.client.retry(held.client.delete, held.node)
        except NoNodeError:
            pass
        except FAILURES as error:
            logger.warning("ZooKeeper at %s did not confirm the release of %s: %r", self.hosts, self.path, error)
            self._give_up(held.client)

    def _forget(self, client: Any, lock: CuratorLock) -> None:  # kazoo does this too, but hides failures
        for child in client.get_children(self.path):
            if child.startswith(lock.prefix):
                client.delete(f"{self.path}/{child}")

    def _line(self, limit: int | None) -> list[LockHolder]:
        client = self._connected()
        try:
            holders: list[LockHolder] = client.retry(self._read_line, client, limit)
        except FAILURES as error:
            raise self._unavailable("its holder could not be read") from error
        return holders

    def _read_line(self, client: Any, limit: int | None) -> list[LockHolder]:
        for _ in range(_VANISHED_TRIES):
            holders = []
            try:
                for child in in_line(client.get_children(self.path))[:limit]:
                    data, stat = client.get(f"{self.path}/{child}")
                    holders.append(from_node_data(data, stat.ctime))
            except NoNodeError:
                if client.exists(self.path) is None:
                    return []
                continue  # a node vanished: read again
            return holders
        return []

    def _connected(self) -> Any:
        with self._guard:
            if self._client is None:
                self._client = new_client(
                    self.hosts, self._session_timeout_s, self._connect_timeout_s, settings=self._settings
                )
                self._pid = os.getpid()
                # Once per client: a second call on a reconnecting one would wait for its own threads.
                self._live = self._client.start_async()
            elif self._pid != os.getpid():
                raise InvalidRequest(
                    f"the ZooKeeper lock {self.path} was opened by process {self._pid} and is used in {os.getpid()}",
                    next_step="open the table again in the process that was forked.",
                )
            client, live = self._client, self._live
        if not live.wait(self._connect_timeout_s):
            self._give_up(client)
            raise self._unavailable(f"no server answered within {self._connect_timeout_s:g} s")
        return client

    def _give_up(self, client: Any) -> None:
        with self._guard:
            if self._client is client:
                self._client = None
        end_session(client)

    def _access_list(self) -> list[Any] | None:
        is_shared = self.has_foreign_writers is not False and not self.shares_credentials
        return None if is_shared or not self._settings.has_credentials else OURS

    def _unauthorised(self) -> InvalidRequest:
        return InvalidRequest(
            f"ZooKeeper at {self.hosts} does not let these credentials take the lock {self.path}",
            expected="the credentials of the other writers of this table",
            found="other credentials" if self._settings.has_credentials else "none",
            next_step="correct `zookeeper` in tables.yaml, or the environment variables HUDI_OPS_ZOOKEEPER_*",
        )

    def _unavailable(self, why: str) -> Unavailable:
        is_secured = self._settings.tls or self._settings.has_credentials
        return Unavailable(
            f"the lock {self.path} over ZooKeeper at {self.hosts}: {why}",
            next_step="check that ZooKeeper runs and can be reached (the embedded one: `hudi-ops zookeeper status`)"
            + (", and that it takes these credentials and certificates" if is_secured else ""),
            hosts=self.hosts,
        )


class _HeldNode:
    """One acquisition: the lock node and the state of its session."""

    def __init__(self, client: Any, node: str) -> None:
        self.client = client
        self.node = node
        self.lost = False
        self.token = 0
        self._session_id = 0
        self.pid = os.getpid()

    def still_mine(self) -> bool:
        # While suspended, do not decide; the same session may reconnect.
        if self.lost or self.pid != os.getpid() or self.client.state != KazooState.CONNECTED:
            return False
        try:
            # Ask the server: after a pause kazoo's threads learn late that the session has ended, and no state of theirs shows
            # that a node was deleted by hand.
            stat = self.client.exists(self.node)
        except FAILURES:
            return False
        if stat is None or not self._is_mine(stat):
            self.lost = True
        return not self.lost and self.client.state == KazooState.CONNECTED

    def on_state(self, state: str) -> None:
        if state == KazooState.LOST:
            self.lost = True

    def found(self, stat: Any) -> bool:
        """Record the node's identity; return False if it vanished or its session has ended."""
        if stat is not None:
            self.token, self._session_id = stat.czxid, stat.ephemeralOwner
        return stat is not None and self._is_mine(stat)

    def _is_mine(self, stat: Any) -> bool:
        client_id = self.client.client_id
        session_id = client_id[0] if client_id else None
        return bool(stat.czxid == self.token and stat.ephemeralOwner == self._session_id == session_id)
