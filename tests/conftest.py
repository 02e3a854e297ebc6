"""For every test: the tables that Apache Hudi itself wrote, and the settings of Hypothesis."""

from __future__ import annotations

import logging
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# Examples are bounded in number, not in time: a slow machine is no bug in the code under test.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")

_ZIPS = Path(__file__).parent / "fixtures" / "apache-hudi-tables"


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


def pytest_unconfigure() -> None:
    """pytest's streams are closed by now, and py4j still has farewells to log; they would follow the closing line."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.raiseExceptions = False  # it says some of them to the root logger
