"""ZooKeeper sessions with limited waits, and kazoo's lock recipe with Curator's names."""

from __future__ import annotations

import importlib.util
import logging
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, LockTimeout, NodeExistsError
from kazoo.handlers.threading import AsyncResult, KazooTimeoutError, SequentialThreadingHandler
from kazoo.recipe.lock import Lock
from kazoo.security import ACL, ANYONE_ID_UNSAFE, AUTH_IDS, OPEN_ACL_UNSAFE, Permissions

from hudi_ops.concurrency.lock.lock_nodes import NODE_NAME
from hudi_ops.config.zookeeper_settings import ZooKeeperSettings
from hudi_ops.errors import InvalidRequest, Unavailable, Unsupported
from hudi_ops.redaction import RedactingFilter

logger = logging.getLogger(__name__)

FAILURES = (KazooException, KazooTimeoutError, OSError)
"""Exceptions of kazoo when a server gives no answer, or an invalid one."""

OURS = [ACL(Permissions.ALL, AUTH_IDS), ACL(Permissions.READ, ANYONE_ID_UNSAFE)]
"""All rights for our credentials, read for others. On the parent of lock nodes it forbids others to delete lock nodes."""

# kazoo logs each request, with its credentials.
_KAZOO_LOG = logging.getLogger("kazoo.hudi_ops")
_KAZOO_LOG.addFilter(RedactingFilter())

# Longest time for which the end of a session delays the caller, in seconds; it then continues in the background.
_FAREWELL_S = 2.0


class CuratorLock(Lock):  # type: ignore[misc]
    """kazoo's lock recipe with Curator's node names, and one deadline for all its waits."""

    _NODE_NAME = NODE_NAME
    _EXCLUDE_NAMES = [NODE_NAME]  # noqa: RUF012

    def __init__(
        self, client: Any, path: str, identifier: str, deadline_s: float, acl: Sequence[Any] | None = None
    ) -> None:
        super().__init__(_Creating(client, acl), path, identifier)
        self._acl = acl
        self._deadline_s = deadline_s
        self.wake_event = _DeadlineEvent(deadline_s)

    def _ensure_path(self) -> None:
        if self.client.exists(self.path) is None:
            # Parents may belong to other tables, with unknown writers: they stay open to all.
            self.client.ensure_path(self.path.rpartition("/")[0] or "/", OPEN_ACL_UNSAFE)
            with suppress(NodeExistsError):
                self.client.create(self.path)
        self.assured_path = True

    def wait(self) -> bool:
        """Return whether the lock was acquired before the deadline."""
        try:
            return bool(self.acquire(timeout=max(0.0, self._deadline_s - time.monotonic())))
        except LockTimeout:
            return False


class _Creating:
    """Client whose new nodes get an access list; None: open to all."""

    def __init__(self, client: Any, acl: Sequence[Any] | None) -> None:
        self._client = client
        self._acl = acl

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def create(self, path: str, value: bytes = b"", **how: Any) -> Any:
        return self._client.create(path, value, acl=self._acl, **how)


class _DeadlineEvent(threading.Event):
    """Event with one deadline for all waits; kazoo restarts its limit for each node in line."""

    def __init__(self, deadline_s: float) -> None:
        super().__init__()
        self._deadline_s = deadline_s

    def wait(self, timeout: float | None = None) -> bool:
        left_s = max(0.0, self._deadline_s - time.monotonic())
        return super().wait(left_s if timeout is None else min(timeout, left_s))


class _PatientResult(AsyncResult):  # type: ignore[misc]
    """Answer with a limited wait; kazoo's synchronous calls have no limit of their own."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        return super().get(block, self._handler.answer_timeout_s if timeout is None else timeout)


class _PatientHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads, with a limit for every answer."""

    def __init__(self, answer_timeout_s: float) -> None:
        super().__init__()
        self.answer_timeout_s = answer_timeout_s

    def async_result(self) -> _PatientResult:
        return _PatientResult(self)


def new_client(
    hosts: str,
    session_timeout_s: float,
    answer_timeout_s: float,
    log: logging.Logger | None = None,
    settings: ZooKeeperSettings | None = None,
) -> Any:
    """Return a client that is not connected yet.

    `answer_timeout_s` limits each answer; without `log` kazoo logs to its own logger, with credentials masked.

    Raises:
        InvalidRequest: an invalid connect string, or one with credentials.
        Unsupported: SASL without its package.
    """
    if "@" in hosts:
        raise InvalidRequest(
            f"{hosts.rpartition('@')[2]!r} is given with credentials",
            expected="host:port[,host:port…][/chroot]",
            next_step="give user and password by the settings for ZooKeeper",
        )
    try:
        return KazooClient(
            hosts or ",",  # kazoo would take "" for port 2181 of this machine
            timeout=session_timeout_s,
            handler=_PatientHandler(answer_timeout_s),
            # kazoo's default pause between tries grows to a minute, longer than any session.
            connection_retry={"max_tries": -1, "max_delay": 1.0},
            command_retry={"max_tries": -1, "max_delay": 1.0, "deadline": answer_timeout_s},
            logger=log or _KAZOO_LOG,
            **_how_to_connect(settings or ZooKeeperSettings()),
        )
    except ValueError as error:
        what = f"{hosts!r} is not a ZooKeeper connect string ({error})"
        raise InvalidRequest(what, expected="host:port[,host:port…][/chroot]", found=hosts) from error


def _how_to_connect(settings: ZooKeeperSettings) -> dict[str, Any]:
    how: dict[str, Any] = {}
    password = settings.password.get_secret_value() if settings.password is not None else ""
    if settings.auth == "digest":
        how["auth_data"] = [("digest", f"{settings.user}:{password}")]
    if settings.auth == "sasl":
        if importlib.util.find_spec("puresasl") is None:
            raise Unsupported(
                "SASL with ZooKeeper needs the package pure-sasl, which is not installed",
                next_step="install kazoo[sasl], or authenticate by digest",
            )
        if settings.mechanism == "DIGEST-MD5":
            how["sasl_options"] = {"mechanism": "DIGEST-MD5", "username": settings.user, "password": password}
        else:
            principal = {"principal": settings.principal} if settings.principal else {}
            how["sasl_options"] = {"mechanism": "GSSAPI", "service": settings.service, **principal}
    if settings.tls:
        key_password = settings.tls_key_password
        how |= {
            "use_ssl": True,
            "ca": settings.tls_ca,
            "certfile": settings.tls_certificate,
            "keyfile": settings.tls_key,
            "keyfile_password": key_password.get_secret_value() if key_password is not None else None,
            "check_hostname": settings.tls_check_hostname,
        }
    return how


def end_session(client: Any) -> None:
    """Close a session; without an answer it times out in the background."""

    def farewell() -> None:
        try:
            client.stop()
            client.close()
        except Exception:  # kazoo raises bare exceptions here, and no further step is possible
            logger.debug("a ZooKeeper session could not be closed and will time out", exc_info=True)

    thread = threading.Thread(target=farewell, name="zookeeper-farewell", daemon=True)
    thread.start()
    thread.join(_FAREWELL_S)


def probe(hosts: str, timeout_s: float) -> None:
    """Create and delete a node: a server that listens or answers `imok` may still not serve.

    `timeout_s` limits the connection, and each of the two answers.

    Raises:
        Unavailable: the operation did not succeed in time.
    """
    # Its own logger: a failing probe is expected, and kazoo's warnings would only be noise.
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
