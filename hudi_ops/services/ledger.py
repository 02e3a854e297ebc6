"""The ledger of a source: which files were taken, so that each is taken exactly once.

A ledger is cumulative, lies under the instant that wrote it, and counts only through the pointer in that instant's completed
commit: it becomes true in the same moment as the rows. Every commit of ours carries the pointers of all sources forward.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hudi_ops.errors import Corrupt, InvalidRequest
from hudi_ops.files.source import SUFFIXES, source_format
from hudi_ops.storage.protocol import FileInfo, Storage

FOLDER = ".hoodie/.ingest"
POINTER_PREFIX = "hudi_ops.ledger."


@dataclass(frozen=True)
class Ledger:
    """Files taken from one source: path below the source's root -> (size in bytes, change time in ms)."""

    source_id: str
    uri: str
    taken: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    read_from: str = ""
    """Path that it was read from; empty when the source is new. A commit that moved it on meanwhile is a conflict."""

    def with_files(self, files: Sequence[FileInfo]) -> Ledger:
        """The ledger after `files` were taken too."""
        added = {info.path: (info.size_bytes, info.modified_ms) for info in files}
        return Ledger(self.source_id, self.uri, {**self.taken, **added})

    def encode(self) -> bytes:
        """As JSON, by path."""
        return json.dumps({
            "source": self.source_id,
            "uri": self.uri,
            "files": {p: list(v) for p, v in sorted(self.taken.items())},
        }).encode()


@dataclass(frozen=True)
class Offer:
    """What a source holds: files to take now, names that wait with the reason, and files left for a next commit."""

    files: tuple[FileInfo, ...]
    waiting: Mapping[str, str]
    left: tuple[FileInfo, ...] = ()

    def within(self, max_files: int | None, max_bytes: int | None) -> Offer:
        """The first files by path that stay within both bounds; one is offered however large, or nothing would ever move.

        Args:
            max_files: at least 1; None for no bound.
            max_bytes: of the files as they lie, at least 1; None for no bound.

        Raises:
            InvalidRequest: a bound below 1.
        """
        for name, bound in (("max_files", max_files), ("max_bytes", max_bytes)):
            if bound is not None and bound < 1:
                raise InvalidRequest(f"{name} is below 1", expected="at least 1, or nothing", found=str(bound))
        count, size_bytes = 0, 0
        for info in self.files[:max_files]:
            size_bytes += info.size_bytes
            if count and max_bytes is not None and size_bytes > max_bytes:
                break
            count += 1
        return Offer(self.files[:count], self.waiting, self.left + self.files[count:])

    @property
    def note(self) -> str:
        """What was not offered, for people; empty when all was."""
        parts = []
        if self.left:
            size_mb = sum(info.size_bytes for info in self.left) / 1_000_000
            files = "file is" if len(self.left) == 1 else "files are"
            parts.append(f"{len(self.left)} {files} left for the next run, {size_mb:.1f} MB")
        if self.waiting:
            parts.append(f"{len(self.waiting)} wait")
        return "; ".join(parts)


def source_id_of(uri: str) -> str:
    """A short name for a source: the same folder always gives the same one."""
    return hashlib.sha256(uri.rstrip("/").encode()).hexdigest()[:16]


def ledger_folder(instant: str) -> str:
    """Folder of the ledgers that an instant wrote."""
    return f"{FOLDER}/{instant}"


def ledger_path(instant: str, source_id: str) -> str:
    """Path of one ledger."""
    return f"{ledger_folder(instant)}/{source_id}.json"


def pointers(extra: Mapping[str, str]) -> dict[str, str]:
    """The ledger pointers in a commit's extra metadata: key -> path."""
    return {key: value for key, value in extra.items() if key.startswith(POINTER_PREFIX)}


def read_ledger(storage: Storage, extra: Mapping[str, str], uri: str) -> Ledger:
    """The ledger of a source as of a commit; empty when the source is new.

    Raises:
        Corrupt: the ledger that the commit points to cannot be read.
    """
    source_id = source_id_of(uri)
    path = extra.get(POINTER_PREFIX + source_id)
    if path is None:
        return Ledger(source_id, uri)
    try:
        record = json.loads(storage.get(path))
        taken = {name: (size, changed) for name, (size, changed) in record["files"].items()}
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(
            f"{path} is not a source ledger",
            expected="JSON with the files that were taken",
            found=str(error),
            next_step="restore it from a copy of the table; without it files would be taken twice",
        ) from error
    return Ledger(source_id, uri, taken, read_from=path)


def offer_of(source: Storage, ledger: Ledger, now_ms: int, min_age_s: float) -> Offer:
    """Files of a source that were not taken yet, by path.

    Names beginning with `_` or `.`, in any segment, and files younger than `min_age_s` wait; so do names whose ending is no
    format that can be read.

    Raises:
        InvalidRequest: a file that was taken has changed since.
    """
    files, waiting = [], {}
    for info in source.list():
        segments = info.path.split("/")
        if any(segment.startswith(("_", ".")) for segment in segments):
            waiting[info.path] = "its name begins with _ or ."
        elif source_format(info.name) is None:
            waiting[info.path] = f"its ending is none of {', '.join(SUFFIXES)}"
        elif info.path in ledger.taken:
            _refuse_changed(source, info, ledger.taken[info.path])
        elif min_age_s > 0 and now_ms - info.modified_ms < min_age_s * 1000:
            waiting[info.path] = f"it is younger than {min_age_s:g} s"
        else:
            files.append(info)
    return Offer(tuple(files), waiting)


def _refuse_changed(source: Storage, info: FileInfo, taken: tuple[int, int]) -> None:
    if (info.size_bytes, info.modified_ms) != taken:
        raise InvalidRequest(
            f"{source.uri}/{info.path} changed after it was taken",
            expected=f"{taken[0]} bytes, changed at {taken[1]} ms",
            found=f"{info.size_bytes} bytes, changed at {info.modified_ms} ms",
            next_step="put corrections into a new file; restore this one, or take it out of the folder",
            file=f"{source.uri}/{info.path}",
        )
