"""Indexes that readers cannot use, and the commands that build them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_ops.health.check import NotHere
from hudi_ops.health.checks.indexes import CHECK
from hudi_ops.table.table import Table
from tests.tables import WITH_METADATA
from tests.unit.health.aged import Aged, batch
from tests.unit.health.bench import judged, looked, mend, value_of
from tests.unit.health.slow_indexes import slow_indexes
from tests.unit.health.states_indexes import indexes_behind, indexes_missed


@pytest.mark.parametrize(("state", "unready"), [(indexes_missed, 2), (indexes_behind, 3)])
def test_the_commands_mend_it(tmp_path: Path, state: Callable[[Path], str], unready: int) -> None:
    path = state(tmp_path)
    found = judged(path, CHECK)
    assert value_of(found, "unready") == unready == slow_indexes(path)["unready"]
    planned = Table.open(path).indexing.plan(partitions=["column_stats"], dry_run=True)
    assert planned.measures == {"indexes.unready": unready}
    mend(path, found)
    assert not judged(path, CHECK).is_missed


def test_an_index_that_a_live_process_builds_is_evidence_alone(tmp_path: Path) -> None:
    path = indexes_missed(tmp_path)
    for lease in (Path(path) / ".hoodie/.heartbeat").iterdir():
        lease.touch()
    found = judged(path, CHECK)
    assert value_of(found, "unready") == 1 == slow_indexes(path)["unready"]
    assert any("builds it now" in one.detail for one in found.evidence)
    assert all("execute" not in words for words in found.commands)
    assert Table.open(path).indexing.plan(partitions=["record_index"]).instant is not None
    assert value_of(judged(path, CHECK), "unready") == 0, "the plan of the dropped one is measured as a plan"


def test_a_table_without_indexes(tmp_path: Path) -> None:
    assert isinstance(CHECK.measure(looked(Aged(tmp_path / "without").path)), NotHere)
    aged = Aged(tmp_path / "with", WITH_METADATA, batch("p0", 1))
    aged.table("user").indexing.drop()
    assert isinstance(CHECK.measure(looked(aged.path)), NotHere), "a drop of ours is no drop of another program"
