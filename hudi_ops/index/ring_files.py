"""Read and write the versions of each partition's hash ring (docs/protocol §27).

Readers repair nothing. A version counts if its `.commit` file exists, or if its instant completed on the timeline, in the archived
history or in the commit log; a ring file alone proves nothing, since an aborted resize or overwrite leaves one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, TypeAlias, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from hudi_ops.config.table import TableConfig
from hudi_ops.engine.protocol import Engine
from hudi_ops.errors import Conflict, Corrupt, NotFound
from hudi_ops.index.ring import INITIAL, TOP, Child, Ring, initial_ring, parse_ring, renewed, with_children
from hudi_ops.storage.claim import ensure
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.commit_metadata import RING_CHILDREN_KEY, CommitMetadata
from hudi_ops.timeline.content.undone import undone_by
from hudi_ops.timeline.log.commit_log import Log
from hudi_ops.timeline.log.entries import Complete
from hudi_ops.timeline.state import CommitReader, TableState

RINGS_FOLDER = ".hoodie/.bucket_index/consistent_hashing_metadata"

RINGS_KEY = "hudi_ops.rings"
"""Entry of a commit's extra metadata: by partition path, the instant of the ring that an overwrite or a resize changes."""

Entry = TypeVar("Entry")
_Nodes: TypeAlias = dict[str, list[tuple[Annotated[int, Field(ge=0, le=TOP)], str | None]]]

_RING, _COMMITTED = ".hashing_meta", ".commit"


@dataclass(frozen=True)
class RingVersions:
    """Files of one partition's rings.

    Attributes:
        rings: instants with a ring file, ascending.
        committed: instants with a `.commit` file.
    """

    partition_path: str
    rings: tuple[str, ...]
    committed: frozenset[str]


def ring_folder(partition_path: str) -> str:
    """Return the folder of a partition's rings; it also holds those of partitions below."""
    return f"{RINGS_FOLDER}/{partition_path}" if partition_path else RINGS_FOLDER


def ring_path(partition_path: str, instant: str) -> str:
    """Return the path of a version of a partition's ring."""
    return f"{ring_folder(partition_path)}/{instant}{_RING}"


def committed_path(partition_path: str, instant: str) -> str:
    """Return the path of the empty file which says that a version counts."""
    return f"{ring_folder(partition_path)}/{instant}{_COMMITTED}"


def has_rings(storage: Storage) -> bool:
    """Return whether a table has ring files."""
    return any(info.path.endswith(_RING) for info in storage.list(RINGS_FOLDER))


def ring_versions(storage: Storage, partition_path: str) -> RingVersions:
    """List the files of a partition's rings."""
    return _versions_of(partition_path, [info.name for info in storage.list_folder(ring_folder(partition_path)).files])


def all_ring_versions(storage: Storage) -> dict[str, RingVersions]:
    """List the files of all rings at once, by partition path."""
    names: dict[str, list[str]] = {}
    for info in storage.list(RINGS_FOLDER):
        folder, _, name = info.path.removeprefix(RINGS_FOLDER).rpartition("/")
        names.setdefault(folder.removeprefix("/"), []).append(name)
    return {path: _versions_of(path, found) for path, found in sorted(names.items())}


def _versions_of(partition_path: str, names: Iterable[str]) -> RingVersions:
    seen = [name for name in names if not name.startswith(".")]
    rings = sorted(name.removesuffix(_RING) for name in seen if name.endswith(_RING))
    committed = {name.removesuffix(_COMMITTED) for name in seen if name.endswith(_COMMITTED)}
    return RingVersions(partition_path, tuple(rings), frozenset(committed))


