"""A feature of Spark without its packages names the command that installs them.

Goal: neither the light core nor an environment with pyspark-client alone answers with an ImportError or an error of Spark. Method:
processes whose packages are those of this environment without the named ones.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = Path(sysconfig.get_path("purelib"))
NEXT = 'Next: pip install "hudi-ops[spark]"'
CREATE = """
import pyarrow as pa
from hudi_ops import Table
table = Table.create("t", name="t", record_key=["id"], schema=pa.schema([("id", pa.int64())]))
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]
INGEST = "table.ingest(pa.table({'id': [1]}), engine='spark')"
FRAME = "table.spark_frame()"


@pytest.fixture
def run_without(tmp_path: Path) -> Run:
    """Run a program in a Python whose site-packages lack those that start with one of the names."""
    packages = tmp_path / "packages"

    def run(names: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
        packages.mkdir(exist_ok=True)
        for entry in PACKAGES.iterdir():
            if not entry.name.startswith(names) and entry.suffix != ".pth":
                (packages / entry.name).symlink_to(entry)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), str(ROOT)])}
        return subprocess.run(
            # -S: no site-packages but those of PYTHONPATH.
            [sys.executable, "-S", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """The folder `pyspark` as pyspark-client installs it."""
    folder = tmp_path / "packages" / "pyspark"
    folder.mkdir(parents=True)
    for entry in (PACKAGES / "pyspark").iterdir():
        if entry.name not in {"core", "python", "jars"}:  # the client's record has none of them
            (folder / entry.name).symlink_to(entry)
    return folder


@pytest.mark.parametrize("call", [INGEST, FRAME, "from hudi_ops.datasource import register; register(None)"])
def test_without_pyspark_the_next_step_installs_the_extra(run_without: Run, call: str) -> None:
    result = run_without(("pyspark",), "-c", f"{CREATE}{call}")
    assert "hudi_ops.errors.Unsupported" in result.stderr
    assert re.search(
        "expected hudi-ops with the extra spark, found (no package pyspark|No module named 'pyspark')", result.stderr
    )
    assert NEXT in result.stderr


@pytest.mark.parametrize("call", [INGEST, FRAME])
def test_pyspark_client_alone_is_refused(run_without: Run, client: Path, call: str) -> None:
    result = run_without(("pyspark",), "-c", f"{CREATE}{call}")
    assert "found pyspark-client alone, which has no JVM" in result.stderr
    assert NEXT in result.stderr


def test_the_zip_of_spark_submit_is_accepted(run_without: Run) -> None:
    (archive,) = (PACKAGES / "pyspark").glob("python/lib/pyspark.zip")
    program = f"import sys; sys.path.insert(0, {str(archive)!r})\n"
    program += "from hudi_ops.engine.classic_spark import require_classic_spark as require\n"
    result = run_without(("pyspark",), "-c", f"{program}require('this')\nimport pyspark; print(pyspark.__file__)")
    assert result.stdout.startswith(str(archive)), result.stderr


@pytest.mark.parametrize("has_client", [False, True])
def test_zookeeper_start_names_the_extra(run_without: Run, has_client: bool, request: pytest.FixtureRequest) -> None:
    if has_client:
        request.getfixturevalue("client")
    result = run_without(("pyspark",), "-m", "hudi_ops.cli.main", "zookeeper", "start")
    assert (result.returncode, result.stdout) == (3, "")
    assert NEXT in result.stderr


def test_the_core_works_without_the_packages_of_the_extras(run_without: Run) -> None:
    program = f"{CREATE}table.ingest(pa.table({{'id': [1, 2]}}))\nprint(table.read().num_rows)"
    result = run_without(("pyspark", "airflow", "pandas", "sqlalchemy", "py4j"), "-c", program)
    assert result.stdout.split() == ["2"], result.stderr
