"""Lock nodes as text: where they lie, who is first in line, whom their data names; and the refusal that says so."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, fields
from datetime import UTC, datetime

from hudi_ops.concurrency.lock.locks import LockHolder
from hudi_ops.errors import Busy, InvalidRequest

# Curator's child nodes: any prefix, this word, and ten digits that ZooKeeper counts up.
NODE_NAME = "-lock-"
_SEQUENCE = re.compile(r"-lock-(\d{10})$")


def busy(lock_name: str, holder: LockHolder | None, waited_s: float) -> Busy:
    """The refusal of a lock, in words that name the holder.

    Args:
        lock_name: what was to be locked.
        holder: who has it; None when it was let go just now.
        waited_s: how long the caller waited.
    """
    if holder is None:
        who = "others, who let it go just now"
    else:
        facts = (
            f"host {holder.host}" if holder.host else "",
            f"run {holder.run}" if holder.run else "",
            f"for {holder.purpose}" if holder.purpose else "",
        )
        since = datetime.fromtimestamp(holder.since_ms / 1000, UTC).isoformat(timespec="seconds")
        who = ", ".join([holder.owner, *(fact for fact in facts if fact), f"since {since}"])
    return Busy(
        f"the lock of {lock_name} was not free within {waited_s:g} s: it is held by {who}",
        next_step="try again later, or allow a longer wait (conflicts.lock_wait_s).",
        holder=None if holder is None else asdict(holder),
        waited_s=waited_s,
    )


def to_node_data(holder: LockHolder) -> str:
    """The holder as one line of JSON."""
    return json.dumps(asdict(holder), separators=(",", ":"))


def from_node_data(data: bytes, created_ms: int) -> LockHolder:
    """Who speaks from a lock node: our JSON, or the text of others.

    Apache Hudi's provider writes its address, or from 1.1 on the application it belongs to.

    Args:
        data: the node's bytes.
        created_ms: when the node was created, in ms since 1970 UTC; foreign nodes tell no other time.

    Source: docs/format.md §8.4.
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
    return LockHolder(owner=text or "somebody who left no name", host=host, purpose="", since_ms=created_ms)


def lock_path(base_path: str, lock_key: str) -> str:
    """The node whose children stand in line, as Apache Hudi makes it from its two settings.

    Raises:
        InvalidRequest: ZooKeeper takes no such path.

    Source: docs/format.md §8.4.
    """
    path = f"{base_path.rstrip('/')}/{lock_key}"
    if not path.startswith("/") or any(part in {"", ".", ".."} for part in path[1:].split("/")):
        raise InvalidRequest(
            f"base path {base_path!r} and lock key {lock_key!r} make no ZooKeeper path",
            expected="a base path that begins with / and a key, without empty parts",
            found=path,
        )
    return path


def in_line(children: Iterable[str]) -> list[str]:
    """The children in the order of their turns, the holder first; whose prefix they bear does not matter.

    >>> in_line(["_c_5f-lock-0000000012", "ab-lock-0000000007", "unrelated"])
    ['ab-lock-0000000007', '_c_5f-lock-0000000012']
    """
    matches = [match for match in map(_SEQUENCE.search, children) if match]
    return [match.string for match in sorted(matches, key=lambda match: match.group(1))]
