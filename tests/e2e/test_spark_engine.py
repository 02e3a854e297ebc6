"""The Spark engine: a task tried again leaves nothing behind, errors keep their class, a commit runs no job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.context import TableContext
from hudi_ops.engine.spark import SparkEngine
from hudi_ops.errors import InvalidRequest, Unavailable
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.protocol import Bytes
from hudi_ops.table.table import Table
from tests.definitions import Definition, create_table

pytestmark = pytest.mark.quick

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.int64())])
DEFINITION = Definition("t", SCHEMA, ("id",), ("part",), None, buckets=2)


class LosesFirstReply(LocalStorage):
    """Puts the first Parquet file, then says that it could not: the task that put it is tried again."""

    def put(self, path: str, body: Bytes) -> None:
        super().put(path, body)
        flag = self.root.parent / "lost-a-reply"
        if path.endswith(".parquet") and not flag.exists():
            flag.touch()
            raise Unavailable(f"no answer after {path} was put")


def rows(count: int) -> pa.Table:
    ids = list(range(count))
    return pa.table({"id": ids, "part": [f"p{i % 3}" for i in ids], "value": ids}, schema=SCHEMA)


def table_on(storage: LocalStorage, spark: Any) -> Table:
    table = Table(TableContext(storage=storage, locks=in_process_lock(storage.uri), engine=SparkEngine(spark)))
    create_table(table._session, DEFINITION)
    return table


def data_files(root: Path) -> list[str]:
    return sorted(str(file.relative_to(root)) for file in root.rglob("*.parquet"))


def test_a_task_tried_again_leaves_one_file_a_bucket(tmp_path: Path, spark: Any) -> None:
    table = table_on(LosesFirstReply(tmp_path / "t"), spark)
    result = table.ingest(rows(300), engine="spark")
    assert (tmp_path / "lost-a-reply").exists()
    assert len(data_files(tmp_path / "t")) == result.file_groups == 6
    assert sorted(table.read(["id"])["id"].to_pylist()) == list(range(300))


def test_an_ingest_is_two_jobs_and_none_while_committing(tmp_path: Path, spark: Any) -> None:
    table = table_on(LocalStorage(tmp_path / "t"), spark)
    spark.sparkContext.setJobGroup("ingest", "one ingest")
    table.ingest(rows(300), engine="spark")
    spark.sparkContext.setJobGroup("other", "the rest")
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup("ingest")
    # One reads and tags, one shuffles the incoming rows and writes; Spark skips the stages that the first one ran.
    assert len(jobs) == 2


def test_errors_of_tasks_keep_class_and_details(tmp_path: Path, spark: Any) -> None:
    table = table_on(LocalStorage(tmp_path / "t"), spark)
    before = {file: file.read_bytes() for file in (tmp_path / "t").rglob("*") if file.is_file()}
    with pytest.raises(InvalidRequest, match="null") as caught:
        table.ingest(pa.table({"id": [1, None], "part": ["a", "a"], "value": [1, 1]}, schema=SCHEMA), engine="spark")
    assert (caught.value.details["row"], caught.value.details["field"]) == (1, "id")
    assert {file: file.read_bytes() for file in (tmp_path / "t").rglob("*") if file.is_file()} == before


def test_a_task_that_keeps_failing_says_why(tmp_path: Path, spark: Any) -> None:
    table = table_on(LocalStorage(tmp_path / "t"), spark)
    (tmp_path / "t" / "part=p0").write_text("a file where a partition's folder should be")
    with pytest.raises(InvalidRequest, match="part=p0"):
        table.ingest(rows(3), engine="spark")
    assert table.read().num_rows == 0


def test_executors_look_at_the_columns_of_files(tmp_path: Path, spark: Any) -> None:
    table = table_on(LocalStorage(tmp_path / "t"), spark)
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.csv").write_text("id,part,value,code\n1,a,1,007\n")
    (source / "b.json").write_text('{"id": 2, "part": "b", "rate": 0.5}\n')
    result = table.ingest_folder(str(source), engine="spark", evolve=True)
    assert (result.engine, result.schema_changes) == ("spark", ("added code: string", "added rate: double"))
    assert table.read(["id", "code", "rate"]).sort_by("id").to_pylist() == [
        {"id": 1, "code": "007", "rate": None},
        {"id": 2, "code": None, "rate": 0.5},
    ]
    (source / "c.json").write_text('{"id": 2, "part": "b", "code": {}}\n')
    with pytest.raises(InvalidRequest, match=r"c\.json"):
        table.ingest_folder(str(source), engine="spark", evolve=True)
