"""For every test: the tables that Apache Hudi itself wrote, the settings of Hypothesis, and what makes a run of all tests short."""

from __future__ import annotations

import gc
import logging
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# Examples are bounded in number, not in time: a slow machine is no bug in the code under test.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")

# Of every Spark that a test starts: sessions of a minute never earn back what Java's second compiler costs two cores.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

_TESTS = Path(__file__).parent
_LONGEST_FIRST = ("interop", "e2e", "airflow", "storage", "zookeeper", "protocol", "property", "unit/cli", "corruption")
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


def pytest_configure(config: pytest.Config) -> None:
    """Files are given to workers in the order of collection: by their number of tests, the longest would come last."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first, so that all workers end at the same time; within a folder nothing changes its place."""
    ranks = {_TESTS / folder: rank for rank, folder in enumerate(_LONGEST_FIRST)}
    items.sort(key=lambda item: ranks.get(item.path.parent, len(ranks)))


def pytest_collection_finish() -> None:
    """What was loaded so far stays until the end: looking through it for garbage again and again would take a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_unconfigure() -> None:
    """pytest's streams are closed by now, and py4j still has farewells to log; they would follow the closing line."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.raiseExceptions = False  # it says some of them to the root logger
