"""Random histories: plans, writers, ingestion, indexes and metadata table are measured as slowly from the folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import TypeAdapter

from hudi_ops.clock import SystemClock
from hudi_ops.config.requests.targets import HealthTargets
from hudi_ops.health.check import NotHere
from hudi_ops.health.checks import indexes, ingestion, metadata_table, plans, writers
from hudi_ops.health.look import Look
from hudi_ops.storage.open import open_storage
from hudi_ops.testing.faults import FaultyStorage
from tests.bounds import bound
from tests.tables import table_of
from tests.unit.health.aged import HOUR_MS
from tests.unit.health.bench import looked
from tests.unit.health.service_history import History
from tests.unit.health.slow_indexes import slow_indexes
from tests.unit.health.slow_ingestion import slow_ingestion
from tests.unit.health.slow_metadata_table import slow_metadata_table
from tests.unit.health.slow_plans import slow_plans
from tests.unit.health.slow_writers import slow_writers

SLOW = {
    plans.CHECK: slow_plans,
    writers.CHECK: slow_writers,
    ingestion.CHECK: slow_ingestion,
    indexes.CHECK: slow_indexes,
    metadata_table.CHECK: slow_metadata_table,
}
STEPS = 12
FACTS_BYTES_MAX = 3_000
CALLS_MAX = 18


def calls_of_checks(path: str) -> int:
    """Storage calls of the five checks, beside those for the table's state and view."""
    counted = FaultyStorage(open_storage(path))
    look = Look.at(table_of(counted, SystemClock(), "counted")._session)
    assert len(look.slices)
    before = len(counted.history)
    for check in SLOW:
        check.measure(look)
    return len(counted.history) - before


@pytest.mark.parametrize("seed", range(bound(4, 12, 100)))
def test_measures_are_those_of_the_folder(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, seed)
    for _ in range(STEPS):
        history.step()
    history.end()
    path, now_ms = history.aged.path, SystemClock().now_ms()
    assert calls_of_checks(path) <= CALLS_MAX
    for check, slow in SLOW.items():
        facts = check.measure(looked(path, now_ms))
        assert not isinstance(facts, NotHere), (check.name, facts)
        adapter = TypeAdapter(check.facts)
        body = adapter.dump_json(facts)
        assert adapter.validate_json(body) == facts
        assert len(body) <= FACTS_BYTES_MAX, (check.name, len(body))
        for at_ms in (now_ms, now_ms + 24 * HOUR_MS) if check.name != "metadata_table" else (now_ms,):
            if facts.until_ms is not None and at_ms >= facts.until_ms:
                facts = check.measure(looked(path, at_ms))
                assert not isinstance(facts, NotHere)
            found = check.judge(facts, getattr(HealthTargets(), check.name), at_ms)
            assert {one.name: one.value for one in found.measures} == slow(path, at_ms), (check.name, at_ms)
