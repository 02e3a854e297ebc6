"""Our reader against tables that Apache Hudi wrote: now, and as of instants whose files no clean has removed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows
from tests.interop.expected import COPY_ON_WRITE, MERGE_ON_READ, load_expected, readable_instants, some

HudiFixtures = Callable[[str], Path]


@pytest.mark.parametrize("name", COPY_ON_WRITE + MERGE_ON_READ)
def test_the_fixture_reads_as_promised(name: str, hudi_fixtures: HudiFixtures) -> None:
    scan = Table.open(str(hudi_fixtures(name))).scan()
    rows = scan.to_arrow()
    assert_same_rows(rows, load_expected(name))
    assert pa.Table.from_batches(scan.to_batches(), scan.schema).equals(rows)
    assert scan.count_rows() == rows.num_rows <= scan.explain().rows_at_most


def test_every_fixture_is_read(hudi_fixture_names: list[str]) -> None:
    assert sorted({*COPY_ON_WRITE, *MERGE_ON_READ}) == hudi_fixture_names


@pytest.mark.parametrize("name", COPY_ON_WRITE)
def test_as_of_every_readable_instant_equals_apache_hudi(
    name: str, apache_hudi: HudiPeer, hudi_fixtures: HudiFixtures
) -> None:
    path = hudi_fixtures(name)
    table = Table.open(str(path))
    instants = readable_instants(path)
    assert instants
    for instant in some(instants, COPY_ON_WRITE.index(name)):
        assert_same_rows(table.read(as_of=instant), apache_hudi.read(path, instant))
