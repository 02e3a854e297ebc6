"""Tasks of one worker share a stored view: the next one continues it, and lists no partition."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from hudi_ops import Table
from hudi_ops.config.tables_file import locate_table
from tests.airflow.dag_runs import airflow, last_result

TRIPS = pa.table({"id": ["a", "b", "c"], "city": ["x", "x", "y"], "ts": [1, 1, 1], "fare": [1.0, 2.0, 3.0]})

COUNTS = """
import os, sys

if any(argument.startswith("--table") for argument in sys.argv):
    from hudi_ops.storage.local import LocalStorage

    def counted(name, call):
        def called(self, *given, **named):
            with open(os.environ["CALLS"], "a") as out:
                print(name, given[0] if given else "", file=out)
            return call(self, *given, **named)
        return called

    for name in ("get", "head", "list", "list_new", "list_folder", "put", "put_if_absent", "delete"):
        setattr(LocalStorage, name, counted(name, getattr(LocalStorage, name)))
"""
"""Writes each storage call of an application to a file."""


def test_tasks_continue_the_view_that_an_earlier_one_stored(
    tmp_path: Path, airflow_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := tmp_path / "tables.yaml").write_text(
        "tables:\n"
        "  trips: {path: trips, record_key: [id], partition_by: [city], ordering: ts, type: mor, source: landing,\n"
        "          view: {store: disk, folder: views}}\n"
    )
    (hooks := tmp_path / "hooks").mkdir()
    (hooks / "sitecustomize.py").write_text(COUNTS)
    monkeypatch.setenv("HUDI_OPS_TABLES", str(file))
    monkeypatch.setenv("PYTHONPATH", str(hooks))
    table = Table.create(
        str(tmp_path / "trips"), name="trips", record_key=["id"], schema=TRIPS.schema, partition_by=["city"],
        ordering="ts", table_type="mor",
    )  # fmt: skip
    for number in (1, 2):
        table.ingest(TRIPS.set_column(2, "ts", pa.array([number] * 3)))

    def task(dag: str, name: str, **conf: object) -> tuple[dict, Counter[str], list[str]]:
        """Run a task; return its result, and its storage calls by name, and the listed partitions."""
        calls = tmp_path / f"{dag}.{name}"
        monkeypatch.setenv("CALLS", str(calls))
        given = json.dumps({"table": "trips", **conf})
        run = airflow(airflow_home, "tasks", "test", dag, name, "2026-01-01", "--task-params", given)
        result = last_result(run.stdout + run.stderr)
        assert result["ok"], result
        made = [line.partition(" ") for line in calls.read_text().splitlines()]
        return (
            result,
            Counter(one[0] for one in made),
            [one[2] for one in made if "list" in one[0] and "city=" in one[2]],
        )

    planned, _, _ = task("compaction", "plan")
    assert (planned["view"], planned["counts"]["planned"]) == ("built", 2)
    (tmp_path / "landing").mkdir()
    pyarrow.parquet.write_table(TRIPS.set_column(2, "ts", pa.array([3] * 3)), tmp_path / "landing" / "1.parquet")
    task("ingestion", "ingest")
    cleaned, calls, listed = task("clean", "plan", retain=1)
    print(f"clean.plan: {dict(calls)}")
    assert (cleaned["view"], listed) == ("stored, 1 instant applied", [])
    task("compaction", "execute")
    again, calls, listed = task("compaction", "plan")
    print(f"compaction.plan: {dict(calls)}")
    assert again["view"] == "stored, 2 instants applied"
    assert listed == []
    assert again["counts"]["planned"] == 2, "the newest log files came after the plan"
    assert len({one.name.partition("-")[0] for one in (tmp_path / "views").glob("*.view")}) == 1
    assert Table.at(locate_table("trips", file)).read(["ts"])["ts"].to_pylist() == [3] * 3
