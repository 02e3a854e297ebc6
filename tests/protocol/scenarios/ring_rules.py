"""What must hold of hash rings and resizes after any run, beside what holds of every table.

The rules are numbered as in the list of invariants of the resize: R1 a ring covers each hash once; R2 each partition has one
ring that counts; R4 each key lies in the visible group of its node; R5 an aborted resize leaves nothing; R6 at most one resize
of a partition is pending; R7 ring file and completed instant agree. R3, that archiving changes no ring, is for the named
interleavings; that rows stay as they are, for the oracle of all tables.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hudi_ops.files.names import parse_data_file
from hudi_ops.index.bucket_engine import ring_engine_of
from hudi_ops.index.resizes import changes_of
from hudi_ops.index.ring import HASHES, INITIAL, Child, Ring, parse_ring, with_children
from hudi_ops.index.ring_files import RINGS_KEY, RingReader, all_ring_versions, ring_path
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.timeline.content.archived import load_history
from hudi_ops.timeline.content.commit_metadata import RING_CHILDREN_KEY, CommitMetadata
from hudi_ops.timeline.content.footprint import decode_footprint, is_child_log
from hudi_ops.timeline.content.plans import ReplacePlan, read_plan
from hudi_ops.timeline.log.commit_log import load_log
from hudi_ops.timeline.log.entries import Cancel, Complete, Plan, Void
from hudi_ops.timeline.state import CommitReader, StateLoader, TableState
from tests.protocol.scenarios.check import Oracle, Outcome
from tests.protocol.scenarios.worlds import Rows
from tests.tables import table_of

REPLACING = frozenset({"insert_overwrite", "delete_partition"})


@dataclass
class RingOracle(Oracle):
    """Judges tables with hash rings.

    Where no job replaces a partition, it also wants every resize to complete whole: writes beside it cost it no group.
    """

    def _judge(self, storage: MemoryStorage, outcomes: Mapping[str, Outcome]) -> None:
        super()._judge(storage, outcomes)
        self.check_rings(storage)

    def _check_files(self, settled: MemoryStorage) -> None:
        super()._check_files(settled)
        self.check_rings(settled)
        refuse_leftovers(settled)

    def check_rings(self, storage: MemoryStorage) -> None:
        """Look at rings, groups and plans.

        Raises:
            AssertionError: names the rule that does not hold.
        """
        view = RingView.of(storage)
        view.check_coverage()
        view.check_completions(whole=not any(job.operation in REPLACING for job in self.jobs.values()))
        view.check_groups()
        view.check_versions()
        refuse_two_plans(storage)


@dataclass(frozen=True)
class RingView:
    """A table's state, and the metadata of its completed writes, in the order in which they completed."""

    storage: MemoryStorage
    state: TableState
    commits: CommitReader
    writes: Sequence[tuple[str, CommitMetadata]]

    @classmethod
    def of(cls, storage: MemoryStorage) -> RingView:
        """Read it anew."""
        commits = CommitReader(storage)
        state = StateLoader(storage, commits).load()
        found = [(one.time, commits.metadata(state.timeline, one)) for one in state.timeline.completed_writes]
        return cls(storage, state, commits, [(time, metadata) for time, metadata in found if metadata is not None])

    def check_coverage(self) -> None:
        """R1, R2: each stored ring covers every hash once, and a `.commit` file proves only what completed."""
        completed = {INITIAL, *(time for time, _ in self.writes)}
        completed |= {one.time for one in load_history(self.storage, self.state.config).instants}
        for partition, versions in all_ring_versions(self.storage).items():
            for instant in versions.rings:
                body = json.loads(self.storage.get(ring_path(partition, instant)))
                values = [node["value"] for node in body["nodes"]]
                names = {node["fileIdPrefix"] for node in body["nodes"]}
                starts = [values[-1], *values[:-1]]
                widths = [(value - before) % HASHES or HASHES for before, value in zip(starts, values, strict=True)]
                assert sum(widths) == HASHES, f"R1: {partition} at {instant} has nodes {values}"
                assert len(names) == len(values), f"R1: {partition} at {instant} names a group twice"
            assert versions.committed <= completed, f"R2: {partition} counts {versions.committed - completed}"

    def check_completions(self, *, whole: bool) -> None:
        """R7: the ring of each completed resize follows from its commit; of a `whole` one each plan group completed."""
        for time, metadata in self.writes:
            if RING_CHILDREN_KEY not in metadata.extra:
                continue
            parents = json.loads(metadata.extra[RINGS_KEY])
            children = json.loads(metadata.extra[RING_CHILDREN_KEY])
            for partition, parent in parents.items():
                if self.storage.head(ring_path(partition, parent)) is None and self.state.timeline.by_kind.get("clean"):
                    continue  # a clean deleted the old ring
                before = self._ring(partition, parent)
                made = with_children(before, [Child(*one) for one in children[partition]], time)
                assert self._ring(partition, time).to_bytes() == made.to_bytes(), f"R7: ring of {partition} at {time}"
            if whole:
                plan = self._plan(time)
                planned = {name for change in changes_of(plan, "t", time) for name in change.prefixes}
                done = {name for nodes in children.values() for _, name in nodes if name is not None}
                assert done == planned, f"{time} leaves out groups, and no write replaced one"

    def _ring(self, partition: str, instant: str) -> Ring:
        path = ring_path(partition, instant)
        return parse_ring(self.storage.get(path), path, partition, instant)

    def _plan(self, time: str) -> ReplacePlan:
        found = next(one for one in self.state.timeline if one.time == time)
        plan = read_plan(self.storage, self.state.timeline, found)
        assert isinstance(plan, ReplacePlan)
        return plan

    def check_groups(self) -> Rows:
        """R4: each row lies in the group to which the ring that counts leads its key; returns the rows by key."""
        assert self.storage._clock is not None
        table = table_of(self.storage, self.storage._clock, "reader")
        rows = table.read(["id", "value"], meta_columns=True).to_pylist()
        reader = RingReader.of(self.storage, self.state, self.commits)
        engine = ring_engine_of(self.state.log.properties.facts)
        for partition in {row["_hoodie_partition_path"] for row in rows}:
            ring = reader.read(partition)
            assert ring is not None
            mine = [row for row in rows if row["_hoodie_partition_path"] == partition]
            nodes = ring.nodes_of(engine.hashes(pa.array([row["_hoodie_record_key"] for row in mine], pa.string())))
            for row, node in zip(mine, nodes.tolist(), strict=True):
                name = row["_hoodie_file_name"]
                held = parse_data_file(name)
                group = held.file_id if held is not None else name
                assert group == ring.file_id(node), f"R4: {row['id']} lies in {group}, its node is {ring.file_id(node)}"
        found = {row["id"]: row["value"] for row in rows}
        assert len(found) == len(rows), f"R4: a key shows twice in {sorted(row['id'] for row in rows)}"
        return found

    def check_versions(self) -> None:
        """The versions of a child's log files rise in the order in which their writes completed.

        A write that puts rows of several parents into one child may give them one version: they have no key in common.
        """
        newest: dict[tuple[str, str], int] = defaultdict(int)
        order = {one.time: one.completion_time for one in self.state.timeline.completed_writes}
        for time, metadata in sorted(self.writes, key=lambda one: order[one[0]]):
            held: dict[tuple[str, str], set[int]] = defaultdict(set)
            for stat in metadata.stats:
                name = parse_data_file(stat.file_name) if is_child_log(stat, time) else None
                if name is not None:
                    held[name.instant, stat.file_id].add(name.version)
            for group, versions in held.items():
                assert min(versions) > newest[group], f"{time} wrote version {min(versions)} of {group}, not the newest"
                newest[group] = max(versions)


