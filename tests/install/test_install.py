"""Clean installations, as a user makes them.

Goal: each extra works alone and together, by pip and by uv, without a checkout. Method: the wheel in new environments, real package
indexes, real Spark and Airflow.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.install.__main__ import use
from tests.install.environments import ENVIRONMENTS, Environment, build, install
from tests.install.limits import broken_limits


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(tmp_path_factory.mktemp("packages"))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "environment"
    shutil.rmtree(tmp_path / "environment", ignore_errors=True)  # gigabytes


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda one: one.name)
def test_a_clean_environment_works(environment: Environment, packages: tuple[Path, Path], place: Path) -> None:
    made = install(environment, place, packages, sys.executable)
    use(made)
    print(made.line())
    assert broken_limits(made) == []
