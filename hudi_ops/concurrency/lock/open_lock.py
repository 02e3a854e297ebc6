"""Create locks from declarations; shared by all entry points, so that all use the same lock."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.concurrency.lock.locks import LockProvider
from hudi_ops.config.tables_file import TableLocation
from hudi_ops.config.zookeeper_settings import ZooKeeperSettings, zookeeper_settings
from hudi_ops.context import Owner
from hudi_ops.errors import InvalidRequest
from hudi_ops.storage.open import open_storage

IN_PROCESS = "in-process"

_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.\-]+):\d{1,5}"
_ZOOKEEPER = re.compile(rf"zookeeper://(?P<hosts>{_HOST}(?:,{_HOST})*)(?P<path>(?:/[A-Za-z0-9_.\-]+)+)/?")


@dataclass(frozen=True, slots=True)
class ZooKeeperAddress:
    """Parts of a `zookeeper://` URL: the connect string, and the path below which locks are."""

    hosts: str
    base_path: str


def open_lock(
    url: str | None, *, table_uri: str, lock_key: str, settings: ZooKeeperSettings | None = None
) -> LockProvider:
    """Return the lock of a URL, unconnected; waiters see this process and its run.

    Args:
        url: `zookeeper://host:port[,host:port]/base/path`; None or `in-process` for a lock of this process only.
        lock_key: the table's node below the base path; in Apache Hudi `hoodie.write.lock.zookeeper.lock_key`, there the
            table's name unless set.
        settings: credentials and TLS for ZooKeeper; None: those of the environment.

    Raises:
        InvalidRequest: an invalid URL, a key that makes no node, or invalid settings.
        Unsupported: SASL without its package.
    """
    if url is None or url == IN_PROCESS:
        # Use the storage's own URI: a path has several spellings, but the lock needs one.
        return in_process_lock(open_storage(table_uri).uri)
    address = parse_lock_url(url)
    # Imported with the first ZooKeeper lock: other tables do not need kazoo.
    from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock

    me = Owner.of_this_process()
    return ZooKeeperLock(
        address.hosts,
        address.base_path,
        lock_key,
        owner=str(me),
        run=me.run,
        settings=settings or zookeeper_settings(None, Path()),
    )


def lock_of(location: TableLocation) -> LockProvider:
    """Return the lock of a TABLE argument (`config.tables_file.locate_table`).

    Its key is the declared name, unique per path in a file; foreign writers set it as their lock key.

    Raises:
        InvalidRequest: the declared lock cannot be used.
    """
    settings = None
    if location.lock not in {None, IN_PROCESS}:
        settings = zookeeper_settings(location.zookeeper, location.folder)
    return open_lock(location.lock, table_uri=location.path, lock_key=location.name, settings=settings)


def parse_lock_url(url: str) -> ZooKeeperAddress:
    """Parse a `zookeeper://` URL.

    Raises:
        InvalidRequest: the text is no such URL.

    >>> parse_lock_url("zookeeper://a:2181,b:2181/hudi/locks").base_path
    '/hudi/locks'
    """
    match = _ZOOKEEPER.fullmatch(url)
    if match is None:
        raise InvalidRequest(
            f"no lock for {url!r}",
            expected=f"zookeeper://host:port[,host:port]/base/path without user and password, or {IN_PROCESS}",
            found=url,
            next_step="correct `lock` in tables.yaml",
        )
    return ZooKeeperAddress(match["hosts"], match["path"])
