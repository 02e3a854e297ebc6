"""Random histories of all actions, with processes that die at random storage operations, against a dict model.

After each move readers see the rows of the model, and each instant that the policy promises reads as it did. In the end another
process recovers, cleans, archives and repairs the table, and its whole folder is compared with what the promised instants need.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from hudi_ops.verify import verify_table
from tests.bounds import bound
from tests.services.histories.folder import assert_needed
from tests.services.histories.moves import Game
from tests.services.histories.world import HOUR_MS, World
from tests.tables import DEFINITION, LOGGED_WITH_METADATA, MERGE_ON_READ, WITH_METADATA

KINDS = {"cow": DEFINITION, "mor": MERGE_ON_READ, "cow-mdt": WITH_METADATA, "mor-mdt": LOGGED_WITH_METADATA}
RETAIN = 2


def play(kind: str, seed: int, steps: int, landing: Path) -> Game:
    """Play one history and its end; an error names kind and seed."""
    game = Game(World(KINDS[kind], random.Random(f"{kind} {seed}"), landing))
    try:
        for _ in range(steps):
            game.step()
        end(game)
    except Exception as error:
        error.add_note(f"kind {kind}, seed {seed}, {steps} steps")
        raise
    return game


def end(game: Game) -> None:
    """Let other processes finish everything, then compare the folder; the savepoints of half of the histories stay."""
    world = game.world
    world.deaths = 0.0
    world.clock.advance_ms(26 * HOUR_MS)
    while world.restoring:
        game.restore()
    table = world.table(actor="last")
    table.recover()
    table.indexing.run()
    if world.chance.random() < 0.5:
        for instant in sorted(world.saved):
            table.savepoints.delete(instant)
    for _ in range(4):
        game.upsert()
        if world.definition.table_type == "MERGE_ON_READ":
            for _ in range(9):
                if world.table().compaction.run(threshold=1).instant is None:
                    break
        world.act("recover", lambda table: table.recover())
        world.clock.advance_ms(26 * HOUR_MS)
        world.promise("commits", RETAIN)
        while world.act("clean", lambda table: table.clean.run(retain=RETAIN)).instant is not None:
            pass
        if world.definition.metadata:
            world.table().metadata.compact()
        world.act("archive", lambda table: table.archive.run(keep_min=RETAIN, keep_max=RETAIN))
        world.act("repair", lambda table: table.repair())
    world.compare_past()
    found = verify_table(world.storage, deep=True, clock=world.clock).findings
    assert found == (), found
    assert_needed(world.table(actor="judge"), world.promised())


@pytest.mark.full("searches schedules for many seconds")
@pytest.mark.rotate(shares=2)
@pytest.mark.timeout(bound(600, 600, 7_200))
@pytest.mark.parametrize("kind", KINDS)
def test_what_the_policy_promises_is_readable_and_nothing_else_is_left(kind: str, tmp_path: Path) -> None:
    died: dict[str, int] = {}
    for seed in range(bound(1, 2, 200)):
        (landing := tmp_path / str(seed)).mkdir()
        game = play(kind, seed, 60, landing)
        died |= game.world.died
    print(f"{kind}: processes died in {died}")
    assert len(died) >= 8
