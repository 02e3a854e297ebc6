"""The metadata table: pending instants, log files, and the commands that remove them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_ops.concurrency.lease.lease import lease_path
from hudi_ops.health.check import NotHere
from hudi_ops.health.checks.metadata_table import CHECK
from tests.unit.health.aged import Aged
from tests.unit.health.bench import judged, looked, mend, value_of
from tests.unit.health.slow_metadata_table import slow_metadata_table
from tests.unit.health.states_metadata_table import compaction_pending, delta_pending, metadata_table_missed


@pytest.mark.parametrize(
    ("state", "missed"),
    [(metadata_table_missed, "log_ratio"), (compaction_pending, "pending"), (delta_pending, "pending")],
)
def test_the_commands_mend_it(tmp_path: Path, state: Callable[[Path], str], missed: str) -> None:
    path = state(tmp_path)
    found = judged(path, CHECK)
    assert [one.name for one in found.measures if one.is_missed] == [missed]
    assert {one.name: one.value for one in found.measures} == slow_metadata_table(path)
    mend(path, found)
    assert not judged(path, CHECK).is_missed


def test_the_delta_of_a_live_writer_does_not_count_until_its_lease_expires(tmp_path: Path) -> None:
    path = delta_pending(tmp_path)
    look = looked(path)
    instant = look.metadata.pending[0].instant
    heartbeat = Path(path) / lease_path(instant)
    heartbeat.parent.mkdir(parents=True, exist_ok=True)
    heartbeat.touch()
    facts = CHECK.measure(looked(path))
    assert not isinstance(facts, NotHere)
    assert facts.pending == 0 == slow_metadata_table(path)["pending"]
    assert facts.until_ms is not None
    assert facts.until_ms > look.now_ms
    assert value_of(judged(path, CHECK), "pending") == 0


def test_a_table_without_a_metadata_table(tmp_path: Path) -> None:
    assert isinstance(CHECK.measure(looked(Aged(tmp_path).path)), NotHere)
