"""A covering set of tables: every pair of choices a user can make meets in one of them; `--soak` makes the whole product.

Each is written by us, with the operation under test in the middle of its history, and read equal by the `hudi` package and by
Apache Hudi: 1.1 for version 9, 1.0 for version 8; as they are, and as of the instant of that operation, the latter by Apache Hudi
of one for each operation and type (`--soak`: of each). `pytest -s` prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.engine.spark import SparkEngine
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows
from tests.interop.covering import AS_OF, CHOICES, Choice, perform
from tests.interop.expected import completed_instants
from tests.interop.table_shapes import ShapedTable, rows
from tests.spark_session import local_spark_engine

HudiRsReader = Callable[..., pa.Table]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkEngine]:
    with local_spark_engine("covering-set") as engine:
        yield engine


@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_a_table_is_the_same_to_everybody(
    choice: Choice, tmp_path: Path, hudi_rs: HudiRsReader, request: pytest.FixtureRequest
) -> None:
    peer: HudiPeer = request.getfixturevalue("apache_hudi" if choice.shape.version == 9 else "apache_hudi_1_0")
    if choice.engine == "spark":
        request.getfixturevalue("spark")
    print(choice)
    shaped = ShapedTable(choice.shape, tmp_path / "table")
    shaped.ingest("upsert", rows(range(20), 1, 10), choice.engine)
    perform(choice, shaped)
    then, between = completed_instants(shaped.path)[-1], shaped.expected()
    shaped.ingest("upsert", rows((0, 3, 5, 21, 30), 4, 30), choice.engine)
    for instant, expected in ((then, between), (None, shaped.expected())):
        ours = shaped.table.read(as_of=instant, meta_columns=True)
        assert_same_rows(ours, expected)
        assert_same_rows(hudi_rs(shaped.path, instant), ours, with_meta=choice.shape.meta_fields)
        if instant is None or str(choice) in AS_OF:
            theirs = shaped.as_apache_hudi_reads(ours)
            assert_same_rows(peer.read(shaped.path, instant), theirs, with_meta=choice.shape.meta_fields)
    report = verify_table(shaped.table.context.storage, deep=True)
    assert report.ok, [str(finding) for finding in report.findings]
