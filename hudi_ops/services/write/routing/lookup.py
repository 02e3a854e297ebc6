"""Routing where the index has to be asked: keys are looked up, a round at a time, and rows brought together by file group.

Beside what the engine holds, the driver holds the keys of one round, and twelve bytes for each row whose key was found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from hudi_ops.commit.session import Session
from hudi_ops.engine.protocol import Engine, Scattered
from hudi_ops.errors import Conflict, Corrupt, NotFound
from hudi_ops.index.locator import GroupName, Locator
from hudi_ops.kernels.merging.merge import Operation, Ordering
from hudi_ops.metadata.records.partitions import MetadataPartition, build_again
from hudi_ops.services.base.slices import live_slices
from hudi_ops.services.write.operations import WriteOperation
from hudi_ops.services.write.routing.inserts import Takers, known_group
from hudi_ops.services.write.routing.locators import locator_of
from hudi_ops.services.write.routing.routes import Routes, Target
from hudi_ops.services.write.routing.shards import Lane, LaneState, leave_out_elsewhere, rounds_of
from hudi_ops.services.write.routing.tasks import LaneKeys, keys_of_lane, route_lane
from hudi_ops.services.write.tasks.duplicates import refuse_duplicate
from hudi_ops.services.write.tasks.tag import SourceSummary, chunk_key, keys_key
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS, Footprint
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import Slice

ROUND_ROWS = 4_000_000
"""Rows whose keys the driver holds at a time: of UUIDs 160 MB. Every base file that may hold some is read once a round."""


@dataclass
class LocatedRouter:
    """Routes one batch of a table with the bloom, simple or record index.

    Args:
        session: the table.
        operation: what is done.
        engine: holds the rows.
        scattered: the first step's chunks, by lane.
        summaries: of the first step.
        schema: the table's columns, without meta columns.
        state: the table as it is before the write begins.
    """

    session: Session
    operation: WriteOperation
    engine: Engine
    scattered: Scattered
    summaries: Sequence[SourceSummary]
    schema: pa.Schema
    state: TableState

    def __post_init__(self) -> None:
        self._held = ExitStack()
        self._routes: Routes | None = None
        self._made_of: object = None
        self._met: dict[GroupName, Slice] | None = None
        counted: dict[Lane, int] = defaultdict(int)
        for summary in self.summaries:
            for path, lane, rows in summary.groups:
                counted[path, lane] += rows
        self._lanes = dict(sorted(counted.items()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def intent(self, source: str | None) -> Footprint:
        """The groups that exist, and the partitions into which keys go that are new there."""
        found = self.routes(self.state)
        named = (
            (one.partition_path, one.found.file_id[:BUCKET_DIGITS]) for one in found.targets if one.found is not None
        )
        adds = frozenset(one.partition_path for one in found.targets if one.found is None or one.is_rewritten)
        return self.operation.intent(named, source=source, adds=adds, looked=found.looked)

    def routes(self, state: TableState) -> Routes:
        """Look the batch's keys up, and bring its rows together by file group.

        Raises:
            Conflict: a file was cleaned while it was looked into.
        """
        # All that is visible follows from what completed.
        made_of = state.timeline.completions
        if self._routes is None or (self._made_of != made_of and not self._is_met_again(state)):
            self._held.close()
            self._routes = None
            try:
                self._routes = self._made(state)
            except NotFound as error:
                raise Conflict(
                    f"a base file vanished while keys were looked up: {error.what}",
                    next_step="run the same call again; somebody cleaned or restored the table meanwhile",
                ) from error
        self._made_of = made_of
        return self._routes

    def _is_met_again(self, state: TableState) -> bool:
        """Whether what was asked is in this state as it was: writes to other partitions change nothing of it."""
        if not self.operation.looks_keys_up:
            return True
        return self._met is not None and self._slices(state, {path for path, _ in self._lanes}) == self._met

    def _made(self, state: TableState) -> Routes:
        lanes = {lane: LaneState(rows) for lane, rows in self._lanes.items()}
        slices: dict[GroupName, Slice] = {}
        groups: list[GroupName] = []
        is_global = False
        if self.operation.looks_keys_up:
            here = {path for path, _ in lanes}
            slices = self._slices(state, here)
            self._met = None if state.log.properties.facts.index == "record_index" else slices
            locator = locator_of(self.session, self.engine, state, list(slices.values()), self.schema)
            is_global = locator.is_global
            groups = self._look_up(locator, lanes)
            elsewhere = {one.partition_path for one in groups} - here
            slices = slices | self._slices(state, elsewhere) if elsewhere else slices
        known = [self._known(state, slices, name) for name in groups]
        names = [one.chunks for one in known]
        fresh: dict[str, int] = defaultdict(int)
        if self.operation.kernel is not Operation.DELETE:
            for (path, _), held in lanes.items():
                fresh[path] += len(held.fresh_rows)
        dealt = Takers(self.session, state, self.summaries).deal(
            {path: rows for path, rows in fresh.items() if rows}, slices.values(), set(names)
        )
        shares = {path: [(target.chunks, rows) for target, rows in one] for path, one in dealt.items()}
        tasks = [(chunk_key(*lane), held.route(names, shares.get(lane[0], ()))) for lane, held in lanes.items()]
        routed = self._held.enter_context(self.scattered.regroup(route_lane, tasks))
        targets = {one.chunks: one for one in known}
        targets |= {target.chunks: target for one in dealt.values() for target, _ in one}
        filled = sorted({key for keys in routed.summaries for key in keys})
        looked = ("table" if is_global else "partition") if dealt and self.operation.looks_keys_up else ""
        return Routes(routed, tuple(targets[key] for key in filled), looked)

    def _slices(self, state: TableState, partitions: set[str]) -> dict[GroupName, Slice]:
        found = live_slices(self.session, state, sorted(partitions))
        return {GroupName(one.partition_path, one.file_id): one for one in found}

    def _look_up(self, locator: Locator, lanes: Mapping[Lane, LaneState]) -> list[GroupName]:
        """Ask for all keys, round by round; fills the lanes, and returns the groups that their pairs mean."""
        numbers: dict[GroupName, int] = {}
        for chosen in rounds_of(self._lanes, ROUND_ROWS, whole=locator.is_global):
            tasks = [(keys_key(*lane), None) for lane in chosen]
            told: list[LaneKeys] = self.scattered.gather(keys_of_lane, tasks)
            answers = dict(zip(chosen, told, strict=True))
            parts: dict[str, list[tuple[Lane, pa.Array]]] = defaultdict(list)
            for lane, answer in answers.items():
                lanes[lane].digest = answer.digest
                parts[lane[0]].append((lane, answer.keys))
            keys = {path: pa.concat_arrays([one for _, one in held]) for path, held in parts.items()}
            for found in locator.locate(keys):
                number = numbers.setdefault(found.group, len(numbers))
                first = 0
                for lane, column in parts[found.asked_in]:
                    low, high = np.searchsorted(found.rows, [first, first + len(column)])
                    if high > low:
                        lanes[lane].found.append(((found.rows[low:high] - first).astype(np.int32), number))
                    first += len(column)
            if locator.is_global and self.operation.kernel is not Operation.DELETE:
                key = leave_out_elsewhere(answers, lanes, Ordering(self.state.config.merge_mode))
                if key is not None and self.operation.kernel is Operation.INSERT:
                    refuse_duplicate(self.state.config.name, key, "several partitions")
        return list(numbers)

    def _known(self, state: TableState, slices: Mapping[GroupName, Slice], name: GroupName) -> Target:
        found = slices.get(name)
        if found is None:
            raise Corrupt(
                f"the index says that keys lie in file group {name.file_id}, which readers do not see",
                table=state.config.name,
                expected=f"a file group of partition {name.partition_path or '.'}",
                found=name.file_id,
                next_step=f"run {build_again(MetadataPartition.RECORD_INDEX)}; `hudi-ops verify TABLE --index` tells what is wrong",
            )
        return known_group(found)
