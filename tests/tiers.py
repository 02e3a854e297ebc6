"""Rules that choose the tests of a tier: markers, folders, fixtures and costs (CONTRIBUTING.md, "Tiers")."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

import pytest

from hudi_ops.testing.faults import Fault
from tests.durations import COSTS, file_of

TIERS = ("quick", "full", "soak")

FOLDERS = {
    "interop": "needs Apache Hudi on Spark",
    "e2e": "starts, kills or measures processes",
    "zookeeper": "starts ZooKeeper servers",
    "airflow": "starts Airflow",
    "browser": "starts Airflow and a browser",
    "model": "searches schedules for many seconds",
}
"""Folder -> why quick leaves its tests out, unless they are marked `quick`."""

SOAK_FOLDERS = {
    "install": "installs packages and starts every service of docker-compose.yaml",
}

FIXTURES = {
    "make_azure": "needs Azurite",
    "azure_endpoint": "needs Azurite",
    "postgres": "starts PostgreSQL",
    "spark": "starts Spark",
    "spark_engine": "starts Spark",
}
"""Fixture -> why quick leaves tests out that ask for it, unless they are marked `quick`."""

WHOLE_FOLDER = "tests/meta/"
"""Folder of rules on the code, of which quick holds all: each change may break one."""

FILE_S = 0.6
"""Wall seconds of `tests/durations.tsv` that quick gives to one file: of a file that costs more it holds a sample."""


@dataclass(frozen=True)
class Run:
    """What a run holds: a tier, and its number, which chooses the shares of rotated cases."""

    tier: str
    number: int = 0


def cases_of(items: Iterable[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """Group items by test: those of one group differ in their parameters alone."""
    cases = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    return cases


def reasons_to_leave_out(items: list[pytest.Item], run: Run) -> dict[str, str]:
    """Return why a run leaves tests out, by id; tests that it holds are not in the result."""
    reasons = {item.nodeid: reason_to_leave_out(item, run.tier) for item in items}
    for cases in cases_of(items).values():
        rotate = cases[0].get_closest_marker("rotate")
        free = [item.nodeid for item in cases if not reasons[item.nodeid] and not _is_kept(item)]
        shares = min(rotate.kwargs.get("shares", 3), max(1, len(free))) if rotate and run.tier != "soak" else 1
        for place, nodeid in enumerate(free):
            if place % shares != run.number % shares:
                reasons[nodeid] = "is of another share of its cases, which other runs hold"
    if run.tier == "quick":
        for file, free in _free_of_files(item for item in items if not reasons[item.nodeid]).items():
            most = max(1, int(FILE_S / max(COSTS.mean_wall_s(file), 1e-6)))
            # Seeded: a run is repeated by its number, and runs of other numbers hold other tests.
            held = Random(f"{file} {run.number}").sample(free, min(len(free), most))
            reasons |= dict.fromkeys(
                set(free).difference(held), "is not in the sample of a costly file that quick holds"
            )
    return {nodeid: reason for nodeid, reason in reasons.items() if reason}


def reason_to_leave_out(item: pytest.Item, tier: str) -> str | None:
    """Return why the tier leaves this test out, by its own markers, folder, fixtures and parameters; None: it does not."""
    if tier == "soak":
        return None
    folder = item.nodeid.split("/")[1]
    soak, full = item.get_closest_marker("soak"), item.get_closest_marker("full")
    if soak or folder in SOAK_FOLDERS:
        return str(soak.args[0]) if soak else SOAK_FOLDERS[folder]
    if tier == "full" or item.get_closest_marker("quick"):
        return None
    if full:
        return str(full.args[0])
    if folder in FOLDERS:
        return FOLDERS[folder]
    if fixture := next((name for name in getattr(item, "fixturenames", ()) if name in FIXTURES), None):
        return FIXTURES[fixture]
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    if "azure" in map(str, values):
        return "needs Azurite"
    if any(isinstance(value, Fault) and value is not Fault.CRASH_AFTER for value in values):
        return "goes wrong in another way than by a crash after a change"
    return None


def _is_kept(item: pytest.Item) -> bool:
    """Return whether a case itself is marked as one that every run of its tier holds."""
    return any(mark.name in {"quick", "full"} for mark in getattr(getattr(item, "callspec", None), "marks", ()))


def _free_of_files(items: Iterable[pytest.Item]) -> dict[str, list[str]]:
    """Group the tests by file that quick may leave out, if their file costs much."""
    free = defaultdict(list)
    for item in items:
        is_rule = item.nodeid.startswith(WHOLE_FOLDER)
        if not is_rule and all(mark.name != "quick" for mark in item.own_markers):
            free[file_of(item.nodeid)].append(item.nodeid)
    return free
