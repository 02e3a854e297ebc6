"""Age of the newest write with rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudi_ops.config.requests.targets import HealthTargets
from hudi_ops.health.check import NotHere
from hudi_ops.health.checks.ingestion import CHECK
from tests.tables import DEFINITION
from tests.unit.health.aged import Aged, batch
from tests.unit.health.bench import judged, looked
from tests.unit.health.slow_ingestion import slow_ingestion
from tests.unit.health.states_ingestion import ingestion_missed

HOUR_S = 3_600


def test_neither_a_compaction_nor_a_delete_makes_rows_younger(tmp_path: Path) -> None:
    path = ingestion_missed(tmp_path)
    found = judged(path, CHECK)
    assert not found.is_missed, "without a target nothing is missed"
    assert found.measures[0].value == pytest.approx(slow_ingestion(path)["age"], abs=10)
    assert found.measures[0].value == pytest.approx(48 * HOUR_S, abs=10)
    target = judged(path, CHECK, HealthTargets(ingestion={"age": 47.0 * HOUR_S}))
    assert target.is_missed
    assert target.since_ms is not None
    aged = Aged(tmp_path / "next", DEFINITION, batch("p0", 1))
    assert judged(aged.path, CHECK).measures[0].value == pytest.approx(48 * HOUR_S, abs=10)


def test_a_table_without_rows_has_no_age(tmp_path: Path) -> None:
    assert isinstance(CHECK.measure(looked(Aged(tmp_path).path)), NotHere)
