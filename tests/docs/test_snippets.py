"""Every snippet of the README and the docs runs as printed.

Method: `page.py` runs the fences of a page in their order, in one folder and one Python namespace, beside the tables that the page
speaks of. A fence whose language is followed by a word needs more than that (a clone, an installation, containers); `ELSEWHERE`
names what runs it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops import Table
from hudi_ops.cli.main import main
from tests.docs.page import fences, run

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
IN_AIRFLOW = "airflow.md"
"""tests/airflow/test_docs_page.py runs this page, as a DAG folder of Airflow."""
TABLES = """
tables:
  trips:
    path: trips
    record_key: [id]
    partition_by: [city]
    ordering: at
    type: mor
    buckets: 2
    source: landing
  orders:
    path: orders
    record_key: [order_id]
  events:
    path: events
    record_key: [id]
"""
WITHOUT_PANDAS = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")

sys.meta_path.insert(0, Blocker())
"""
ROWS = "id,city,fare,at\na,Oslo,12.5,1\nb,Rome,8.0,1\n"


def world(folder: Path, fixture: Callable[[str], Path]) -> None:
    """The tables of which the pages speak: one of ours with rows and log files, two of Apache Hudi."""
    (folder / "tables.yaml").write_text(TABLES)
    (folder / "landing").mkdir()
    (folder / "landing" / "monday.csv").write_text(ROWS)
    pq.write_table(pa.table({"id": ["a"], "city": ["Oslo"], "fare": [1.0], "at": [1]}), folder / "sample.parquet")
    assert main(["create", "trips", "--like", "sample.parquet"]) == 0
    assert main(["ingest", "trips"]) == 0
    (folder / "landing" / "2026" / "01").mkdir(parents=True)
    (folder / "landing" / "2026" / "01" / "trips.csv").write_text(ROWS.replace(",1\n", ",2\n"))
    assert main(["ingest", "trips"]) == 0
    for name, made_by_hudi in (("orders", "v9_cow_clean_savepoint_rollback_archive"), ("events", "v9_bucket_simple")):
        shutil.copytree(fixture(made_by_hudi), folder / name)


@pytest.mark.full("runs commands and Spark as processes")
@pytest.mark.parametrize(
    "page", [page for page in PAGES if fences(page) and page.name != IN_AIRFLOW], ids=lambda page: page.name
)
def test_every_snippet_of_a_page_runs_as_printed(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hudi_fixtures: Callable[[str], Path]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    monkeypatch.delenv("HUDI_OPS_TABLES", raising=False)
    if page.name not in {"README.md", "quickstart.md", "spark.md"}:  # these begin with nothing
        world(tmp_path, hudi_fixtures)
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.page", str(page)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) < 900


def test_the_names_of_the_pages_exist() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_quickstart_goes_on_after_the_readme_without_pandas(tmp_path: Path) -> None:
    """Both in one folder, as a reader does, with what the core installs; the part on Spark aside."""
    pages = (ROOT / "README.md", ROOT / "docs" / "quickstart.md")
    texts = [
        one.text for page in pages for one in fences(page) if one.language == "python" and "pyspark" not in one.text
    ]
    assert len(texts) >= 5
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([WITHOUT_PANDAS, *texts])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[{'id': 'a', 'fare': 14.0}]" in done.stdout
    assert "'fare': 5.5" in done.stdout


def test_what_the_readme_says_of_its_ten_lines_is_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (python,) = [one for one in fences(ROOT / "README.md") if one.language == "python"]
    run(python, {})
    assert Table.open("trips").read(["id", "fare"], where="city = 'Oslo'").to_pylist() == [{"id": "a", "fare": 14.0}]