@dataclass(frozen=True)
class RingReader:
    """Reader of the rings that count in one state; `log` is None before an adoption."""

    storage: Storage
    config: TableConfig
    timeline: Timeline
    commits: CommitReader
    log: Log | None

    @classmethod
    def of(cls, storage: Storage, state: TableState, commits: CommitReader) -> RingReader:
        """Return the reader for a state."""
        return cls(storage, state.config, state.timeline, commits, state.log)

    def read_all(self, partitions: Iterable[str], engine: Engine) -> dict[str, Ring | None]:
        """Return the rings of partitions, with one listing for each; see `read`."""
        paths = sorted({*partitions})
        return dict(zip(paths, engine.map(self.read, paths), strict=True))

    def read(self, partition_path: str) -> Ring | None:
        """Return the ring of a partition; None: it has none yet.

        Raises:
            Conflict: a newer ring was committed since the state was read, or the ring vanished.
            Corrupt: the ring cannot be read.
        """
        return self.read_listed(ring_versions(self.storage, partition_path))

    def read_listed(self, versions: RingVersions) -> Ring | None:
        """Return the ring of a partition whose files were listed; None: it has none yet.

        Raises:
            Conflict: a newer ring was committed since the state was read, or the ring vanished.
            Corrupt: the ring cannot be read.
        """
        instant, partition_path = self.current(versions), versions.partition_path
        if instant is None:
            return None
        path = ring_path(partition_path, instant)
        try:
            return parse_ring(self.storage.get(path), path, partition_path, instant)
        except NotFound:
            raise Conflict(
                f"the ring file {path} vanished while it was read",
                table=self.config.name,
                instant=instant,
                expected="a ring file that stays while its version counts",
                next_step="run the same call again: it starts from the table as it is now",
            ) from None
        except Corrupt as error:
            raise error.at(table=self.config.name) from None

    def current(self, versions: RingVersions) -> str | None:
        """Return the instant of the version that counts; None: the partition has no ring yet.

        Raises:
            Conflict: a newer version was committed since the state was read.
            Corrupt: a version that counts has no ring file.
        """
        lost = max(versions.committed.difference(versions.rings), default="")
        if lost > max(versions.committed.intersection(versions.rings), default=""):
            raise Corrupt(
                f"partition {versions.partition_path or '.'} has no ring file of {lost}, whose `.commit` file exists",
                table=self.config.name,
                instant=lost,
                file=ring_path(versions.partition_path, lost),
                expected="a ring file beside each `.commit` file",
                found="none",
                next_step="restore it from a copy of the table; without it no key of the partition can be located",
            )
        return next((instant for instant in reversed(versions.rings) if self.counts(instant, versions)), None)

    def counts(self, instant: str, versions: RingVersions) -> bool:
        """Return whether a version counts, by the proofs in the order of their cost.

        Raises:
            Conflict: it was committed after the state was read.
        """
        if instant == INITIAL:
            return True
        found = self.timeline.find(instant)
        if found is not None and found.is_completed:
            return True
        if instant in versions.committed:
            if found is not None or instant > self.timeline.newest_time:
                raise Conflict(
                    f"the hash ring of partition {versions.partition_path or '.'} changed since the table was read",
                    table=self.config.name,
                    instant=instant,
                    expected="a ring whose instant completed before",
                    found=f"the ring of {instant}, which completed afterwards",
                    next_step="run the same call again: it routes the rows by the new ring",
                )
            return True
        if found is not None or instant >= self.timeline.start:
            return False  # pending, or rolled back
        if self.commits.archived.completion_times(self.config.history_folder, [instant])[instant]:
            return True
        fate = self.log.fate(instant) if self.log is not None else None
        return fate is not None and isinstance(fate[1], Complete)


def put_initial(storage: Storage, partition_path: str, buckets: int) -> Ring:
    """Create the first ring of a partition if there is none, and return the stored ring.

    Every writer makes the same bytes, except one with another number of buckets: the ring that was put first counts.

    Raises:
        Corrupt: the existing ring cannot be read.
        OutcomeUnknown: it could not be settled whether the ring exists.
    """
    path, ring = ring_path(partition_path, INITIAL), initial_ring(partition_path, buckets)
    ensure(storage, path, ring.to_bytes())
    return parse_ring(storage.get(path), path, partition_path, INITIAL)


@dataclass(frozen=True)
class NewRings:
    """Rings that a completed file makes, from versions that count before it.

    Attributes:
        parents: by partition path, the instant of the ring that is changed.
        children: changed nodes by partition path, where a resize makes the ring; an overwrite renews the others.
    """

    parents: Mapping[str, str]
    children: Mapping[str, tuple[Child, ...]]

    def __iter__(self) -> Iterator[str]:
        """Yield the paths of the partitions."""
        return iter(self.parents)


NO_RINGS = NewRings({}, {})


def renewal_text(rings: Mapping[str, str]) -> str:
    """Return the entry of a commit's extra metadata for the rings that it renews."""
    return json.dumps(dict(sorted(rings.items())), separators=(",", ":"), ensure_ascii=False)


def resize_extra(rings: Mapping[str, str], children: Mapping[str, Iterable[Child]]) -> dict[str, str]:
    """Return the entries of a commit's extra metadata that say how a resize changes rings."""
    nodes = {path: [[child.value, child.prefix] for child in children[path]] for path in sorted(children)}
    return {
        RINGS_KEY: renewal_text(rings),
        RING_CHILDREN_KEY: json.dumps(nodes, separators=(",", ":"), ensure_ascii=False),
    }


def rings_made(extra: Mapping[str, str], path: str) -> frozenset[str]:
    """Return the partitions of which a completed commit made a ring, from its extra metadata.

    Raises:
        Corrupt: the entry is damaged; names `path`.
    """
    return frozenset(_entry(TypeAdapter(dict[str, str]), extra, RINGS_KEY, path))


def new_rings(body: bytes, path: str) -> NewRings:
    """Return the rings that a completed file makes.

    Raises:
        Corrupt: the file is no commit metadata, or its entries are damaged.
    """
    if RINGS_KEY.encode() not in body:
        return NO_RINGS
    extra = CommitMetadata.from_bytes(body, path).extra
    parents = _entry(TypeAdapter(dict[str, str]), extra, RINGS_KEY, path)
    nodes = _entry(TypeAdapter(_Nodes), extra, RING_CHILDREN_KEY, path)
    if nodes and nodes.keys() != parents.keys():
        raise Corrupt(
            f"{path}: {RINGS_KEY} and {RING_CHILDREN_KEY} name different partitions",
            file=path,
            expected=", ".join(sorted(parents)),
            found=", ".join(sorted(nodes)),
            next_step="restore the file from a copy of the table",
        )
    return NewRings(
        parents, {name: tuple(Child(value, prefix) for value, prefix in held) for name, held in nodes.items()}
    )


