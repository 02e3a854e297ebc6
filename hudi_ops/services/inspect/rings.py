"""Describe the hash rings of a table: nodes, file groups, children of pending resizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hudi_ops.config.table import TableConfig
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import Conflict, InvalidRequest
from hudi_ops.index.resizes import RingChange, changes_of, is_resize
from hudi_ops.index.ring import HASHES, Ring
from hudi_ops.index.ring_files import RingReader, RingVersions, all_ring_versions, ring_versions
from hudi_ops.metadata.reader.listing import open_listing
from hudi_ops.metadata.reader.table import MetadataTable
from hudi_ops.read.plan import Opened
from hudi_ops.read.prune import with_metadata
from hudi_ops.services.base.result import Result
from hudi_ops.services.inspect.summary import load_log
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.plans import ReplacePlan, read_plan
from hudi_ops.timeline.log.commit_log import Log
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.files import FileColumns
from hudi_ops.view.columns.slices import visible_slices
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.partitions import choose, plain_paths
from hudi_ops.view.slices import Slice, is_partitioned

_TRIES = 3


@dataclass(frozen=True)
class NodeView(Result):
    """One node of a ring and its file group.

    Attributes:
        above: value of the preceding node. The node holds the hashes above `above`, up to `value`; they reach around the end of the
            ring if `above` is not below `value`.
        base_bytes: size of the base file; None: the file group has none, or does not exist yet.
    """

    value: int
    above: int
    file_id: str
    base_bytes: int | None
    log_bytes: int
    log_files: int

    @property
    def hashes(self) -> int:
        """Return how many hashes the node holds."""
        return (self.value - self.above) % HASHES or HASHES

    @property
    def total_bytes(self) -> int:
        """Return the bytes of the file group's slice."""
        return (self.base_bytes or 0) + self.log_bytes

    def as_dict(self) -> dict[str, Any]:
        """Return the node as plain values."""
        return {**super().as_dict(), "hashes": self.hashes}


@dataclass(frozen=True)
class ChildView(Result):
    """Change of one node in a pending resize.

    Attributes:
        instant: of the plan.
        parents: file ids of the groups that the plan group replaces.
        value: highest hash of the node.
        file_id: of the child group; None: the node is removed.
        tag: Apache Hudi's word for it: REPLACE or DELETE.
        log_files: number of its child logs, which writers wrote since the plan.
    """

    instant: str
    parents: tuple[str, ...]
    value: int
    file_id: str | None
    tag: str
    log_files: int
    log_bytes: int


@dataclass(frozen=True)
class RingView(Result):
    """Hash ring of one partition, at the version that counts.

    Attributes:
        instant: the write or resize that made the version; fourteen zeros: the first ring.
        seq_no: number of changes since the first ring.
        buckets: number of nodes of the first ring.
        nodes: ascending by value.
        pending: children of pending resizes, by plan and value.
    """

    table: str
    partition_path: str
    instant: str
    seq_no: int
    buckets: int
    nodes: tuple[NodeView, ...]
    pending: tuple[ChildView, ...] = ()

    @property
    def total_bytes(self) -> int:
        """Return the bytes of all its slices."""
        return sum(node.total_bytes for node in self.nodes)

    def as_dict(self) -> dict[str, Any]:
        """Return the ring as plain values."""
        nodes = [node.as_dict() for node in self.nodes]
        return {**super().as_dict(), "node_count": len(nodes), "total_bytes": self.total_bytes, "nodes": nodes}


def describe_rings(
    storage: Storage,
    partitions: Sequence[str] = (),
    commits: CommitReader | None = None,
    engine: LocalEngine | None = None,
) -> list[RingView]:
    """Return the ring of each partition, by partition path; change nothing.

    A table with hash rings and without rows has none yet.

    Args:
        storage: of the table, adopted or not.
        partitions: paths or patterns such as `origin=J*`; none: all.
        commits: reads its commits.
        engine: limits the files that are read at a time.

    Raises:
        InvalidRequest: the path is not a table, it has no hash rings, or no partition has a wanted name.
        Corrupt: a ring, a plan or a commit cannot be read.
        Conflict: resizes completed again and again while the table was looked at.
    """
    reader, engine = commits or CommitReader(storage), engine or LocalEngine()
    for _ in range(_TRIES - 1):
        with suppress(Conflict):  # a resize completed since the timeline was read
            return _described(storage, Opened.of(storage, reader), partitions, engine)
    return _described(storage, Opened.of(storage, reader), partitions, engine)


