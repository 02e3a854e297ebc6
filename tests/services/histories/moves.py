"""Moves of a random history: writes of each operation, services, savepoints, holds, restores and repairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hudi_ops.errors import InvalidRequest
from tests.services.histories.world import HOUR_MS, World, after_folder
from tests.tables import rows

PARTS = ("p0", "p1")
POLICIES = ("commits", "commits", "commits", "hours", "versions")


@dataclass
class Game:
    """The moves upon one world."""

    world: World
    files: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)

    def step(self) -> None:
        """Make one random move; a pending restore is finished before most others."""
        world = self.world
        world.clock.advance_ms(world.chance.choice([50, 1_000, 20_000, 150_000, HOUR_MS]))
        if world.restoring:
            move = self.restore if world.chance.random() < 0.7 else self.refused_write
        else:
            names, weights = zip(*self.weights().items(), strict=True)
            (move,) = world.chance.choices(names, weights)
        self.made[move.__name__] = self.made.get(move.__name__, 0) + 1
        try:
            move()
            if move not in {self.upsert, self.insert, self.folder} or world.chance.random() < 0.2:
                world.compare_past()
        except Exception as error:
            error.add_note("\n".join(world.story[-60:]))
            raise

    def weights(self) -> dict[Callable[[], None], int]:
        """Return the moves with how often each is made."""
        merges = self.world.definition.table_type == "MERGE_ON_READ"
        has_metadata = self.world.definition.metadata
        return {
            self.upsert: 20,
            self.insert: 3,
            self.bulk_insert: 2,
            self.delete: 3,
            self.folder: 6,
            self.overwrite: 2,
            self.overwrite_table: 1,
            self.drop_partition: 1,
            self.truncate: 1,
            self.plan_compaction: 3 if merges else 0,
            self.compact: 8 if merges else 0,
            self.clean: 12,
            self.plan_clean: 2,
            self.archive: 8,
            self.save: 4,
            self.unsave: 4,
            self.restore: 3 if self.world.saved else 0,
            self.hold: 2,
            self.release: 1,
            self.repair: 2,
            self.recover: 1,
            self.compact_metadata: 2 if has_metadata else 0,
            self.rebuild_metadata: 1 if has_metadata else 0,
        }

    # Writes

    def _batch(self, *keys: str) -> dict[str, tuple[str, int]]:
        self.world.count += 1
        return {key: (PARTS[int(key[1:]) % 2], self.world.count) for key in keys}

    def _write(self, batch: dict[str, tuple[str, int]], operation: str, after: object) -> None:
        values = rows(*((key, part, value, value, None) for key, (part, value) in batch.items()))
        self.world.act(operation, lambda table: table.ingest(values, operation).instant, after)  # type: ignore[arg-type]

    def upsert(self) -> None:
        keys = self.world.chance.sample(range(6), self.world.chance.randint(1, 4))
        batch = self._batch(*(f"k{key}" for key in keys))
        self._write(batch, "upsert", self.world.now.put(batch))

    def insert(self) -> None:
        batch = self._batch(f"n{self.world.count + 1}")
        self._write(batch, "insert", self.world.now.put(batch))

    def bulk_insert(self) -> None:
        batch = self._batch(f"b{self.world.count + 1}")
        self._write(batch, "bulk_insert", self.world.now.put(batch))

    def delete(self) -> None:
        there = [key for key in self.world.now.held if key[0] != "f"]
        batch = self._batch(*self.world.chance.sample(there, min(2, len(there))))
        if batch:
            self._write(batch, "delete", self.world.now.without(lambda key, _: key in batch))

    def overwrite(self) -> None:
        batch = self._batch(f"k{self.world.chance.randrange(6)}")
        ((part, _),) = batch.values()
        self._write(batch, "insert_overwrite", self.world.now.without(lambda _, held: held == part).put(batch))

    def overwrite_table(self) -> None:
        batch = self._batch("k0", "k1")
        self._write(batch, "insert_overwrite_table", self.world.now.without(lambda *_: True).put(batch))

    def drop_partition(self) -> None:
        part = self.world.chance.choice(PARTS)
        if any(held == part for held, _ in self.world.now.held.values()):
            after = self.world.now.without(lambda _, held: held == part)
            self.world.act("delete_partition", lambda table: table.delete_partition([f"part={part}"]).instant, after)

    def truncate(self) -> None:
        self.world.act("truncate", lambda table: table.truncate().instant, self.world.now.without(lambda *_: True))

    def folder(self) -> None:
        """Land a new file, mostly, and take what was not taken: each file once."""
        world = self.world
        if world.chance.random() < 0.8:
            world.count += 1
            name = f"file-{world.count:05}"
            self.files[name] = {f"f{world.chance.randrange(3)}": ("pf", world.count)}
            world.land(name, self.files[name])
        wanted = len(self.files.keys() - world.now.taken)

        def take(table: object) -> str | None:
            done = table.ingest_folder(str(world.landing))  # type: ignore[attr-defined]
            assert done.files == wanted, f"{done.files} source files were taken, not {wanted}"
            return done.instant

        world.act("ingest_folder", take, after_folder(world.now, self.files))

    def refused_write(self) -> None:
        """Write while a restore is pending: refused."""
        values = rows(("k0", "p0", -1, 10**9, None))
        done = self.world.act("upsert amid a restore", lambda table: table.ingest(values).instant)
        assert done is None, "a write passed a pending restore"

    # Services

    def plan_compaction(self) -> None:
        self._tolerant("plan a compaction", lambda table: table.compaction.plan(threshold=1))

    def compact(self) -> None:
        self._tolerant("compact", lambda table: table.compaction.run(threshold=1))

    def _policy(self) -> dict[str, object]:
        policy = self.world.chance.choice(POLICIES)
        retain = self.world.chance.randint(1, 4)
        self.world.promise(policy, retain)
        return {"policy": policy, "retain": retain, "max_files": self.world.chance.choice([None, None, None, 2])}

    def clean(self) -> None:
        asked = self._policy()
        self._tolerant(f"clean {asked}", lambda table: table.clean.run(**asked))  # type: ignore[attr-defined]

    def plan_clean(self) -> None:
        asked = self._policy()
        self._tolerant(f"plan a clean {asked}", lambda table: table.clean.plan(**asked))  # type: ignore[attr-defined]

    def archive(self) -> None:
        keep = self.world.chance.randint(1, 4)
        self.world.promise_archive(keep)
        self._tolerant(f"archive {keep}", lambda table: table.archive.run(keep_min=keep, keep_max=keep + 1))

    def save(self) -> None:
        before = set(self.world.saved)
        if len(before) < 2:
            self._tolerant("create a savepoint", lambda table: table.savepoints.create())
            assert before <= self.world.saved, "a savepoint is lost"

    def unsave(self) -> None:
        before = sorted(self.world.saved)
        if before:
            gone = self.world.chance.choice(before)
            self._tolerant(f"delete savepoint {gone}", lambda table: table.savepoints.delete(gone))
            assert {*before} - {gone} <= self.world.saved, "another savepoint is lost"

    def restore(self) -> None:
        wanted = None if self.world.restoring else max(self.world.saved)
        self.world.act(f"restore {wanted}", lambda table: table.savepoints.restore(wanted))
        assert not (self.world.restoring and self.world.story[-1].endswith("done")), "the restore is still pending"

    def hold(self) -> None:
        wanted = self.world.chance.choice(sorted(self.world.past)[-4:] or [""])
        seconds = self.world.chance.choice([600, 7_200])
        if wanted:
            self._tolerant("hold", lambda table: table.holds.take(wanted, seconds=seconds))

    def release(self) -> None:
        for hold in self.world.table().holds.list()[:1]:
            self.world.act("release a hold", lambda table, name=hold.id: table.holds.release(name))

    def repair(self) -> None:
        self._tolerant("repair", lambda table: table.repair())

    def recover(self) -> None:
        self.world.act("recover", lambda table: table.recover())

    def compact_metadata(self) -> None:
        self._tolerant("compact the metadata table", lambda table: table.metadata.compact())

    def rebuild_metadata(self) -> None:
        self._tolerant("rebuild the metadata table", lambda table: table.indexing.run(rebuild=True))

    def _tolerant(self, name: str, move: Callable[..., object]) -> None:
        """Make a move that may be refused as a wrong request: the table changed on the way to it."""
        try:
            self.world.act(name, move)
        except InvalidRequest as error:
            self.world.story.append(f"{self.world.clock.now_ms()} {name}: refused: {error.what}")
