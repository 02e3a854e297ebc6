"""Tasks link to the page of their table, and Airflow lists what the package offers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.airflow.dag_runs import DAG_IDS


@pytest.mark.parametrize(
    ("base_url", "table", "address"),
    [
        ("http://127.0.0.1:8080", "trips", "http://127.0.0.1:8080/plugin/hudi-ops/hudi-ops/tables/trips"),
        ("http://127.0.0.1:8080/", "", "http://127.0.0.1:8080/plugin/hudi-ops/hudi-ops/"),
        ("https://a.org/airflow", "x.y", "https://a.org/airflow/plugin/hudi-ops/airflow/hudi-ops/tables/x.y"),
        ("", "/data/trips", "/plugin/hudi-ops/hudi-ops/tables/%2Fdata%2Ftrips"),
    ],
)
def test_the_address_goes_through_airflow_s_own_page(
    airflow_home: Path, base_url: str, table: str, address: str
) -> None:
    from hudi_ops.plugins.hudi_ops_links import page_of

    assert page_of(table, base_url) == address


def test_each_task_of_an_application_has_the_link(airflow_home: Path, tables_file: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.serialization.serialized_objects import DagSerialization

    dags = DagBag(str(Path(__file__).resolve().parents[2] / "dags"), safe_mode=True).dags
    assert set(DAG_IDS) <= set(dags)
    for dag in dags.values():
        # What the server knows of the DAG: links of classes that no provider lists are lost on the way.
        for task in DagSerialization.from_dict(DagSerialization.to_dict(dag)).tasks:
            expected = [] if task.task_id == "report" else ["Hudi table"]
            assert [link.name for link in task.operator_extra_links] == expected, (dag.dag_id, task.task_id)


def test_airflow_lists_the_package_as_its_own_schema_wants_it(airflow_home: Path) -> None:
    import airflow
    from hudi_ops.plugins.hudi_ops_provider import provider_info
    from jsonschema import validate

    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    validate(provider_info(), schema)
    program = str(Path(sys.executable).with_name("airflow"))
    done = subprocess.run(
        [program, "providers", "get", "hudi-ops", "--full", "--output", "json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    (said,) = json.loads(done.stdout[done.stdout.index("[") :])
    for word in ("hudi_ops_submit", "hudi_ops_links.TableLink", "hudi"):
        assert word in json.dumps(said)
