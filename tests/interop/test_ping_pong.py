"""Apache Hudi and we write one table in turn, with the same bucket index, against a dict: nothing is lost, nothing doubled.

Rounds are random but seeded; `--soak` plays more of them, and more seeds. After every round both programs and the `hudi` package
must read the model's rows, and the meta columns of all three must agree.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bounds import SOAK
from tests.interop.apache_hudi import HudiPeer
from tests.interop.conftest import HudiRsReader
from tests.interop.game import Game, Rules
from tests.interop.our_rows import SCHEMAS

ROUNDS, SOAK_ROUNDS = 10, 20
SEEDS = range(12 if SOAK else 1)
OURS = (
    *("upsert", "upsert", "upsert", "insert", "bulk_insert", "delete"),
    *("insert_overwrite", "insert_overwrite_table", "delete_partition"),
)
# Not its bulk_insert: into a bucket that has a file group it makes a second one, in tables of its own too.
THEIRS = ("upsert", "upsert", "upsert", "insert", "delete", "insert_overwrite", "delete_partition")
RULES = Rules(
    OURS, THEIRS, buckets=3, schema=SCHEMAS["parquet"], numbers=range(120), first=range(0, 120, 3), most=25
)  # fmt: skip


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("we_begin", [True, False], ids=["we begin", "they begin"])
def test_the_table_stays_one(
    we_begin: bool, seed: int, tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: HudiRsReader
) -> None:
    game = Game(tmp_path / "table", RULES, seed * 2 + we_begin, apache_hudi)
    for _ in game.play(SOAK_ROUNDS if SOAK else ROUNDS, we_begin=we_begin):
        game.check(apache_hudi.read, hudi_rs)
    game.refuse_errors()
