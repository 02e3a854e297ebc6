"""A table that both sides write and service in a random order, whose view one process keeps and continues.

Each history has every move of its kind of table once, and a write of ours before it. A dict is the model of the rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pyarrow as pa

from hudi_ops import Table
from hudi_ops.context import Owner
from hudi_ops.read.current_view import current_view
from hudi_ops.storage.open import open_storage
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.kept import kept_view
from hudi_ops.view.columns.table_view import View
from tests.bounds import SOAK
from tests.fault_plans import DiesBefore
from tests.interop.apache_hudi import HudiPeer
from tests.interop.apache_views import assert_equal_views
from tests.interop.compare import assert_same_rows
from tests.interop.ringed import ring_options
from tests.tables import VERSIONED, of_schema

Kind = Literal["cow", "mor", "ring"]
NAME = "viewed"
PARTS = 2
SMALL = 3_000
"""Bytes above which buckets are split: a base file of a few rows has more."""
QUIET = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
UPKEEP = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.timeline.compaction.batch.size": "2",
    "hoodie.metadata.compact.max.delta.commits": "2",
}
"""Options of a writer of Apache Hudi that cleans and archives after its write."""
_UPDATES = "org.apache.hudi.client.clustering.update.strategy"
DUAL = ring_options(2) | {
    "hoodie.clustering.updates.strategy": f"{_UPDATES}.SparkConsistentBucketDuplicateUpdateStrategy"
}
"""Options of a writer of Apache Hudi that writes into the children of a pending resize, too."""
BEFORE_SLOT = "put:.hoodie/.commit_log/payload"
"""Where a writer dies that has put its data files and decided nothing."""


@dataclass(frozen=True)
class Terms:
    """A kind of table, and the seed of its history."""

    kind: Kind
    version: Literal[8, 9]
    metadata: bool
    seed: int


def observed(storage: Storage) -> View:
    """Return the view of a process that reads a table."""
    config = load_config(storage)
    return current_view(storage, config, load_timeline(storage, config), CommitReader(storage))


class ViewedTable:
    """One table, the model of its rows, and the view that is continued from the first write on."""

    def __init__(self, path: Path, terms: Terms, hudi: HudiPeer) -> None:
        self.path, self.terms, self.hudi = path, terms, hudi
        self.dice = random.Random(f"view {terms}")
        self.rows: dict[str, tuple[str, int]] = {}
        """Partition and version by key. A deleted key never comes back."""
        self.past: dict[str, dict[str, tuple[str, int]]] = {}
        """The rows as of writes that a clean has left whole."""
        self.count = 0
        self.built = self.synced = self.asked = self.replaced = 0
        self.played: list[str] = []
        self.table = self._create()
        self.observer = open_storage(str(path))
        """No writer has it: what it keeps is continued by syncs alone."""
        self.write(new=12)
        self.look()

    def __str__(self) -> str:
        counts = f"{self.synced} views synced, {self.built} built, Apache Hudi asked {self.asked} times"
        return f"{self.terms}: {counts}, {self.replaced} groups were replaced\n  " + "\n  ".join(self.played)

    def _create(self) -> Table:
        terms = self.terms
        ring = {"bucket_engine": "consistent", "buckets": 2, "buckets_min": 1, "buckets_max": 16}
        return Table.create(
            str(self.path),
            name=NAME,
            record_key=["id"],
            schema=VERSIONED,
            partition_by=["part"],
            ordering="ts",
            table_type="cow" if terms.kind == "cow" else "mor",
            metadata=terms.metadata,
            metadata_compact_after=3,
            version=terms.version,
            clean={"automatic": False},
            archive={"automatic": False},
            **(ring if terms.kind == "ring" else {"index": "bloom"}),
        )

    # The history

    def play(self) -> None:
        """Make each move once, in a random order, and compare after each."""
        moves = self._moves()
        self.dice.shuffle(moves)
        for move in moves:
            self.write()
            self.played.append(f"{move.__name__.strip('_')}: {move() or ''}")
            self.look()
        assert_same_rows(self.hudi.read(self.path, options=self._metadata), self._table(self.rows))

    def _moves(self) -> list[Callable[[], object]]:
        common = [self._delete, self._clean, self._archive, self._die, self._they_clean_and_archive]
        common += [self._they_roll_back] if SOAK else []
        if self.terms.kind == "ring":
            return [*common, self._resize, self._compact, self._plan_compaction]
        merges = [self._compact, self._plan_compaction, self._cancel_compaction]
        groups = [self._overwrite, self._cluster, self._cluster_by_either, self._cancel_clustering]
        return [*common, *groups, *(merges if self.terms.kind == "mor" else [])]

    def look(self) -> None:
        """Continue the view, and compare it with Apache Hudi's, and the rows with the model.

        Apache Hudi lists by the metadata table, if there is one, every second time.
        """
        view = self._view()
        completed = [one.time for one in view.timeline.completed_writes]
        replacing = [one.time for one in view.timeline.completed_writes if one.kind == "replacecommit"]
        instants = sorted({*self.dice.sample(completed, min(2, len(completed))), *replacing[-1:]})
        metadata = self.terms.metadata and self.asked % 2 == 0
        self.asked += 1
        assert_equal_views(view, self.hudi, self.path, instants, metadata=metadata)
        self.replaced = max(self.replaced, len(view.replaced))
        assert_same_rows(self.table.read(), self._table(self.rows))
        if self.past:
            instant = self.dice.choice(sorted(self.past))
            assert_same_rows(self.table.read(as_of=instant), self._table(self.past[instant]))

    def _view(self) -> View:
        """Return the view of the observer's process, built once and then continued."""
        config = load_config(self.observer)
        found = kept_view(self.observer, config, load_timeline(self.observer, config), CommitReader(self.observer))
        if found is not None:
            self.synced += 1
            return found
        self.built += 1
        self.played.append("  the view is built")
        return observed(self.observer)

    @property
    def _timeline(self) -> Timeline:
        return load_timeline(self.observer, load_config(self.observer))

    # Writes

    def write(self, new: int = 2) -> None:
        """Write new keys and newer versions of others; of known keys alone a merge-on-read table has log files afterwards."""
        batch = self._batch(new)
        instant = self.table.ingest(batch).instant
        assert instant is not None
        self.past[instant] = dict(self.rows)
        self.played.append(f"  we write {batch.num_rows} rows, {instant}")

    def _batch(self, new: int = 2, *, counts: bool = True) -> pa.Table:
        self.count += 1
        made = [f"k{self.count:02d}{n:02d}" for n in range(new)]
        old = self.dice.sample(sorted(self.rows), min(len(self.rows), self.dice.randint(1, 5)))
        changed = {key: (self._part(key), self.count) for key in (*made, *old)}
        if counts:
            self.rows.update(changed)
        return self._table(changed)

    @staticmethod
    def _part(key: str) -> str:
        return f"p{int(key[1:]) % PARTS}"

    @staticmethod
    def _table(rows: Mapping[str, tuple[str, int]]) -> pa.Table:
        return of_schema(VERSIONED, [(key, part, version, version) for key, (part, version) in rows.items()])

    def _delete(self) -> str:
        self.count += 1
        gone = {key: (self.rows.pop(key)[0], self.count) for key in self.dice.sample(sorted(self.rows), 2)}
        return str(self.table.ingest(self._table(gone), "delete").instant)

    def _overwrite(self) -> str:
        self.count += 1
        key = f"k{self.count:02d}99"
        part = self._part(key)
        self.rows = {key: held for key, held in self.rows.items() if held[0] != part} | {key: (part, self.count)}
        return str(self.table.ingest(self._table({key: self.rows[key]}), "insert_overwrite").instant)

    def _die(self) -> str:
        """Let a writer die between its data files and its commit; look; then the next process rolls it back."""
        dying = FaultyStorage(open_storage(str(self.path)), DiesBefore(BEFORE_SLOT))
        gone = replace(Owner.of_this_process(), started="1")
        with suppress(Crash):
            Table(replace(self.table.context, storage=dying, owner=gone)).ingest(self._batch(counts=False))
            raise AssertionError("the writer did not die")
        pending = max(one.time for one in self._timeline.pending)
        self.look()
        self.table.rollback(pending, abandoned=True)
        return pending

    def _they_roll_back(self) -> str:
        """Let Apache Hudi write, and undo its completed write."""
        before = dict(self.rows)
        self._they_write()
        self.look()
        newest = max(one.time for one in self._timeline.completed_writes)
        call = f"call rollback_to_instant(table => '{NAME}', instant_time => '{newest}')"
        self.hudi.sql(call, tables={NAME: self.path}, conf=self._metadata)
        self.rows = before
        return newest

    def _they_write(self, **options: str) -> None:
        index = DUAL if self.terms.kind == "ring" else {"hoodie.index.type": "BLOOM"}
        self.hudi.write(self.path, self._batch(), options={**index, **QUIET, **self._metadata, **options})

    @property
    def _metadata(self) -> dict[str, str]:
        return {"hoodie.metadata.enable": str(self.terms.metadata).lower()}

    # Services

    def _clean(self) -> str:
        done = self.table.clean.run(policy=self.dice.choice(("commits", "versions")), retain=self.dice.randint(1, 3))
        self.past.clear()
        return f"{done.instant}, {done.deleted} deleted"

    def _archive(self) -> str:
        done = self.table.archive.run(keep_min=3, keep_max=3)
        self.past = {instant: rows for instant, rows in self.past.items() if instant >= self._timeline.start}
        return f"{done.instants} archived"

    def _they_clean_and_archive(self) -> str:
        self._they_write(**UPKEEP)
        self.past.clear()
        return f"{self.hudi.timeline(self.path)['archived']} archived"

    def _plan_compaction(self) -> str:
        """Plan one, which stays pending until the next move that executes or cancels one."""
        self.write(new=0)
        planned = self.table.compaction.plan(threshold=1, cancel="cancellable")
        assert planned.instant is not None, planned.note
        return planned.instant

    def _compact(self) -> str:
        self.write(new=0)
        return str(self.table.compaction.run(threshold=1).instant)

    def _cancel_compaction(self) -> str:
        pending = [one.time for one in self._timeline.pending if one.action == "compaction"]
        return self._cancelled(pending[0] if pending else self._plan_compaction())

    def _cancel_clustering(self) -> str:
        return self._cancelled(str(self.table.clustering.plan(rewrite=True, sort_by=["value"]).instant))

    def _cancelled(self, planned: str) -> str:
        self.look()
        assert self.table.cancel(planned).state == "aborted"
        return planned

    def _cluster(self) -> str:
        return str(self.table.clustering.run(rewrite=True, sort_by=["value"]).instant)

    def _cluster_by_either(self) -> str:
        """Let Apache Hudi plan a clustering, and either execute it."""
        self._they_cluster("schedule")
        pending = [one.time for one in self._timeline.pending if one.action == "clustering"]
        self.look()
        if self.dice.random() < 0.5:
            self._they_cluster("execute")
            return f"they, {pending}"
        return f"we, {[self.table.clustering.execute(instant=one).instant for one in pending]}"

    def _they_cluster(self, operation: str) -> None:
        said = ",".join(f"{key}={value}" for key, value in self._metadata.items())
        self.hudi.sql(f"call run_clustering(path => '{self.path}', op => '{operation}', options => '{said}')")

    def _resize(self) -> str:
        """Plan a resize, let both write into the children, and execute it. Groups of a pending compaction are not resized."""
        self.table.compaction.run(threshold=1)
        planned = self.table.resize.plan(split_bytes=SMALL, merge_bytes=0, max_partitions=PARTS)
        assert planned.instant is not None, planned.note
        self.write()
        self._they_write()
        self.look()
        self.table.resize.execute(instant=planned.instant)
        return planned.instant
