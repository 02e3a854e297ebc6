"""Rounds in turn with Apache Hudi: either side writes, cleans, archives, saves, restores and finishes the other's clean.

Each round has a write, and an action of either side from a shuffled deck, so that every action of both occurs. A dict is the model
of the rows; savepoints keep copies of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa

from hudi_ops import Table
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows
from tests.interop.conftest import HudiRsReader
from tests.tables import VERSIONED, of_schema

KEYS, PARTS = 24, 3
DUE_MAX = 6
"""Number of writes after which a clean must be due."""
NAME = "rounds"
ACTIONS = ("clean", "archive", "save", "restore", "finish", "merge")
"""What either side does beside its writes; `finish` is the other side's pending clean, `merge` a compaction."""
QUIET = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
CLEANING = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
ARCHIVING = {
    **CLEANING,
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.archive.automatic": "true",
    "hoodie.timeline.compaction.batch.size": "2",
    "hoodie.metadata.compact.max.delta.commits": "2",
}
MERGING = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
_ALL_TIMES = "start_ts => '20200101000000000', end_ts => '20991231000000000'"


@dataclass(frozen=True)
class Terms:
    """A kind of table, and the seed of its game."""

    kind: Literal["cow", "mor"]
    metadata: bool
    version: Literal[8, 9]
    seed: int


