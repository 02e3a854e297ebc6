"""Merge history files into the next level, as Apache Hudi does (docs/format §5.1).

The merged file is written without the lock, since history files never change; the manifest changes under the lock. Files that the
newest manifests do not name are removed afterwards: a reader may still have an older one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager

from hudi_ops.errors import NotFound
from hudi_ops.services.archive.manifests import Manifest, Parts, current, delete_history, publish, without
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.archived import HistoryPart, manifest_parts, read_part
from hudi_ops.timeline.content.history_parts import LEVEL_MAX, encode_part, manifest_name, part_name, range_of

logger = logging.getLogger(__name__)

FILES_MERGED = 10
"""Number of files of a level that are merged into one (`hoodie.timeline.compaction.batch.size`)."""
GROUP_BYTES = 1 << 30
"""Bytes from which no more files are added to a merge."""
MANIFESTS_KEPT = 3
"""Number of manifests whose files stay for readers."""

Locked = Callable[[], AbstractContextManager[object]]


def merge_levels(storage: Storage, folder: str, locked: Locked) -> int:
    """Merge files of each level that has enough of them; return the number of new files.

    Raises:
        Corrupt: a file cannot be read.
        Busy: the lock was not free in time.
    """
    merged = 0
    for level in range(LEVEL_MAX):
        if not _merge(storage, folder, level, locked):
            break
        merged += 1
    if merged:
        _drop_unnamed(storage, folder, merged)
    return merged


def chosen(parts: Parts, level: int) -> Parts:
    """Return the oldest files of a level that are merged now; none if there are too few."""
    found = sorted(
        (part for part in parts if (held := range_of(part.name)) is not None and held[2] == level),
        key=lambda part: part.name,
    )
    if len(found) < FILES_MERGED:
        return ()
    taken: list[HistoryPart] = []
    for part in found[:FILES_MERGED]:
        if sum(one.size_bytes for one in taken) > GROUP_BYTES:
            break
        taken.append(part)
    return tuple(taken) if len(taken) > 1 else ()


def _merge(storage: Storage, folder: str, level: int, locked: Locked) -> bool:
    before = current(storage, folder)
    group = chosen(before.parts, level)
    if not group:
        return False
    read = [one for part in group for one in read_part(storage, f"{folder}/{part.name}", with_content=True)]
    body = encode_part(list({(one.time, one.action): one for one in read}.values()))
    name = part_name([one.time for one in read], level + 1)
    if name not in before.names:
        storage.put(f"{folder}/{name}", body)
    gone = frozenset(part.name for part in group)

    def change(parts: Parts) -> Parts:
        # Another archiver may have merged them since they were read.
        if not gone <= {part.name for part in parts}:
            return parts
        return without(parts, gone | {name}, [HistoryPart(name, len(body))])

    with locked():
        now = publish(storage, folder, change)
    logger.info("%s history files of level %s were merged into %s", len(group), level, name)
    return name in now.names


def _drop_unnamed(storage: Storage, folder: str, merged: int) -> None:
    """Remove older manifests, and history files that no remaining manifest names."""
    now = current(storage, folder)
    oldest = now.number - (MANIFESTS_KEPT + merged) + 1
    listed = [info.name for info in storage.list_folder(folder).files]
    kept = {name for number in range(max(oldest, 1), now.number + 1) for name in _names(storage, folder, number)}
    numbers = {name: _number(name) for name in listed}
    old = [name for name, number in numbers.items() if number is not None and 0 < number < oldest]
    named = frozenset(name for one in old for name in _names(storage, folder, _number(one) or 0))
    # Only files that an older manifest named: another archiver may have put one that no manifest names yet.
    delete_history(storage, folder, [name for name in sorted(named - kept) if name in listed])
    delete_history(storage, folder, sorted(old))


def _number(name: str) -> int | None:
    start, _, digits = name.partition("_")
    return int(digits) if start == "manifest" and digits.isdecimal() else None


def _names(storage: Storage, folder: str, number: int) -> frozenset[str]:
    try:
        return Manifest(number, manifest_parts(storage, f"{folder}/{manifest_name(number)}")).names
    except NotFound:
        return frozenset()
