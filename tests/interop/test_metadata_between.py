"""Apache Hudi comes between the delta that a write of ours has made and its decision: nothing is lost to whoever believes it.

It writes, requested later and completed earlier; or it builds a metadata table, drops one, or adds partitions to it. Our write
goes on at once. Then everybody reads the same rows, filtered on columns with statistics, too, and the metadata table is compared
with the files. A plain run has each with one type of table, the soak with both.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.commit.apply.delta_maker import DeltaMaker
from hudi_ops.timeline.state import TableState
from tests.interop.apache_hudi import BELIEVED, HudiPeer
from tests.interop.dead_writes import LAZY
from tests.interop.game import MORE, Game, Rules
from tests.interop.our_rows import row

WRONG_BY_HUDI = ("column raw of .", "column single of .", "column double of .")
"""What its builds say of log files: bytes are compared with signs, and an end that is NaN leaves everything out."""


class Between(Game):
    """A table of ours; `then` happens once in each of our writes, between delta and decision."""

    def __init__(self, path: Path, kind: Literal["cow", "mor"], hudi: HudiPeer, patch: pytest.MonkeyPatch) -> None:
        super().__init__(path, Rules.looking_up(kind, "bucket", metadata=True), 1, hudi)
        self.then: Callable[[], object] | None = None
        make = DeltaMaker.make

        def made(maker: DeltaMaker, state: TableState) -> None:
            make(maker, state)
            then, self.then = self.then, None
            if then is not None:
                then()

        patch.setattr(DeltaMaker, "make", made)

    def created(self, *, metadata: bool) -> None:
        """Begins with a third of the keys."""
        self.create(metadata=metadata)
        self.ours(list(self.rules.first), 0)

    def ours(self, numbers: list[int], time: int) -> None:
        """An upsert of ours."""
        rows = [row(number, time, time) for number in numbers]
        self.model.apply("upsert", rows, f"our {time}")
        self.table.ingest(self.batch(rows))

    def bucket_of(self, number: int) -> int:
        """By Apache Hudi's own hash."""
        return self.hudi.bucket_ids([row(number, 0, 0)["id"]], "id", self.rules.buckets)[0]

    def check(self, *readers: Callable[..., pa.Table]) -> None:
        """Everybody reads the model's rows, all and those of each single `seq`; nothing is amiss in the metadata table."""
        super().check(lambda path: self.hudi.read(path, options=BELIEVED), self.hudi.read, *readers)
        held = [row for _, row in self.model.rows.values()]
        for seq in {one["seq"] for one in held}:
            wanted = sorted(one["id"] for one in held if one["seq"] == seq)
            found = self.hudi.read(self.path, columns=["id"], where=f"seq = {seq}", options=BELIEVED)
            assert sorted(found.column("id").to_pylist()) == wanted, f"seq = {seq}"
            mine = self.table.read(columns=["id"], where=f"seq = {seq}")
            assert sorted(mine.column("id").to_pylist()) == wanted, f"seq = {seq}, read by us"
        self.refuse_errors(*WRONG_BY_HUDI, index=True)


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_write_of_apache_hudi_that_was_requested_later_and_completed_earlier(
    kind: Literal["cow", "mor"],
    tmp_path: Path,
    apache_hudi: HudiPeer,
    hudi_rs: Callable[..., pa.Table],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    game = Between(tmp_path / "table", kind, apache_hudi, monkeypatch)
    game.created(metadata=True)
    sides: dict[int, list[int]] = {0: [], 1: []}
    for number in game.rules.numbers:
        sides[game.bucket_of(number)].append(number)

    def hudi_writes() -> None:
        rows = [row(number, 50, 50) for number in sides[1]]
        game.model.apply("upsert", rows, "theirs")
        game.theirs(rows, "upsert", options=LAZY)

    for time in (90, 95):
        game.then = hudi_writes
        game.ours(sides[0], time)
        assert game.then is None, "it did not come between"
        game.check(hudi_rs)
    game.theirs([], "upsert", options={**LAZY, "hoodie.metadata.compact.max.delta.commits": "1"})
    game.check(hudi_rs)
    game.table.metadata.compact()
    game.check(hudi_rs)


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_procedure_of_apache_hudi_builds_a_metadata_table(
    kind: Literal["cow", "mor"],
    tmp_path: Path,
    apache_hudi: HudiPeer,
    hudi_rs: Callable[..., pa.Table],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    game = Between(tmp_path / "table", kind, apache_hudi, monkeypatch)
    game.created(metadata=False)
    assert game.table.config.metadata_partitions == ()

    def call(procedure: str) -> Callable[[], object]:
        said = f"call {procedure}(table => 'ping_pong')"
        return lambda: apache_hudi.sql(said, tables={"ping_pong": game.path})

    game.then = call("create_metadata_table")
    game.ours([1, 3, 4], 10)
    assert "files" in Table.open(str(game.path), buckets=2).config.metadata_partitions
    game.check(hudi_rs)
    game.then = call("delete_metadata_table")
    game.ours([3, 5, 6], 20)
    assert Table.open(str(game.path), buckets=2).config.metadata_partitions == ()
    game.check(hudi_rs)
    game.then = lambda: game.theirs([], "upsert", options={**LAZY, **MORE})
    game.ours([1, 7, 9], 30)
    assert "record_index" in Table.open(str(game.path), buckets=2).config.metadata_partitions
    # Times in milliseconds are microseconds from Apache Hudi's write on, which the `hudi` package does not take in log files.
    game.check(*([hudi_rs] if kind == "cow" else []))
