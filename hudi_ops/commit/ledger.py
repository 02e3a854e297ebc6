"""The ledger of a source: the files that were taken, so that each is taken exactly once.

A ledger is cumulative: a commit stores only the files that it adds, and refers to earlier ledgers
(`timeline.content.ledger_chain`). A ledger is stored under the instant that wrote it, and is valid only through the pointer in that
instant's completed commit, so it takes effect together with the rows. Every hudi_ops commit copies the pointers of all sources.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import PurePosixPath
from urllib.parse import quote, unquote

from hudi_ops.errors import InvalidRequest
from hudi_ops.sources.refusal import SUFFIXES, source_format
from hudi_ops.storage.protocol import FileInfo, Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.ledger_chain import (
    Link,
    ledger_path,
    lengthened,
    link_bytes,
    read_chain,
    writer_of_ledger,
)
from hudi_ops.timeline.content.undone import restored_over
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Pointer
from hudi_ops.timeline.state import CommitReader

POINTER_PREFIX = "hudi_ops.ledger."
_OWN_KEYS = (
    *("schema", "latest_schema", "hudi_ops.", "hoodie.", "_hoodie."),
    *("deltastreamer.", "streamer.", "_hudi_streaming_sink_checkpoint"),
)
"""Beginnings of keys that say something of one commit alone, or that their writer finds however old they are."""

_LOOKED_BACK = 32
"""Newest writes in which keys to repeat are looked for; Apache Hudi looks in ten."""
_EMPTIED = "empty, and was not when it was taken: its rows stay"
_NAMED_MAX = 3
"""Most skipped files that a note names for each reason."""


@dataclass(frozen=True)
class Ledger:
    """Files taken from one source: path below its root -> (size in bytes, change time in ms).

    `retaken`: for each file taken again, the earlier (size, change time) pairs, oldest first. `elsewhere`: files of this source
    that were taken from a folder above or below it, in each version. `overlapping`: ids of the sources above and below -> path
    of the ledger that was read, or empty.
    """

    source_id: str
    uri: str
    taken: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    retaken: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    read_from: str = ""
    """Path of the file that was read; empty for a new source. If a concurrent commit replaced the ledger, there is a conflict."""
    elsewhere: Mapping[str, frozenset[tuple[int, int]]] = field(default_factory=dict)
    overlapping: Mapping[str, str] = field(default_factory=dict)
    links: tuple[Link, ...] = ()
    """Links that were read, the base first."""

    @property
    def known(self) -> Mapping[str, tuple[int, int]]:
        """All taken files of all folders, each with a version that was taken."""
        return {**{path: max(versions) for path, versions in self.elsewhere.items()}, **self.taken}

    @property
    def sources(self) -> frozenset[str]:
        """Ids of the sources whose runs may take the same files."""
        return frozenset({self.source_id, *self.overlapping})

    def moved(self, extra: Mapping[str, str]) -> bool:
        """Return whether a commit with this extra metadata points to other ledgers than those read."""
        read = {**self.overlapping, self.source_id: self.read_from}
        return any(extra.get(POINTER_PREFIX + source_id, "") != path for source_id, path in read.items())

    def put_with(self, storage: Storage, files: Sequence[FileInfo], instant: str) -> str:
        """Put the ledger to which an instant adds `files`; return its path."""
        added = {info.path: (info.size_bytes, info.modified_ms) for info in files}
        known = self.known
        again = {path: (*self.retaken.get(path, ()), known[path]) for path in added if path in known}
        link = lengthened(self.links, instant, added, again)
        path = ledger_path(instant, self.source_id)
        storage.put(path, link_bytes(link, self.source_id, self.uri))
        return path


@dataclass(frozen=True)
class Offer:
    """Files to take now, waiting names with the reason, and files left for the next commit.

    `retaken` names the files among them that were taken before and have changed since.
    """

    files: tuple[FileInfo, ...]
    waiting: Mapping[str, str]
    left: tuple[FileInfo, ...] = ()
    retaken: frozenset[str] = frozenset()

    def within(self, max_files: int | None, max_bytes: int | None) -> Offer:
        """Return the first files within both bounds (None: no bound), but at least one.

        A file larger than `max_bytes` is offered alone: otherwise the source would never advance.

        Raises:
            InvalidRequest: a bound is below 1.
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
        return replace(self, files=self.files[:count], left=self.left + self.files[count:])

    @property
    def note(self) -> str:
        """Text for users about files left, waiting or taken again; empty without any."""
        parts = []
        if again := sum(info.path in self.retaken for info in self.files):
            parts.append(f"{again} {'file is' if again == 1 else 'files are'} taken again")
        if self.left:
            size_mb = sum(info.size_bytes for info in self.left) / 1_000_000
            files = "file is" if len(self.left) == 1 else "files are"
            parts.append(f"{len(self.left)} {files} left for the next run, {size_mb:.1f} MB")
        if self.waiting:
            parts += self._skipped()
        return "; ".join(parts)

    def _skipped(self) -> Iterator[str]:
        by_reason: dict[str, list[str]] = {}
        for path, reason in sorted(self.waiting.items()):
            by_reason.setdefault(reason, []).append(path)
        for reason, paths in by_reason.items():
            names = ", ".join(paths[:_NAMED_MAX]) + (", …" if len(paths) > _NAMED_MAX else "")
            yield f"{len(paths)} {'file' if len(paths) == 1 else 'files'} skipped: {names} ({reason})"


