"""The same sequences on Spark: the model holds there too, and both engines write the same files, byte for byte."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings

from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.spark import SparkEngine
from tests.bounds import bound
from tests.property.table_model import (
    LOCATED_SHAPES,
    SHAPES,
    SMALL_FILES,
    STEPS,
    Shape,
    Step,
    files_of,
    new_table,
    play,
)
from tests.spark_session import local_spark_engine

SHAPE = Shape(("id", "n"), ("part",), "ts", 2)
LIVE = (("a", 0, "x", 1, 1, 1, None), ("b", 0, "y/z", 1, 2, 1, None), ("c:1", 1, None, 1, 3, 1, None))
# Each kind of step once, whatever the random sequences hold.
STORY = [
    Step("upsert", LIVE),
    Step("insert", (("d", 0, "x", 1, 4, 1, None),)),
    Step("insert", (("d", 0, "x", 1, 5, 2, None),)),
    Step("upsert", (("a", 0, "x", 1, 6, 0, None), ("b", 0, "y/z", 1, 7, 2, None), ("b", 0, "y/z", 1, 8, 2, True))),
    Step("delete", (("c:1", 1, None, 1, 0, 0, None), ("nobody", 1, None, 1, 0, 0, None)), keys_only=True),
    Step("upsert", LIVE),
    Step("bulk_insert", (("e", 0, "x", 1, 9, 1, None),)),
    Step(
        "insert_overwrite", (("a", 0, "x", 1, 10, 0, None), ("a", 0, "x", 1, 11, 1, None), ("e", 1, "z", 1, 1, 1, None))
    ),
    Step("delete_partition", (("a", 0, "x", 1, 0, 0, None),)),
    Step("insert_overwrite_table", (("a", 0, "x", 1, 12, 0, None),)),
    Step("truncate", ()),
    Step("upsert", LIVE),
]


@pytest.fixture(scope="module")
def spark_engine() -> Iterator[SparkEngine]:
    with local_spark_engine("table-model") as engine:
        yield engine


@settings(max_examples=bound(2, 5, 5), suppress_health_check=[HealthCheck.too_slow])
@example(shape=SHAPE, steps=STORY)
@example(shape=replace(SHAPE, index="bloom", file_sizes=SMALL_FILES), steps=STORY)
@example(shape=replace(SHAPE, index="simple"), steps=STORY)
@given(shape=SHAPES | LOCATED_SHAPES, steps=STEPS)
def test_both_engines_write_the_same_bytes(spark_engine: SparkEngine, shape: Shape, steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory(prefix="table-model-") as folder:
        # Reads go through this process: each would be a Spark job of its own, many times the cost of the rows.
        tables = {engine: new_table(Path(folder, engine), LocalEngine()) for engine in ("spark", "local")}
        for engine, table in tables.items():
            shape.create(table)
            results = play(table, shape, steps, engine)
            assert {result.engine for result in results if result is not None} <= {engine}
        on_spark, here = files_of(tables["spark"]), files_of(tables["local"])
        assert on_spark.keys() == here.keys()
        assert [path for path in here if on_spark[path] != here[path]] == []
        read_on_spark = new_table(Path(folder, "local"), spark_engine).read()
        assert read_on_spark.equals(tables["local"].read())
