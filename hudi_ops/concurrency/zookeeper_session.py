"""Sessions with ZooKeeper in which every wait has a limit, and kazoo's recipe of a lock in Curator's words."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, LockTimeout
from kazoo.handlers.threading import AsyncResult, KazooTimeoutError, SequentialThreadingHandler
from kazoo.recipe.lock import Lock

from hudi_ops.concurrency.lock_nodes import NODE_NAME
from hudi_ops.errors import InvalidRequest, Unavailable

logger = logging.getLogger(__name__)

FAILURES = (KazooException, KazooTimeoutError, OSError)
"""What kazoo raises when a server does not answer, or not as it should."""

# How long giving a session up may keep the caller; it goes on in the background.
_FAREWELL_S = 2.0


class CuratorLock(Lock):  # type: ignore[misc]
    """kazoo's recipe with Curator's node names, and one deadline over all its waits."""

    _NODE_NAME = NODE_NAME
    _EXCLUDE_NAMES = [NODE_NAME]  # noqa: RUF012

    def __init__(self, client: Any, path: str, identifier: str, deadline_s: float) -> None:
        super().__init__(client, path, identifier)
        self._deadline_s = deadline_s
        self.wake_event = _DeadlineEvent(deadline_s)

    def wait(self) -> bool:
        """Whether the lock was acquired before the deadline."""
        try:
            return bool(self.acquire(timeout=max(0.0, self._deadline_s - time.monotonic())))
        except LockTimeout:
            return False


class _DeadlineEvent(threading.Event):
    """An event whose waits end at one deadline; kazoo starts its limit anew for each node ahead in line."""

    def __init__(self, deadline_s: float) -> None:
        super().__init__()
        self._deadline_s = deadline_s

    def wait(self, timeout: float | None = None) -> bool:
        left_s = max(0.0, self._deadline_s - time.monotonic())
        return super().wait(left_s if timeout is None else min(timeout, left_s))


class _PatientResult(AsyncResult):  # type: ignore[misc]
    """An answer that is awaited for so long and no longer; kazoo's synchronous calls have no limit of their own."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        return super().get(block, self._handler.answer_timeout_s if timeout is None else timeout)


class _PatientHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads, with a limit for every answer."""

    def __init__(self, answer_timeout_s: float) -> None:
        super().__init__()
        self.answer_timeout_s = answer_timeout_s

    def async_result(self) -> _PatientResult:
        return _PatientResult(self)


def new_client(hosts: str, session_timeout_s: float, answer_timeout_s: float, log: logging.Logger | None = None) -> Any:
    """A client that is not connected yet.

    Raises:
        InvalidRequest: no connect string.
    """
    try:
        return KazooClient(
            hosts or ",",  # kazoo would take nothing for port 2181 of this machine
            timeout=session_timeout_s,
            handler=_PatientHandler(answer_timeout_s),
            # kazoo's own pause between tries grows to a minute, longer than any session lasts.
            connection_retry={"max_tries": -1, "max_delay": 1.0},
            command_retry={"max_tries": -1, "max_delay": 1.0, "deadline": answer_timeout_s},
            logger=log,
        )
    except ValueError as error:
        what = f"{hosts!r} is no ZooKeeper connect string ({error})"
        raise InvalidRequest(what, expected="host:port[,host:port…][/chroot]", found=hosts) from error


def end_session(client: Any) -> None:
    """Close the session, in the background where the server does not answer; it times out there in any case."""

    def farewell() -> None:
        try:
            client.stop()
            client.close()
        except Exception:  # kazoo raises bare ones here, and nothing is left to be done
            logger.debug("a ZooKeeper session could not be closed and will time out", exc_info=True)

    thread = threading.Thread(target=farewell, name="zookeeper-farewell", daemon=True)
    thread.start()
    thread.join(_FAREWELL_S)


def probe(hosts: str, timeout_s: float) -> None:
    """Create and delete a node: a server that only listens, or only says `imok`, may still not serve.

    Args:
        hosts: ZooKeeper's connect string.
        timeout_s: longest wait for the connection, and again for each of the two answers.

    Raises:
        Unavailable: the operation did not succeed in time.
    """
    # Its own logger: failing is what a probe is for, so kazoo's warnings would only be noise.
    client = new_client(hosts, timeout_s, answer_timeout_s=timeout_s, log=logging.Logger("probe", logging.CRITICAL + 1))
    try:
        if not client.start_async().wait(timeout_s):
            raise Unavailable(f"no ZooKeeper server at {hosts} answered within {timeout_s:g} s", hosts=hosts)
        node = f"/hudi-ops-probe-{uuid.uuid4().hex}"
        client.create(node, b"", ephemeral=True)
        client.delete(node)
    except FAILURES as error:
        raise Unavailable(f"ZooKeeper at {hosts} was reached and does not serve: {error!r}", hosts=hosts) from error
    finally:
        end_session(client)
