"""For every test: the tables that Apache Hudi itself wrote, the settings of Hypothesis, the tiers, what keeps a run short."""

from __future__ import annotations

import gc
import logging
import os
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import settings

from tests.durations import report_durations
from tests.tiers import TIERS, lines, select

# Examples are bounded in number, not in time: a slow machine is no bug in the code under test.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")

# Two processes of tests share two cores: Arrow's own threads gain nothing on tables of some rows. Our engine keeps its threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Of every Spark that a test starts: sessions of a minute never earn back what Java's second compiler costs two cores.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Tests kill processes but never cut the power, so written files survive without a sync.
os.fsync = lambda descriptor: None

_TESTS = Path(__file__).parent
_LONGEST_FIRST = (
    "interop",
    "e2e",
    "airflow",
    "storage",
    "zookeeper",
    "protocol",
    "services/compaction",
    "property",
    "unit/cli",
    "corruption",
)
"""Folders whose files take seconds to minutes, those with the longest first; the rest comes last."""

_ZIPS = _TESTS / "fixtures" / "apache-hudi-tables"


@pytest.fixture(scope="session")
def hudi_fixtures(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Name of a fixture -> base directory of the unpacked table; shared by all tests, hence only to be read."""
    unpacked: dict[str, Path] = {}

    def base_directory(name: str) -> Path:
        if name not in unpacked:
            target = tmp_path_factory.mktemp(name)
            with zipfile.ZipFile(_ZIPS / f"{name}.zip") as archive:
                # Some were packed on a Mac, whose shadow files look like data files.
                archive.extractall(target, [each for each in archive.namelist() if not each.startswith("__MACOSX/")])
            (unpacked[name],) = target.iterdir()
        return unpacked[name]

    return base_directory


@pytest.fixture(scope="session")
def hudi_fixture_names() -> list[str]:
    """Names of all fixtures."""
    return sorted(path.stem for path in _ZIPS.glob("*.zip"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the tier, and the file that keeps the durations; bin/test gives both."""
    group = parser.getgroup("hudi_ops")
    group.addoption("--tier", choices=TIERS, help="bounds of the tests (default: full); quick also leaves tests out")
    group.addoption("--keep-durations", type=Path, metavar="FILE", help="print the slowest files and keep them in FILE")


def pytest_configure(config: pytest.Config) -> None:
    """Set the tier before a test module reads it, and keep the order of collection.

    Workers would get files by their number of tests, and the longest file would come last.
    """
    if config.option.tier:
        os.environ["HUDI_OPS_TIER"] = config.option.tier
    if config.option.tier == "soak":
        os.environ["HUDI_OPS_SOAK"] = "1"
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Group tests by the table of `tests/groups.py` for `--dist=loadgroup`."""
    from tests.groups import GroupScheduling

    return GroupScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


_LEFT_OUT: Counter[tuple[str, str]] = Counter()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the tier does not hold, and put files that take long first.

    All workers are to end at the same time. Within a folder nothing changes its place.
    """
    if config.option.tier:
        _LEFT_OUT.update(select(config, items, config.option.tier))
    ranks = {_TESTS / folder: rank for rank, folder in enumerate(_LONGEST_FIRST)}
    items.sort(key=lambda item: ranks.get(item.path.parent, len(ranks)))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send what a worker left out to the process that prints it."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = list(_LEFT_OUT.items())


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker left out; every worker collects the same tests."""
    sent = getattr(node, "workeroutput", {}).get("left_out", [])
    _LEFT_OUT.update({tuple(place): count for place, count in sent if tuple(place) not in _LEFT_OUT})


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Print what the tier left out, and the slowest files."""
    if _LEFT_OUT:
        terminalreporter.section(
            f"left out by the tier {config.option.tier}: {_LEFT_OUT.total()} tests; bin/test --soak has all"
        )
        for line in lines(_LEFT_OUT.items()):
            terminalreporter.write_line(line)
    if config.option.keep_durations:
        report_durations(terminalreporter, config.option.keep_durations)


def pytest_collection_finish() -> None:
    """What was loaded so far stays until the end: looking through it for garbage again and again would take a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_unconfigure() -> None:
    """pytest's streams are closed by now, and py4j still has farewells to log; they would follow the closing line."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.raiseExceptions = False  # it says some of them to the root logger