def _entry(kind: TypeAdapter[Entry], extra: Mapping[str, str], key: str, path: str) -> Entry:
    text = extra.get(key, "{}")
    try:
        return kind.validate_json(text)
    except ValidationError:
        raise Corrupt(
            f"{path}: {key} cannot be read",
            file=path,
            expected="a JSON object of partition paths, as the commit that changes a hash ring has it",
            found=text[:100],
            next_step="restore the file from a copy of the table",
        ) from None


def put_rings(storage: Storage, rings: NewRings, instant: str) -> None:
    """Put the rings that an instant makes, from the versions before it.

    A foreign executor of a resize may have left a ring of the same instant, for groups that the decided commit leaves out. It is
    replaced.

    Raises:
        Corrupt: a ring that is changed cannot be read.
        NotFound: a ring that is changed is gone.
        OutcomeUnknown: it could not be settled whether a ring exists.
    """
    for partition_path, parent in rings.parents.items():
        path = ring_path(partition_path, parent)
        try:
            ring = parse_ring(storage.get(path), path, partition_path, parent)
        except NotFound:
            if max(ring_versions(storage, partition_path).committed, default="") >= instant:
                continue  # another process applied the instant before, and a clean removed the old versions
            raise
        children = rings.children.get(partition_path)
        made = renewed(ring, instant) if children is None else with_children(ring, children, instant)
        path, body = ring_path(partition_path, instant), made.to_bytes()
        if not ensure(storage, path, body) and children is not None and storage.get(path) != body:
            storage.put(path, body)


def delete_rings(storage: Storage, partitions: Iterable[str], instant: str) -> None:
    """Delete the versions of an instant that does not count: first the `.commit` files."""
    paths = [path(partition, instant) for path in (committed_path, ring_path) for partition in sorted(partitions)]
    storage.delete_all(paths, ordered=True)


@dataclass(frozen=True)
class OldRings:
    """Ring files of a partition that no process asks for.

    `kept` is the newest version that counts at the horizon. `files` are of versions below it, the `.commit` files first.
    """

    partition_path: str
    kept: str
    is_sealed: bool
    files: tuple[str, ...]


def old_rings(reader: RingReader, horizon: str) -> tuple[OldRings, ...]:
    """Return the ring files that no undo down to the instant `horizon` makes count again.

    No instant at or below the horizon may be pending. Nothing is returned of a partition whose kept version was undone, and
    counts by its `.commit` file alone: Apache Hudi's undo leaves it, and its repair needs the version below.
    """
    found = []
    is_undone = lru_cache(None)(
        lambda instant: undone_by(reader.storage, reader.config, reader.timeline, instant) is not None
    )
    for path, versions in all_ring_versions(reader.storage).items():
        kept = next(
            (one for one in reversed(versions.rings) if one <= horizon and reader.counts(one, versions)), INITIAL
        )
        if kept != INITIAL and reader.timeline.find(kept) is None and is_undone(kept):
            continue
        committed = sorted(one for one in versions.committed if one < kept)
        files = [committed_path(path, one) for one in committed]
        files += [ring_path(path, one) for one in versions.rings if one < kept]
        if files:
            found.append(OldRings(path, kept, kept in versions.committed, tuple(files)))
    return tuple(found)


def drop_old_rings(storage: Storage, found: Iterable[OldRings]) -> int:
    """Delete old ring files, and return their number.

    First the kept version gets its `.commit` file: once its instant is archived, nothing else tells Apache Hudi that it counts.
    """
    count = 0
    for rings in found:
        if not rings.is_sealed:
            ensure(storage, committed_path(rings.partition_path, rings.kept), b"")
        storage.delete_all(rings.files, ordered=True)
        count += len(rings.files)
    return count


def seal_rings(storage: Storage, instants: Collection[str]) -> None:
    """Put the missing `.commit` files of versions whose instants will be archived.

    Apache Hudi leaves its own without one until the next write to the partition. Afterwards nothing would tell it that the ring
    counts: it would route by the first ring again.
    """
    files = {info.path for info in storage.list(RINGS_FOLDER)} if instants else set()
    for path in sorted(files):
        folder, _, name = path.rpartition("/")
        instant = name.removesuffix(_RING)
        if name.endswith(_RING) and instant in instants and f"{folder}/{instant}{_COMMITTED}" not in files:
            ensure(storage, f"{folder}/{instant}{_COMMITTED}", b"")


def rings_of(storage: Storage, instant: str) -> list[str]:
    """Return the ring files of an instant in the order of removal: `.commit` files first."""
    names = (f"{instant}{_COMMITTED}", f"{instant}{_RING}")
    files = [info for info in storage.list(RINGS_FOLDER) if info.name in names]
    return [info.path for name in names for info in files if info.name == name]