def source_id_of(uri: str) -> str:
    """Return a short, stable id of a source folder."""
    return hashlib.sha256(uri.rstrip("/").encode()).hexdigest()[:16]


def pointers(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the ledger pointers in a commit's extra metadata: key -> path."""
    return {key: value for key, value in extra.items() if key.startswith(POINTER_PREFIX)}


def carried_keys(commits: CommitReader, timeline: Timeline, instant: str) -> dict[str, str]:
    """Return extra metadata of earlier writes that a new commit repeats.

    It holds offsets of streaming jobs of Apache Hudi. Such a job (`hoodie.write.rolling.metadata.keys`) looks for them in its
    newest commits alone, other writers' among them. Writes are read back to the newest one of ours that repeats those before it.

    Nothing is repeated beside a pending write with an older instant: it may bring newer values, and Apache Hudi, which orders
    commits by their instants, would prefer the repeated ones. A later commit looks beyond this one.
    """
    if any(one.is_write and one.time < instant for one in timeline.pending):
        return {}
    found: dict[str, str] = {}
    for write in timeline.newest_first[:_LOOKED_BACK]:
        metadata = commits.metadata(timeline, write)
        if metadata is None:
            continue
        pointer = Pointer.decode(metadata.extra)
        if pointer is not None and not pointer.shared:
            break  # no other program had written the table
        own = {key: value for key, value in metadata.extra.items() if not key.startswith(_OWN_KEYS)}
        found = own | found
        if pointer is not None and own:
            break
    return found


def newest_extra(storage: Storage, commits: CommitReader, timeline: Timeline) -> Mapping[str, str] | None:
    """Return the newest commit's extra metadata, with ledgers that count; None without one.

    A restore keeps writes that were requested before the savepoint. Such a write may have completed after a write that the restore
    undid, and then it names the ledger of the undone write. In place of such a ledger the newest valid ledger of the source counts.

    Raises:
        Corrupt: the plan of a restore cannot be read.
    """
    newest = commits.newest_with(timeline, POINTER_KEY)
    restores = timeline.by_kind.get("restore", ())
    if newest is None or not restores or _completed_after(timeline, restores[-1].time):
        return newest.extra if newest is not None else None
    undone = restored_over(storage, timeline)
    found = dict(newest.extra)
    for write in timeline.newest_first:
        stale = {key for key, path in pointers(found).items() if writer_of_ledger(path) in undone}
        if not stale:
            break
        metadata = commits.metadata(timeline, write)
        if metadata is None or POINTER_KEY not in metadata.extra:
            continue
        for key in stale:
            found.pop(key)
            if key in metadata.extra:
                found[key] = metadata.extra[key]
    return {
        key: path for key, path in found.items() if key not in pointers(found) or writer_of_ledger(path) not in undone
    }


def _completed_after(timeline: Timeline, restore: str) -> bool:
    """Return whether the newest write completed after a restore: then its ledgers count."""
    return any(write.completion_time > restore for write in timeline.newest_first[:1])


def read_ledger(storage: Storage, extra: Mapping[str, str], uri: str) -> Ledger:
    """Read the ledger of a source as of a commit; empty when the source is new.

    Raises:
        NotFound: the ledger that the commit points to is missing.
        Corrupt: the ledger cannot be read, or one that it builds upon is missing.
    """
    source_id = source_id_of(uri)
    path = extra.get(POINTER_PREFIX + source_id)
    if path is None:
        return Ledger(source_id, uri)
    links = read_chain(storage, path)
    taken = dict(chain.from_iterable(link.taken.items() for link in links))
    retaken = dict(chain.from_iterable(link.retaken.items() for link in links))
    return Ledger(source_id, uri, taken, retaken, read_from=path, links=links)


def with_overlapping(storage: Storage, extra: Mapping[str, str], ledger: Ledger, files: Sequence[FileInfo]) -> Ledger:
    """Return a source's ledger, with `files` that were taken from folders above or below.

    Storage is read only for folders of which the commit with this extra metadata has a ledger.

    Raises:
        Corrupt: one of these ledgers cannot be read.
    """
    subfolders = {str(parent) for info in files for parent in PurePosixPath(info.path).parents} - {"."}
    below = [(f"{ledger.uri}/{_in_uri(ledger.uri, sub)}", sub) for sub in sorted(subfolders)]
    read: dict[str, str] = {}
    versions: dict[str, set[tuple[int, int]]] = {}

    def add(uri: str, path_of: Callable[[str], str | None]) -> None:
        other = read_ledger(storage, extra, uri)
        read[other.source_id] = other.read_from
        for path, version in other.taken.items():
            if (own := path_of(path)) is not None:
                versions.setdefault(own, set()).add(version)

    for uri, sub in below:
        add(uri, partial(_joined, sub))
    for uri, prefix in _above(ledger.uri):
        add(uri, partial(_within, prefix))
    return replace(ledger, elsewhere={path: frozenset(found) for path, found in versions.items()}, overlapping=read)


def _above(uri: str) -> Iterator[tuple[str, str]]:
    """Yield the URIs of the folders above, with the source's path below each, ending in a slash."""
    scheme, _, place = uri.rstrip("/").partition("://")
    host, *names = place.split("/")
    for count in range(len(names) - 1, -1, -1):
        below = "/".join(names[count:])
        yield "/".join((f"{scheme}://{host}", *names[:count])), (unquote(below) if scheme == "file" else below) + "/"


def _joined(folder: str, path: str) -> str:
    return f"{folder}/{path}"


def _within(prefix: str, path: str) -> str | None:
    return path.removeprefix(prefix) if path.startswith(prefix) else None


def _in_uri(uri: str, path: str) -> str:
    return quote(path) if uri.startswith("file:") else path


def offer_of(
    source: Storage,
    listed: Sequence[FileInfo],
    ledger: Ledger,
    now_ms: int,
    min_age_s: float,
    retake: Sequence[str] = (),
    *,
    takes_all: bool = False,
) -> Offer:
    """Return the listed files to take: changed files first, then new files, each by path.

    Waiting: names with a segment that begins with `_` or `.` unless `takes_all`, names with an unknown ending, files of no bytes,
    which hold nothing that could be taken, whether they were taken before or not, and files younger than `min_age_s`. `retake` are
    paths below the folder of files taken before; one that has changed since is offered again.

    Raises:
        InvalidRequest: a taken file has changed and `retake` does not name it, or `retake` names a file that was never taken or is
            absent.
    """
    again = {path.removeprefix(f"{source.uri}/") for path in retake}
    known = ledger.known
    _refuse_unknown(source, known, again, {info.path for info in listed})
    corrected: list[FileInfo] = []
    fresh: list[FileInfo] = []
    waiting = {}
    for info in listed:
        version = (info.size_bytes, info.modified_ms)
        taken = known.get(info.path)
        is_known = taken == version or version in ledger.elsewhere.get(info.path, ())
        if not takes_all and any(segment.startswith(("_", ".")) for segment in info.path.split("/")):
            waiting[info.path] = "the name begins with _ or ."
        elif source_format(info.name) is None:
            waiting[info.path] = "not CSV, JSON lines or Parquet"
        elif not info.size_bytes:
            waiting[info.path] = "empty" if taken is None or not taken[0] else _EMPTIED
        elif is_known:
            continue
        elif taken is not None and taken[0] and info.path not in again:
            _refuse_changed(source, info, taken)
        elif min_age_s > 0 and now_ms - info.modified_ms < min_age_s * 1000:
            waiting[info.path] = f"changed less than {min_age_s:g} s ago"
        else:
            (fresh if taken is None or not taken[0] else corrected).append(info)
    # Rows of later files win, so corrections of old files come before new files.
    return Offer((*corrected, *fresh), waiting, retaken=frozenset(info.path for info in corrected))


def one_file(source: Storage, name: str) -> FileInfo:
    """Return the file of a source that a user named.

    Raises:
        InvalidRequest: there is no such file, or its ending is unknown.
    """
    info = source.head(name)
    if info is None or source_format(name) is None:
        raise InvalidRequest(
            f"{source.uri}/{name} {'does not exist' if info is None else 'is not CSV, JSON lines or Parquet'}",
            expected=f"a file whose name ends in {', '.join(SUFFIXES)}, the first four also with .gz",
            found="no such file" if info is None else name,
            next_step="check the path" if info is None else "convert the file, or give it the ending of its format",
            file=f"{source.uri}/{name}",
        )
    return info


def _refuse_unknown(source: Storage, known: Container[str], again: Set[str], listed: Set[str]) -> None:
    wrong = next((path for path in sorted(again) if path not in known or path not in listed), None)
    if wrong is None:
        return
    raise InvalidRequest(
        f"{wrong} cannot be taken again: {'it was never taken' if wrong in listed else 'there is no such file'}",
        expected=f"the path, below {source.uri}, of a file that was taken before",
        found=wrong,
        next_step="correct the path; a file that was never taken is taken without --retake",
        field="retake",
        file=f"{source.uri}/{wrong}",
    )


def _refuse_changed(source: Storage, info: FileInfo, taken: tuple[int, int]) -> None:
    raise InvalidRequest(
        f"{source.uri}/{info.path} changed after it was taken",
        expected=f"{taken[0]} bytes, changed at {taken[1]} ms",
        found=f"{info.size_bytes} bytes, changed at {info.modified_ms} ms",
        next_step=f"to upsert the corrected file, take it again: --retake {info.path}, or retake=[...] in Python; otherwise "
        "put corrections into a new file, and restore this one or take it out of the folder",
        file=f"{source.uri}/{info.path}",
    )
