"""A merge-on-read table on Spark: the model holds there too, and both engines write the same log and base files, byte for byte."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings

from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.spark import SparkEngine
from tests.bounds import bound
from tests.definitions import create_table
from tests.property.merge_on_read_model import SHAPES, STEPS, Shape, Step, play
from tests.property.table_model import files_of, new_table
from tests.spark_session import local_spark_engine

SHAPE = Shape(("part",), "ts", 2)
# Each kind of step once, whatever the random sequences hold: late rows and deletes too, before and after a compaction.
STORY = [
    Step("upsert", (("a", "x", 1, 2, None), ("b", "x", 2, 2, None), ("é,:", None, 3, 2, None))),
    Step("upsert", (("a", "x", 4, 1, None), ("b", "x", 5, 3, None), ("d", "x", 6, 1, None), ("d", "x", 7, 1, None))),
    Step("upsert", (("b", "x", 8, 2, True), ("é,:", None, 9, 2, True), ("a", "x", 9, 3, None))),
    Step("compact"),
    Step("delete", (("a", "x", 0, 0, None), ("nobody", "x", 0, 0, None))),
    Step("upsert", (("a", "x", 10, 1, None), ("b", "x", 11, 4, False))),
    Step("insert", (("e", "x", 12, 0, None),)),
    Step("insert", (("e", "x", 13, 0, None),)),
    Step("compact"),
    Step("insert_overwrite", (("a", "x", 14, 0, None),)),
    Step("upsert", (("a", "x", 15, 0, None),)),
]


@pytest.fixture(scope="module")
def spark_engine() -> Iterator[SparkEngine]:
    with local_spark_engine("merge-on-read-model") as engine:
        yield engine


PHASES = [Phase.explicit, Phase.generate] if os.environ.get("HUDI_OPS_SOAK") else [Phase.explicit]


@settings(max_examples=bound(2, 5, 5), phases=PHASES, suppress_health_check=[HealthCheck.too_slow])
@example(shape=SHAPE, steps=STORY)
@example(shape=Shape((), None, 1, "avro"), steps=STORY)
@given(shape=SHAPES, steps=STEPS)
def test_both_engines_write_the_same_bytes(spark_engine: SparkEngine, shape: Shape, steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory(prefix="merge-on-read-") as folder:
        # Reads go through this process: each would be a Spark job of its own, many times the cost of the rows.
        tables = {engine: new_table(Path(folder, engine), LocalEngine()) for engine in ("spark", "local")}
        for engine, table in tables.items():
            table._session.log_format = shape.log_format  # type: ignore[assignment]
            create_table(table._session, shape.definition())
            play(table, shape, steps, engine, lambda rows: None)
        on_spark, here = files_of(tables["spark"]), files_of(tables["local"])
        assert on_spark.keys() == here.keys()
        assert [path for path in here if on_spark[path] != here[path]] == []
        read_on_spark = new_table(Path(folder, "local"), spark_engine).read()
        assert read_on_spark.equals(tables["local"].read())
