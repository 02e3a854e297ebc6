"""Manifests of a history: read the current one, publish the next (docs/format §5.1).

Manifests form a chain: `_version_` holds the number of the current one. An archiver that died may have left the next one without
the version. It is taken for the current one only if all that it names exists and it loses nothing; otherwise it is removed, as
Apache Hudi's archiver does. The number in `_version_` never falls: an archiver that slept with a lost lock may not hide what
others archived since.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hudi_ops.commit.recover.sweep import TEMP_AGE_MS
from hudi_ops.errors import AlreadyExists, Conflict, Corrupt, NotFound, OutcomeUnknown
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.archived import VERSION_FILE, HistoryPart, manifest_parts, newest_manifest
from hudi_ops.timeline.content.history_parts import encode_manifest, manifest_name, range_of

logger = logging.getLogger(__name__)

TRIES = 4
"""Most leftover manifests that one call skips."""

Parts: TypeAlias = tuple[HistoryPart, ...]


@dataclass(frozen=True)
class Manifest:
    """Manifest by its number, 0 before the first, with the files that it names."""

    number: int
    parts: Parts = ()

    @property
    def names(self) -> frozenset[str]:
        """Names of its files."""
        return frozenset(part.name for part in self.parts)


def current(storage: Storage, folder: str) -> Manifest:
    """Return the current manifest of a history folder, without a look at its files.

    Raises:
        Corrupt: the version names a manifest that does not exist, or it cannot be read.
    """
    path = newest_manifest(storage, folder)
    if path is None:
        return Manifest(0)
    try:
        return Manifest(int(path.rpartition("_")[2]), manifest_parts(storage, path))
    except NotFound as error:
        raise Corrupt(
            f"{folder}/{VERSION_FILE} names a manifest that does not exist",
            table=storage.uri,
            expected=path,
            found="no such file",
            next_step="restore the history folder from a copy of the table",
        ) from error


def latest(storage: Storage, folder: str) -> Manifest:
    """Return the current manifest, or the leftover after it if that one is valid (`_ahead`).

    Raises:
        Corrupt: the version names a manifest that does not exist, or it cannot be read.
    """
    now = current(storage, folder)
    return _ahead(storage, folder, now) or now


def sound(storage: Storage, folder: str) -> Manifest:
    """Return the current manifest, all files of which exist.

    Raises:
        Corrupt: a file that it names does not exist, and no later manifest replaces it.
    """
    now = current(storage, folder)
    if lost := sorted(now.names - _held(storage, folder)):
        now = _ahead(storage, folder, now) or now
        lost = sorted(now.names - _held(storage, folder))
    if lost:
        raise Corrupt(
            f"{folder}/{manifest_name(now.number)} names a file that does not exist",
            table=storage.uri,
            expected=f"{folder}/{lost[0]}",
            found="no such file",
            next_step="restore the history folder from a copy of the table; nothing was archived",
        )
    return now


def publish(storage: Storage, folder: str, change: Callable[[Parts], Parts]) -> Manifest:
    """Publish the manifest that `change` makes of the current one; requires the table lock.

    The number is created only if it is free.

    Raises:
        Conflict: other archivers took the numbers, or a file that it adds is gone.
        Corrupt: the current manifest cannot be read.
    """
    now = current(storage, folder)
    for _ in range(TRIES):
        parts = change(now.parts)
        if parts == now.parts and now.number:
            return _put_version(storage, folder, now)
        _refuse_gone(storage, folder, now, parts)
        path, body = f"{folder}/{manifest_name(now.number + 1)}", encode_manifest(parts)
        try:
            storage.put_if_absent(path, body)
        except (AlreadyExists, OutcomeUnknown):
            if not _holds(storage, path, body):
                now = _passed(storage, folder, now)
                continue
        return _put_version(storage, folder, Manifest(now.number + 1, parts))
    raise Conflict(
        "other archivers published manifests at the same time",
        table=storage.uri,
        expected=f"a free number after {folder}/{manifest_name(now.number)}",
        next_step="run the same call again",
    )


def without(parts: Parts, names: frozenset[str], instead: Sequence[HistoryPart]) -> Parts:
    """Return the parts, with those in `names` replaced by `instead`."""
    return (*(part for part in parts if part.name not in names), *instead)


def drop_unnamed(storage: Storage, folder: str, now_ms: int) -> list[str]:
    """Delete history files that no manifest names, a day after their put; return their paths.

    Archivers that died before they published a manifest left them. `publish` refuses an archiver that slept for longer than a day.

    Raises:
        Corrupt: a manifest cannot be read.
    """
    listed = storage.list_folder(folder).files
    named = current(storage, folder).names
    old = [
        info
        for info in listed
        if range_of(info.name) is not None and info.name not in named and info.modified_ms < now_ms - TEMP_AGE_MS
    ]
    # Readers may still have an older manifest, and the next one may be a leftover that counts.
    others = [info.path for info in listed if info.name.startswith(manifest_name(0)[:-1])] if old else []
    named = named.union(*(frozenset(part.name for part in manifest_parts(storage, path)) for path in others))
    names = [info.name for info in old if info.name not in named]
    delete_history(storage, folder, names)
    return [f"{folder}/{name}" for name in names]


def delete_history(storage: Storage, folder: str, names: Sequence[str]) -> None:
    """Delete history files and manifests: they belong to no instant."""
    storage.delete_all([f"{folder}/{name}" for name in names])


def _refuse_gone(storage: Storage, folder: str, now: Manifest, parts: Parts) -> None:
    """Refuse a manifest that adds a missing file: the archiver slept until it was deleted.

    Raises:
        Conflict: names the file.
    """
    gone = [part.name for part in parts if part.name not in now.names and storage.head(f"{folder}/{part.name}") is None]
    if gone:
        raise Conflict(
            f"{folder}/{gone[0]} was deleted before a manifest named it",
            table=storage.uri,
            expected="the history file as it was written",
            found="no such file: it was taken for the leftover of an archiver that died",
            next_step="run the same call again",
        )


def _put_version(storage: Storage, folder: str, now: Manifest) -> Manifest:
    """Name a manifest, or the newest one after it, in the version file; return it."""
    path = f"{folder}/{VERSION_FILE}"
    if (later := _version_above(storage, path, now.number)) is not None:
        return Manifest(later, manifest_parts(storage, f"{folder}/{manifest_name(later)}"))
    if _holds(storage, path, str(now.number).encode()):
        return now  # a next manifest without its version is a leftover
    storage.put(path, str(now.number).encode())
    # The lock may have been lost before the put: others published since, and their manifests are not to be hidden.
    for _ in range(TRIES):
        ahead = _ahead(storage, folder, now)
        if ahead is None:
            break
        now = ahead
        storage.put(path, str(now.number).encode())
    return now


def _version_above(storage: Storage, path: str, number: int) -> int | None:
    """Return the number in the version file if it is above `number`."""
    try:
        text = storage.get(path).decode("ascii", "replace").strip()
    except NotFound:
        return None
    return int(text) if text.isdecimal() and int(text) > number else None


def _holds(storage: Storage, path: str, body: bytes) -> bool:
    try:
        return storage.get(path) == body
    except NotFound:
        return False


def _passed(storage: Storage, folder: str, now: Manifest) -> Manifest:
    """Return the manifest to build upon if a leftover has the next number.

    A valid leftover is the result; an invalid one is removed.
    """
    ahead = _ahead(storage, folder, now)
    if ahead is not None:
        return ahead
    name = manifest_name(now.number + 1)
    logger.warning("%s/%s is a leftover of an archiver that died: removed", folder, name)
    delete_history(storage, folder, [name])
    return now


def _ahead(storage: Storage, folder: str, now: Manifest) -> Manifest | None:
    """Return the manifest after the current one if it is valid.

    It is valid if all its files exist and it loses no file of the current one.
    """
    number = now.number + 1
    try:
        found = Manifest(number, manifest_parts(storage, f"{folder}/{manifest_name(number)}"))
    except (NotFound, Corrupt):
        return None
    held = _held(storage, folder)
    is_whole = found.names <= held
    loses = now.names <= held and not now.names <= found.names
    return found if is_whole and not loses else None


def _held(storage: Storage, folder: str) -> frozenset[str]:
    return frozenset(info.name for info in storage.list_folder(folder).files)
