"""The peers of the interop tests: Apache Hudi on Spark in its own environment, and the `hudi` package in ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiQueryType, HudiReadOptions, HudiTableBuilder

from tests.bounds import TIER
from tests.interop.answers import Answers, unrecorded
from tests.interop.apache_hudi import IS_PINNED, RELEASE_OF_VERSION_8, HudiPeer, interop_environment

HudiRsReader = Callable[..., pa.Table]


@pytest.fixture(scope="session")
def apache_hudi() -> Iterator[HudiPeer]:
    """The release of Apache Hudi to compare with: one Spark session for the run, started by the first call."""
    interop_environment()
    with HudiPeer() as peer:
        yield peer


@pytest.fixture(scope="session")
def apache_hudi_1_0() -> Iterator[HudiPeer]:
    """An older release, for tables of version 8: one Spark session for the run, started by the first call."""
    interop_environment(RELEASE_OF_VERSION_8)
    with HudiPeer(release=RELEASE_OF_VERSION_8) as peer:
        yield peer


@pytest.fixture
def answers(request: pytest.FixtureRequest, hudi_fixtures: Callable[[str], Path]) -> Iterator[Answers]:
    """What Apache Hudi answered about the fixtures. Outside quick it is asked what is not recorded, and the test fails.

    The answers of another release than that of every run are not recorded.
    """
    found = Answers(hudi_fixtures, None if TIER == "quick" else lambda: request.getfixturevalue("apache_hudi"))
    yield found
    assert not found.unrecorded or not IS_PINNED, unrecorded(found.unrecorded)


@pytest.fixture(scope="session")
def hudi_rs() -> HudiRsReader:
    """Reads a table through the `hudi` package: `hudi_rs(path, as_of=None)`."""
    return read_with_hudi_rs


def read_with_hudi_rs(path: Path | str, as_of: str | None = None) -> pa.Table:
    """Snapshot, or the table as of a request time; a new table object each time, since it loads the timeline once."""
    table = HudiTableBuilder.from_base_uri(str(path)).build()
    options = HudiReadOptions()
    if as_of is not None:
        options = options.with_as_of_timestamp(as_of)
    batches = table.read(options)
    return pa.Table.from_batches(batches) if batches else table.get_schema_with_meta_fields().empty_table()


def changes_by_hudi_rs(path: Path, begin: str, end: str | None) -> pa.Table:
    """Rows of the writes completed in (begin, end], through the `hudi` package."""
    table = HudiTableBuilder.from_base_uri(str(path)).build()
    options = HudiReadOptions().with_query_type(HudiQueryType.Incremental).with_start_timestamp(begin)
    batches = table.read(options.with_end_timestamp(end) if end is not None else options)
    return pa.Table.from_batches(batches) if batches else table.get_schema_with_meta_fields().empty_table()
