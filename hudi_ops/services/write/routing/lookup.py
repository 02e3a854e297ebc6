"""Route rows by a lookup of their keys, a round at a time, and regroup them by file group.

The driver holds the keys of one round, and twelve bytes for each row whose key was found.
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
from hudi_ops.metadata.records.partitions import MetadataPartition, rebuild_command
from hudi_ops.services.base.slices import live_slices
from hudi_ops.services.write.operations import WriteOperation
from hudi_ops.services.write.routing.inserts import InsertAssigner, known_group
from hudi_ops.services.write.routing.locators import locator_of
from hudi_ops.services.write.routing.routes import Routes, Target
from hudi_ops.services.write.routing.shards import KeyShard, Shard, leave_out_elsewhere, rounds_of
from hudi_ops.services.write.routing.tasks import ShardKeys, keys_of_shard, route_shard
from hudi_ops.services.write.tasks.duplicates import refuse_duplicate
from hudi_ops.services.write.tasks.tag import SourceSummary, chunk_key, keys_key
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS, Footprint
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import Slice

ROUND_ROWS = 4_000_000
"""Rows whose keys the driver holds at a time: 160 MB of UUIDs. Each base file that may hold some is read once a round."""


@dataclass
class IndexRouter:
    """Routes one batch of a table with the bloom, simple or record index.

    `scattered` and `summaries` are the result of the first step, by shard; `state` is the table before the write begins.
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
        counted: dict[Shard, int] = defaultdict(int)
        for summary in self.summaries:
            for path, shard, rows in summary.groups:
                counted[path, shard] += rows
        self._shards = dict(sorted(counted.items()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def intent(self, source: str | None) -> Footprint:
        """Return the footprint: groups that exist, and partitions that get new keys."""
        found = self.routes(self.state)
        named = (
            (target.partition_path, target.found.file_id[:BUCKET_DIGITS])
            for target in found.targets
            if target.found is not None
        )
        adds = frozenset(
            target.partition_path for target in found.targets if target.found is None or target.is_rewritten
        )
        return self.operation.intent(named, source=source, adds=adds, looked=found.looked)

    def routes(self, state: TableState) -> Routes:
        """Look up the batch's keys, and regroup its rows by file group.

        Raises:
            Conflict: a file was cleaned during the lookup.
        """
        # All that is visible follows from completions.
        made_of = state.timeline.completions
        if self._routes is None or (self._made_of != made_of and not self._is_valid(state)):
            self._held.close()
            self._routes = None
            try:
                self._routes = self._made(state)
            except NotFound as error:
                raise Conflict(
                    f"a base file vanished while keys were looked up: {error.what}",
                    next_step="run the same call again; a cleaner or a restore removed the file",
                ) from error
        self._made_of = made_of
        return self._routes

    def _is_valid(self, state: TableState) -> bool:
        """Return whether the last lookup is still valid: its slices are unchanged in `state`."""
        if not self.operation.looks_keys_up:
            return True
        return self._met is not None and self._slices(state, {path for path, _ in self._shards}) == self._met

    def _made(self, state: TableState) -> Routes:
        shards = {shard: KeyShard(rows) for shard, rows in self._shards.items()}
        slices: dict[GroupName, Slice] = {}
        groups: list[GroupName] = []
        is_global = False
        if self.operation.looks_keys_up:
            here = {path for path, _ in shards}
            slices = self._slices(state, here)
            self._met = None if state.log.properties.facts.index == "record_index" else slices
            locator = locator_of(self.session, self.engine, state, list(slices.values()), self.schema)
            is_global = locator.is_global
            groups = self._look_up(locator, shards)
            elsewhere = {group.partition_path for group in groups} - here
            slices = slices | self._slices(state, elsewhere) if elsewhere else slices
        known = [self._known(state, slices, name) for name in groups]
        names = [target.chunks for target in known]
        fresh: dict[str, int] = defaultdict(int)
        if self.operation.kernel is not Operation.DELETE:
            for (path, _), held in shards.items():
                fresh[path] += len(held.fresh_rows)
        dealt = InsertAssigner(self.session, state, self.summaries).assign(
            {path: rows for path, rows in fresh.items() if rows}, slices.values(), set(names)
        )
        shares = {path: [(target.chunks, rows) for target, rows in takers] for path, takers in dealt.items()}
        tasks = [(chunk_key(*shard), held.route(names, shares.get(shard[0], ()))) for shard, held in shards.items()]
        routed = self._held.enter_context(self.scattered.regroup(route_shard, tasks))
        targets = {target.chunks: target for target in known}
        targets |= {target.chunks: target for takers in dealt.values() for target, _ in takers}
        filled = sorted({key for keys in routed.summaries for key in keys})
        looked = ("table" if is_global else "partition") if dealt and self.operation.looks_keys_up else ""
        return Routes(routed, tuple(targets[key] for key in filled), looked)

    def _slices(self, state: TableState, partitions: set[str]) -> dict[GroupName, Slice]:
        found = live_slices(self.session, state, sorted(partitions))
        return {GroupName(*slice_.key): slice_ for slice_ in found}

    def _look_up(self, locator: Locator, shards: Mapping[Shard, KeyShard]) -> list[GroupName]:
        """Locate all keys, round by round; fill the shards, and return the groups by their numbers."""
        numbers: dict[GroupName, int] = {}
        for chosen in rounds_of(self._shards, ROUND_ROWS, whole=locator.is_global):
            tasks = [(keys_key(*shard), None) for shard in chosen]
            told: list[ShardKeys] = self.scattered.gather(keys_of_shard, tasks)
            answers = dict(zip(chosen, told, strict=True))
            parts: dict[str, list[tuple[Shard, pa.Array]]] = defaultdict(list)
            for shard, answer in answers.items():
                shards[shard].digest = answer.digest
                parts[shard[0]].append((shard, answer.keys))
            keys = {path: pa.concat_arrays([column for _, column in held]) for path, held in parts.items()}
            for found in locator.locate(keys):
                number = numbers.setdefault(found.group, len(numbers))
                first = 0
                for shard, column in parts[found.asked_in]:
                    low, high = np.searchsorted(found.rows, [first, first + len(column)])
                    if high > low:
                        shards[shard].found.append(((found.rows[low:high] - first).astype(np.int32), number))
                    first += len(column)
            if locator.is_global and self.operation.kernel is not Operation.DELETE:
                key = leave_out_elsewhere(answers, shards, Ordering(self.state.config.merge_mode))
                if key is not None and self.operation.kernel is Operation.INSERT:
                    refuse_duplicate(self.state.config.name, key, "several partitions")
        return list(numbers)

    def _known(self, state: TableState, slices: Mapping[GroupName, Slice], name: GroupName) -> Target:
        found = slices.get(name)
        if found is None:
            raise Corrupt(
                f"the index names file group {name.file_id} for some keys, but readers do not see this group",
                table=state.config.name,
                expected=f"a file group of partition {name.partition_path or '.'}",
                found=name.file_id,
                next_step=f"run {rebuild_command(MetadataPartition.RECORD_INDEX)}; `hudi-ops verify TABLE --index` names the "
                "damage",
            )
        return known_group(found)
