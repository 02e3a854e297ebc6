"""The cancel protocol holds in every interleaving with two lost locks and one crash, and needs each of its guards."""

from __future__ import annotations

import pytest

from tests.bounds import SOAK
from tests.model.scenarios import SCENARIOS, Scenario

GUARDS = [(scenario, guard) for scenario in SCENARIOS for guard in scenario.guards]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_no_property_is_violated(scenario: Scenario) -> None:
    report = scenario.explore(soak=SOAK)
    print(f"{scenario.name}: {report.states} states")
    assert report.violations == {}


@pytest.mark.parametrize(
    ("scenario", "guard"), GUARDS, ids=[f"{scenario.name} without {guard}" for scenario, guard in GUARDS]
)
def test_a_property_is_violated_without_the_guard(scenario: Scenario, guard: str) -> None:
    assert scenario.explore(without=guard).violations