def _described(storage: Storage, opened: Opened, wanted: Sequence[str], engine: LocalEngine) -> list[RingView]:
    config, timeline, commits = opened.config, opened.timeline, opened.commits
    log = load_log(storage, timeline, commits)
    versions = _versions(storage, config, log, wanted)
    reader = RingReader(storage, config, timeline, commits, log)
    rings = [ring for ring in engine.map(reader.read_listed, versions) if ring is not None]
    paths = [ring.partition_path for ring in rings]

    def listed(metadata: MetadataTable | None) -> FileColumns:
        return open_listing(storage, config, metadata, engine=engine).files(paths)

    files = with_metadata(storage, config, timeline, "auto", listed, engine, commits.archived)
    slices = {slice_.key: slice_ for slice_ in visible_slices(config, timeline, commits, files)}
    pending = _pending(storage, opened)
    return [_view(config.name, ring, slices, files[ring.partition_path], pending) for ring in rings]


def _versions(storage: Storage, config: TableConfig, log: Log | None, wanted: Sequence[str]) -> list[RingVersions]:
    """Return the listed files of the wanted rings.

    Raises:
        InvalidRequest: the table has no hash rings or no partitions, or no partition has a wanted name.
    """
    if wanted and not is_partitioned(config):
        raise InvalidRequest(
            "the table has no partitions to choose from",
            table=config.name,
            expected="no partition named",
            found=", ".join(wanted),
        )
    asked = [ring_versions(storage, path) for path in plain_paths(wanted)]
    if asked and all(one.rings for one in asked):
        return asked
    found = all_ring_versions(storage)
    if not any(one.rings for one in found.values()):
        if not wanted and log is not None and log.properties.facts.has_ring:
            return []
        raise InvalidRequest(
            "the table has no hash rings",
            table=config.name,
            expected="the bucket engine consistent or extendible, and a write",
            found=f"index {log.properties.facts.index}" if log is not None else "no ring files",
            next_step="create a table with the bucket engine consistent; `hudi-ops show TABLE` describes any table",
        )
    return [found[path] for path in (choose(found, wanted, config) if wanted else found)]


def _pending(storage: Storage, opened: Opened) -> list[tuple[str, RingChange]]:
    """Return the instant and the change of each plan group of pending resizes."""
    found: list[tuple[str, RingChange]] = []
    for instant in opened.timeline.pending:
        plan = read_plan(storage, opened.timeline, instant) if instant.kind == "replacecommit" else None
        if isinstance(plan, ReplacePlan) and is_resize(plan):
            found += [(instant.time, change) for change in changes_of(plan, opened.config.name, instant.time)]
    return found


def _view(
    table: str,
    ring: Ring,
    slices: Mapping[tuple[str, str], Slice],
    files: Sequence[DataFile],
    pending: Sequence[tuple[str, RingChange]],
) -> RingView:
    path = ring.partition_path
    nodes = []
    for node, value in enumerate(ring.values.tolist()):
        slice_ = slices.get((path, ring.file_id(node)))
        base = slice_.base.size_bytes if slice_ is not None and slice_.base is not None else None
        logs = slice_.logs if slice_ is not None else ()
        sizes = sum(file.size_bytes for file in logs)
        nodes.append(NodeView(value, ring.range_of(node)[0], ring.file_id(node), base, sizes, len(logs)))
    ahead: dict[tuple[str, str], list[int]] = {}
    for file in files:
        if file.is_log and not file.is_cdc:
            ahead.setdefault((file.instant, file.file_id), []).append(file.size_bytes)
    children = []
    for instant, change in pending:
        for child in change.children if change.partition_path == path else ():
            file_id = None if child.prefix is None else f"{child.prefix}-0"
            logged = ahead.get((instant, file_id or ""), [])
            children.append(
                ChildView(instant, change.parents, child.value, file_id, child.tag, len(logged), sum(logged))
            )
    children.sort(key=lambda child: (child.instant, child.value))
    return RingView(table, path, ring.instant, ring.seq_no, ring.buckets, tuple(nodes), tuple(children))
