"""Lock nodes of ZooKeeper: path, order, holder in their data; and the error of a busy lock."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, fields

from hudi_ops.clock import iso_of_ms
from hudi_ops.concurrency.lock.locks import LockHolder
from hudi_ops.errors import Busy, InvalidRequest

# Curator's child nodes: any prefix, this word, and a sequence number of ten digits.
NODE_NAME = "-lock-"
_SEQUENCE = re.compile(r"-lock-(\d{10})$")


def busy(lock_name: str, holder: LockHolder | None, waited_s: float) -> Busy:
    """Return the error of a busy lock; `holder` None: the lock was released just now."""
    if holder is None:
        who = "another process, which released it just now"
    else:
        facts = (
            f"host {holder.host}" if holder.host else "",
            f"run {holder.run}" if holder.run else "",
            f"for {holder.purpose}" if holder.purpose else "",
        )
        since = iso_of_ms(holder.since_ms)
        who = ", ".join([holder.owner, *(fact for fact in facts if fact), f"since {since}"])
    return Busy(
        f"the lock of {lock_name} was not free within {waited_s:g} s: it is held by {who}",
        next_step="try again later, or allow a longer wait (conflicts.lock_wait_s).",
        holder=None if holder is None else asdict(holder),
        waited_s=waited_s,
    )


def to_node_data(holder: LockHolder) -> str:
    """Encode the holder as one line of JSON."""
    return json.dumps(asdict(holder), separators=(",", ":"))


def from_node_data(data: bytes, created_ms: int) -> LockHolder:
    """Decode the holder in a lock node: our JSON, or foreign text.

    Foreign text holds no time, so `created_ms` counts. Apache Hudi's provider writes its address, from 1.1 on its application.

    Source: docs/format §8.4.
    """
    text = data.decode("utf-8", "replace").strip()
    try:
        said = json.loads(text)
        texts = {field.name: str(said[field.name]) for field in fields(LockHolder) if field.name != "since_ms"}
        return LockHolder(since_ms=int(said["since_ms"]), **texts)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        pass
    try:
        host = str(ipaddress.ip_address(text))
    except ValueError:
        host = ""
    return LockHolder(owner=text or "a process that left no name", host=host, purpose="", since_ms=created_ms)


def lock_path(base_path: str, lock_key: str) -> str:
    """Return the parent of the lock nodes, from Apache Hudi's two settings.

    Raises:
        InvalidRequest: ZooKeeper does not accept the path.

    Source: docs/format §8.4.
    """
    path = f"{base_path.rstrip('/')}/{lock_key}"
    if not path.startswith("/") or any(part in {"", ".", ".."} for part in path[1:].split("/")):
        raise InvalidRequest(
            f"base path {base_path!r} and lock key {lock_key!r} do not form a path of ZooKeeper",
            expected="a base path that begins with / and a key, without empty parts",
            found=path,
        )
    return path


def in_line(children: Iterable[str]) -> list[str]:
    """Sort the child nodes, of any prefix, by turn: the holder first.

    >>> in_line(["_c_5f-lock-0000000012", "ab-lock-0000000007", "unrelated"])
    ['ab-lock-0000000007', '_c_5f-lock-0000000012']
    """
    matches = [match for match in map(_SEQUENCE.search, children) if match]
    return [match.string for match in sorted(matches, key=lambda match: match.group(1))]
