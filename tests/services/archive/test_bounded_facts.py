"""Facts that are read from a view within bounds equal those that listings and all commits tell, in random histories."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from hudi_ops.health.look import Look
from hudi_ops.services.archive.facts import Bound, read_facts
from hudi_ops.services.archive.rules import first_stay
from tests.bounds import bound
from tests.protocol.archived_history import PLAIN, made as made_late
from tests.services.histories.moves import Game
from tests.services.histories.world import World
from tests.tables import LOGGED_WITH_METADATA, MERGE_ON_READ, table_of

KINDS = {"mor": MERGE_ON_READ, "mor-mdt": LOGGED_WITH_METADATA}
ALL = 1_000_000


@pytest.mark.full("a history is compared after each of many moves")
def test_bounded_facts_equal_listed_ones(tmp_path: Path) -> None:
    told = dict.fromkeys(("replaced", "left"), 0)
    for kind, seed in [(kind, seed) for seed in range(bound(1, 1, 60)) for kind in KINDS]:
        (landing := tmp_path / f"{kind}{seed}").mkdir()
        world = World(KINDS[kind], random.Random(f"bounded {kind} {seed}"), landing)
        game = Game(world)
        for step in range(bound(40, 40, 60)):
            game.step()
            if not world.restoring:
                compare(world, told, f"{kind}, seed {seed}, step {step}")
    assert min(told.values()) >= bound(1, 1, 100), told


def compare(world: World, told: dict[str, int], said: str) -> None:
    look = Look.at(table_of(world.storage, world.clock, "looker")._session)
    session, state = look.session, look.state
    full = read_facts(session, state, 1)
    bounded = read_facts(session, state, 1, Bound(look.view, look.now_ms, ALL, ALL, ALL))
    assert bounded.replaced.keys() == full.replaced.keys(), said
    assert (bounded.late, bounded.left, bounded.unswept) == (full.late, full.left, full.unswept), said
    assert (bounded.clean, bounded.holds, bounded.undoing) == (full.clean, full.holds, full.undoing), said
    few = read_facts(session, state, 1, Bound(look.view, look.now_ms))
    first, same = first_stay(full), first_stay(few)
    assert first is not None
    assert same is not None
    assert same[0].time >= first[0].time, said
    for name in told:
        told[name] += bool(getattr(full, name))


def test_a_late_completion_is_told_by_the_view() -> None:
    storage, clock, writer = made_late(PLAIN)
    table = table_of(storage, clock, "writer")

    def late() -> dict[str, str]:
        look = Look.at(table_of(storage, clock, "looker")._session)
        return dict(read_facts(look.session, look.state, 1, Bound(look.view, look.now_ms, writes=9)).late)

    assert [*late()] == [writer.time]
    clock.advance_ms(1_000)
    table.compaction.run()
    assert late() == {}
