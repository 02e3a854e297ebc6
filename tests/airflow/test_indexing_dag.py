"""The DAG `indexing`: a plan of what the form asks for and its execution; running it again changes nothing."""

from __future__ import annotations

import json
import threading
import time
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.timeline.names import instant_of_ms
from tests.airflow.dag_runs import airflow, last_result, xcom_of
from tests.airflow.deadly import dies_once
from tests.bounds import SOAK

TRIPS = pa.table({"id": ["a", "b", "c"], "city": ["x", "x", "y"], "ts": [1, 1, 1], "fare": [1.0, 2.0, 3.0]})


def test_the_dag_keeps_the_house_rules(tables_file: Path, load_dag) -> None:
    dag = load_dag("indexing").dag
    assert (dag.dag_id, dag.max_active_runs, dag.catchup, dag.schedule) == ("indexing", 1, False, None)
    assert dag.tags == {"hudi", "indexing"}
    assert dag.doc_md


def test_a_build_is_tried_for_longer_than_a_lease_lasts(
    tables_file: Path, load_dag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HUDI_OPS_RETRIES")
    build = load_dag("indexing").dag.get_task("execute")
    delays = [build.retry_delay.total_seconds() * 2**tried for tried in range(build.retries)]
    assert sum(delays) > 120


def test_the_form_offers_every_table_and_every_partition(tables_file: Path, load_dag) -> None:
    from hudi_ops.metadata.records.partitions import MetadataPartition

    params = load_dag("indexing").dag.params
    assert params.get_param("table").schema["enum"] == ["trips", "riders"]
    assert set(params.get_param("partitions").schema["examples"]) == set(MetadataPartition)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"partitions": ["record_index"], "rebuild": True},
        {"partitions": ["secondary_index_by_city=city"]},
        {"partitions": None, "engine": "local"},
    ],
)
def test_the_form_takes_good_values(tables_file: Path, load_dag, given: dict) -> None:
    params = load_dag("indexing").dag.params
    params.update(given)
    params.validate()


@pytest.mark.parametrize(("name", "value"), [("table", "plain"), ("partitions", [7]), ("engine", "flink")])
def test_the_form_refuses_bad_values(tables_file: Path, load_dag, name: str, value: object) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    params = load_dag("indexing").dag.params
    with pytest.raises(ParamValidationError, match=name):
        params[name] = value


@pytest.mark.soak("compactions prove `plan_and_execute`, which all services share, by a run of their DAG in full")
def test_a_dag_run_builds_what_was_asked_for_once(tables_file: Path, airflow_home: Path) -> None:
    from hudi_ops import Table
    from hudi_ops.storage.open import open_storage
    from hudi_ops.verify import verify_table

    path = str(tables_file.parent / "trips")
    table = Table.create(
        path, name="trips", record_key=["id"], schema=TRIPS.schema, partition_by=["city"], ordering="ts", metadata=False
    )
    table.ingest(TRIPS)
    table.close()
    configuration = json.dumps({"table": "trips", "partitions": ["record_index", "column_stats"]})
    first = airflow(airflow_home, "dags", "test", "indexing", "2026-01-01", "--conf", configuration)
    assert first.returncode == 0, first.stdout[-3000:]
    result = last_result(first.stdout)
    assert (result["app"], result["ok"]) == ("index", True)
    assert result["partitions"] == ["files", "column_stats", "record_index"]
    report = verify_table(open_storage(path), index=True)
    assert (report.findings, report.checks["keys in the record index"]) == ((), 3)
    # A retry of the same task finds it done.
    assert Table.open(path).indexing.run(partitions=["record_index", "column_stats"]).instant is None


def test_the_result_says_what_catch_up_did_and_what_it_waited_for(
    tables_file: Path, airflow_home: Path, tmp_path: Path
) -> None:
    """A writer of Apache Hudi is pending at the announcement, and is rolled back once the build waits."""
    from hudi_ops import Table

    path = tables_file.parent / "trips"
    created = Table.create(
        str(path), name="trips", record_key=["id"], schema=TRIPS.schema, partition_by=["city"], ordering="ts"
    )
    with closing(created) as table:
        table.ingest(TRIPS)
    foreign = instant_of_ms(time.time_ns() // 1_000_000)
    heartbeat = path / ".hoodie" / ".heartbeat" / foreign
    heartbeat.parent.mkdir(exist_ok=True)
    timeline = path / ".hoodie" / "timeline"
    pending = [heartbeat, timeline / f"{foreign}.commit.requested", timeline / f"{foreign}.inflight"]
    for file in pending:
        file.write_bytes(b"")

    def ends() -> None:
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and all(file.exists() for file in pending):
            heartbeat.touch()
            checkpoints = list((path / ".hoodie" / ".indexing").rglob("*.json"))
            if any(f"waits for commit {foreign}" in one.read_text() for one in checkpoints):
                for file in reversed(pending):
                    file.unlink()
            time.sleep(0.1)

    writer = threading.Thread(target=ends)
    writer.start()
    configuration = json.dumps({"table": "trips", "partitions": ["bloom_filters"]})
    try:
        done = airflow(airflow_home, "dags", "test", "indexing", "2026-02-01", "--conf", configuration)
    finally:
        for file in pending:
            file.unlink(missing_ok=True)
        writer.join()
    assert done.returncode == 0, done.stdout[-3000:]
    result = xcom_of(airflow_home, "indexing", "execute")
    assert (result["app"], result["partitions"], result["rounds"]) == ("index", ["bloom_filters"], 0)
    assert result["verdicts"] == {}
    assert (result["catch_up_per_s"], result["ingest_per_s"]) == (None, 0.0)
    why = f"waited for commit {foreign} of a foreign writer, which may not know the new partitions"
    assert result["waited_for"] == [why]
    assert f"; it {why}" in done.stdout, "the sentence in the log"
    assert f"foreign writers that ended: 0 of 1 done; waits for commit {foreign}" in done.stdout, (
        "the progress in the log"
    )


@pytest.mark.parametrize("dies_at", [".hfile", ".deltacommit", "hoodie.properties"] if SOAK else ["hoodie.properties"])
def test_each_task_can_be_killed_and_tried_again(
    tables_file: Path, airflow_home: Path, tmp_path: Path, dies_at: str
) -> None:
    """The executor dies while it fills, before its announcement, or right after it."""
    from hudi_ops import Table
    from hudi_ops.verify import verify_table

    path = tables_file.parent / "trips"
    created = Table.create(
        str(path), name="trips", record_key=["id"], schema=TRIPS.schema, partition_by=["city"], ordering="ts"
    )
    with closing(created) as table:
        table.ingest(TRIPS)
    dies_once(airflow_home, tmp_path, "indexing", "plan", ".indexing.requested")
    done = dies_once(airflow_home, tmp_path, "indexing", "execute", dies_at)
    assert done["partitions"] == ["bloom_filters"]
    # A duplicate run of the task has no second effect.
    again = airflow(airflow_home, "tasks", "test", "indexing", "execute", "2026-03-01")
    assert "Cannot execute" not in again.stdout, again.stdout[-3000:]
    with closing(Table.open(str(path))) as table:
        storage = table.context.storage
        state = table._session.loader.load()
        assert [one for one in state.timeline.pending if one.kind == "indexing"] == []
        assert len([one for one in state.timeline if one.kind == "indexing"]) == 1
        assert state.config.metadata_partitions_inflight == ()
        assert verify_table(storage, deep=True, index=True).findings == ()