def refuse_two_plans(storage: MemoryStorage) -> None:
    """R6: no plan names a partition of which a resize was pending when it was decided."""
    log = load_log(storage, None)
    assert log is not None
    pending: dict[str, set[str]] = {}
    slots = dict(log.since(-1))
    for slot, entry in slots.items():
        if isinstance(entry, Plan) and entry.action == "clustering":
            footprint = decode_footprint(entry.footprint)
            assert footprint is not None
            partitions = {partition for partition, _ in footprint.groups}
            both = [other for other, held in pending.items() if held & partitions]
            assert not both, f"R6: slot {slot} plans {entry.instant} beside {both}"
            pending[entry.instant] = partitions
        elif isinstance(entry, Complete | Cancel):
            pending.pop(entry.instant, None)
        elif isinstance(entry, Void) and isinstance(slots.get(entry.slot), Plan):
            pending.pop(slots[entry.slot].instant, None)


def refuse_leftovers(storage: MemoryStorage) -> None:
    """R5: no data file and no ring carries the instant of a cancelled plan; call it once everything is settled."""
    log = load_log(storage, None)
    assert log is not None
    cancelled = {entry.instant for _, entry in log.since(-1) if isinstance(entry, Cancel)}
    left = [path for path in _data_and_rings(storage) if any(instant in path for instant in cancelled)]
    assert not left, f"R5: left of cancelled instants: {left}"


def _data_and_rings(storage: MemoryStorage) -> Iterator[str]:
    for info in storage.list():
        if not info.path.startswith(".hoodie/") or "/.bucket_index/" in info.path:
            yield info.path
