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

from tests.docs.page import fences
from tests.install.__main__ import use
from tests.install.environments import ENVIRONMENTS, ROOT, Environment, build, install, run
from tests.install.limits import broken_limits

LINES = sorted({
    line.split("#")[0].strip()
    for page in (ROOT / "README.md", ROOT / "docs" / "install.md")
    for fence in fences(page)
    if fence.needs == "install"
    for line in fence.text.splitlines()
})
"""Lines that README and docs print for an installation from a clone."""


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


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("line", LINES)
def test_a_printed_line_installs(line: str, packages: tuple[Path, Path], place: Path) -> None:
    clone = packages[0].parents[1] / "source"
    place.mkdir()
    run([sys.executable, "-m", "venv", place / "venv"], place)
    run(["bash", "-euc", f"cd {clone} && {line}"], place)
    assert run(["hudi-ops", "--version"], place).startswith("hudi-ops ")