class Rounds:
    """One table that both sides write and service, and the model of its rows."""

    def __init__(self, path: Path, terms: Terms, hudi: HudiPeer, hudi_rs: HudiRsReader) -> None:
        self.path, self.terms, self.hudi, self.hudi_rs = path, terms, hudi, hudi_rs
        self.dice = random.Random(terms.seed)
        self.rows: dict[str, tuple[str, int]] = {}
        """Partition and version by key."""
        self.saved: dict[str, dict[str, tuple[str, int]]] = {}
        """The rows by savepoint."""
        self.ours: list[str] = []
        """Instants of our writes that were not undone."""
        self.played: list[str] = []
        self.counts: dict[str, int] = {}
        self.version = 0
        self.table = self._create()
        self.write(ours=True)

        self.check()

    def __str__(self) -> str:
        return f"seed {self.terms.seed}, {self.terms}:\n  " + "\n  ".join(self.played)

    def _create(self) -> Table:
        return Table.create(
            str(self.path),
            name=NAME,
            record_key=["id"],
            schema=VERSIONED,
            partition_by=["part"],
            ordering="ts",
            table_type=self.terms.kind,
            buckets=1,
            metadata=self.terms.metadata,
            metadata_compact_after=3,
            version=self.terms.version,
        )

    def play(self, rounds: int) -> None:
        """Play, and compare all readers with the model after each round."""
        decks = {ours: self._deck(rounds) for ours in (True, False)}
        for number in range(rounds):
            self.played.append(f"round {number}")
            self.write(ours=number % 2 == 0)
            for ours in self.dice.sample((True, False), 2):
                self.act(decks[ours][number], ours=ours)
            self.check()
        self.check_archived()

    def _deck(self, rounds: int) -> list[str]:
        actions = [action for action in ACTIONS if action != "merge" or self.terms.kind == "mor"]
        deck = (actions * (rounds // len(actions) + 1))[: max(rounds, len(actions))]
        self.dice.shuffle(deck)
        return deck

    def act(self, action: str, *, ours: bool) -> None:
        """Do one action of one side."""
        self.played.append(f"{'we' if ours else 'they'} {action}")
        if ours and self.dice.random() < 0.5:
            self.table = Table.open(str(self.path), metadata_compact_after=3)
        done = getattr(self, f"_{action}")(ours)
        self.played[-1] += f": {done}"
        side = f"{'we' if ours else 'they'} {action}"
        self.counts[side] = self.counts.get(side, 0) + 1

    def write(self, *, ours: bool, parts: tuple[int, ...] = (), **options: str) -> None:
        """Write once, to some partitions or to any; the model follows."""
        self.version += 1
        operations = ("upsert", "upsert", "upsert", "delete", "insert_overwrite")
        # Apache Hudi 1.0.2 fails to read a key that a delete block and then an upsert name (docs/format §11.2).
        has_delete_blocks = self.terms.kind == "mor" and self.terms.version == 8
        operation = self.dice.choice(operations[:3] + operations[4:] if has_delete_blocks else operations)
        keys = [n for n in range(KEYS) if not parts or n % PARTS in parts]
        chosen = sorted(self.dice.sample(keys, self.dice.randint(1, min(12, len(keys)))))
        if not self.rows or parts:
            operation, chosen = "upsert", keys
        batch = of_schema(VERSIONED, [(f"k{n:02d}", f"p{n % PARTS}", self.version, self.version) for n in chosen])
        self.played.append(f"  {'we' if ours else 'they'} {operation} {len(chosen)} rows, version {self.version}")
        if operation == "insert_overwrite":
            touched = {f"p{n % PARTS}" for n in chosen}
            self.rows = {key: held for key, held in self.rows.items() if held[0] not in touched}
        for n in chosen:
            self.rows.pop(f"k{n:02d}", None)
            if operation != "delete":
                self.rows[f"k{n:02d}"] = (f"p{n % PARTS}", self.version)
        if ours:
            instant = self.table.ingest(batch, operation).instant
            assert instant is not None
            self.ours.append(instant)
            self.played[-1] += f", {instant}"
        else:
            self.hudi.write(self.path, batch, operation, buckets=1, options={**QUIET, **self._metadata, **options})

    @property
    def _metadata(self) -> dict[str, str]:
        return {"hoodie.metadata.enable": str(self.terms.metadata).lower()}

    def _clean(self, ours: bool) -> str:
        self.write(ours=not ours, parts=(0, 1))
        retain = self.dice.randint(1, 3)
        if not ours:
            options = ",".join(f"{key}={value}" for key, value in self._metadata.items())
            call = f"call run_clean(table => '{NAME}', retain_commits => {retain}, options => '{options}')"
            self.hudi.sql(call, tables={NAME: self.path})
            return f"retain {retain}"
        policy = self.dice.choice(("commits", "commits", "versions"))
        done = self.table.clean.run(policy=policy, retain=retain)
        return f"{policy} {retain}, {done.instant}, {done.deleted} deleted"

    def _archive(self, ours: bool) -> str:
        if not ours:
            self.write(ours=False, **ARCHIVING)
            return f"{self.hudi.timeline(self.path)['archived']} archived"
        if self.terms.metadata and self.dice.random() < 0.7:
            self.table.metadata.compact()
        done = self.table.archive.run(keep_min=2, keep_max=2)
        return f"{done.instants} archived, {done.note}"

    def _merge(self, ours: bool) -> str:
        if not ours:
            self.write(ours=False, **MERGING)
            return ""
        return str(self.table.compaction.run().instant)

    def _save(self, ours: bool) -> str:
        if len(self.saved) > 1:
            self._unsave(min(self.saved), ours=self.dice.random() < 0.5)
        instant = self.table._session.loader.load().timeline.completed_writes[-1].time
        if ours:
            instant = self.table.savepoints.create().instant
        else:
            self.hudi.sql(f"call create_savepoint(path => '{self.path}', commit_time => '{instant}')")
        self.saved[instant] = dict(self.rows)
        assert [one.instant for one in self.table.savepoints.list()] == sorted(self.saved)
        return instant

    def _unsave(self, instant: str, *, ours: bool) -> None:
        self.played.append(f"  {'we' if ours else 'they'} delete savepoint {instant}")
        if ours:
            self.table.savepoints.delete(instant)
        else:
            self.hudi.sql(f"call delete_savepoint(path => '{self.path}', instant_time => '{instant}')")
        del self.saved[instant]

    def _restore(self, ours: bool) -> str:
        if not self.saved or self.dice.random() < 0.5:
            self._save(not ours)
        self.write(ours=True)
        self.write(ours=False)
        instant = max(self.saved)
        if ours:
            self.table.savepoints.restore(instant)
        else:
            self.hudi.sql(
                f"call rollback_to_savepoint(path => '{self.path}', instant_time => '{instant}')", conf=self._metadata
            )
        self.rows = dict(self.saved[instant])
        self.ours = [one for one in self.ours if one <= instant]
        if self.dice.random() < 0.6:
            self._unsave(instant, ours=self.dice.random() < 0.5)
        self.check()
        # Neither side saves a write below the earliest retained instant of a clean, and that may be an undone one.
        self.write(ours=self.dice.random() < 0.5)
        return instant

    def _finish(self, ours: bool) -> str:
        """Let the other side plan a clean, and finish it."""
        if ours:
            planned = self._until_due(
                lambda: self.hudi.schedule_clean(self.path, NAME, self._metadata | CLEANING), False
            )
            self._is_alone(planned)
            assert self.table.clean.run().instant == planned
            return planned
        planned = self._until_due(self._plan_of_ours, True)
        self._is_alone(planned)
        self.write(ours=False, parts=(2,), **CLEANING)
        assert self.table.clean.execute(instant=planned).note == "it was completed before"
        return planned

    def _plan_of_ours(self) -> str | None:
        return self.table.clean.plan(retain=1).instant

    def _until_due(self, plan: Callable[[], str | None], ours: bool) -> str:
        """Make slices until a clean plans to delete one; return the plan's instant."""
        for _ in range(DUE_MAX):
            self.write(ours=ours, parts=(0,), **({} if ours or self.terms.kind == "cow" else MERGING))
            if ours and self.terms.kind == "mor":
                self.table.compaction.run()
            planned = plan()
            if planned is not None:
                return planned
        raise AssertionError(f"no clean was due after {DUE_MAX} writes")

    def _is_alone(self, planned: str) -> None:
        """Hold that this clean is pending, and nothing else."""
        pending = self.table._session.loader.load().timeline.pending
        assert [(one.time, one.action) for one in pending] == [(planned, "clean")]

    def check(self) -> None:
        """Every reader shows the rows of the model, the savepoints theirs; nothing is pending, and nothing is wrong."""
        self.table = Table.open(str(self.path), metadata_compact_after=3) if self.dice.random() < 0.5 else self.table
        ours = self.table.read(meta_columns=True)
        assert_same_rows(ours, self._table(self.rows))
        for read in (self._theirs, self.hudi_rs):
            assert_same_rows(read(self.path), ours, with_meta=True)
        for instant, rows in self.saved.items():
            assert_same_rows(self.table.read(as_of=instant), self._table(rows))
        assert self.table._session.loader.load().timeline.pending == ()
        found = verify_table(self.table._session.ctx.storage, deep=True, index=True)
        assert list(map(str, found.errors)) == []

    def _theirs(self, path: Path) -> pa.Table:
        return self.hudi.read(path, options=self._metadata)

    def _table(self, rows: dict[str, tuple[str, int]]) -> pa.Table:
        return of_schema(VERSIONED, [(key, part, version, version) for key, (part, version) in rows.items()])

    def check_archived(self) -> None:
        """Apache Hudi lists our archived instants, and no other is missing on the timeline."""
        call = f"call show_archived_commits(table => '{NAME}', limit => 1000, {_ALL_TIMES})"
        shown = set(self.hudi.sql(call, tables={NAME: self.path}).column("commit_time").to_pylist())
        timeline = self.table._session.loader.load().timeline
        gone = {instant for instant in self.ours if timeline.find(instant) is None}
        assert gone <= shown, sorted(gone - shown)
        self.played.append(f"archived: {len(shown)}, {len(gone)} of ours")
