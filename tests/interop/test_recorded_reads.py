"""Reads of tables that Apache Hudi wrote equal its own: now, as of each instant, and read-optimized.

Its answers are recorded, so that no test here starts Java: `tests/interop/answers.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from tests.interop.answers import OPTIMIZED, SNAPSHOT, Answers, Refused, as_of, instants
from tests.interop.compare import assert_same_rows
from tests.interop.conftest import HudiRsReader
from tests.interop.expected import (
    CLEANED,
    COPY_ON_WRITE,
    MERGE_ON_READ,
    completed_instants,
    load_expected,
    readable_instants,
)

pytestmark = pytest.mark.quick

HudiFixtures = Callable[[str], Path]
ARCHIVED = "v9_cow_clean_savepoint_rollback_archive"


def test_every_fixture_is_read(hudi_fixture_names: list[str]) -> None:
    assert sorted({*COPY_ON_WRITE, *MERGE_ON_READ}) == hudi_fixture_names


@pytest.mark.parametrize("name", COPY_ON_WRITE + MERGE_ON_READ)
def test_every_reader_reads_the_fixture_as_promised(
    name: str, answers: Answers, hudi_rs: HudiRsReader, hudi_fixtures: HudiFixtures
) -> None:
    expected = load_expected(name)
    assert_same_rows(answers(name, SNAPSHOT), expected, with_meta=True)
    assert_same_rows(hudi_rs(hudi_fixtures(name)), expected, with_meta=True)
    table = Table.open(str(hudi_fixtures(name)))
    assert_same_rows(table.read(meta_columns=True), answers(name, SNAPSHOT), with_meta=True)
    scan = table.scan()
    rows = scan.to_arrow()
    assert_same_rows(rows, expected)
    assert pa.Table.from_batches(scan.to_batches(), scan.schema).equals(rows)
    assert scan.count_rows() == rows.num_rows <= scan.explain().rows_at_most


@pytest.mark.parametrize("name", MERGE_ON_READ)
def test_read_optimized_equals_apache_hudi(name: str, answers: Answers, hudi_fixtures: HudiFixtures) -> None:
    found = Table.open(str(hudi_fixtures(name))).read(query="read_optimized", meta_columns=True)
    assert_same_rows(found, answers(name, OPTIMIZED), with_meta=True)


@pytest.mark.parametrize("name", COPY_ON_WRITE + MERGE_ON_READ)
def test_as_of_every_readable_instant_equals_apache_hudi(
    name: str, answers: Answers, hudi_rs: HudiRsReader, hudi_fixtures: HudiFixtures
) -> None:
    path = hudi_fixtures(name)
    table = Table.open(str(path))
    cleaned = set(completed_instants(path)) - set(readable_instants(path))
    assert bool(cleaned) == (name in {ARCHIVED, *CLEANED})
    for instant in instants(path):
        if instant in cleaned:
            with pytest.raises(Refused, match="Cleaner cleaned up the timestamp of interest"):
                answers(name, as_of(instant))
            continue
        theirs = answers(name, as_of(instant))
        assert_same_rows(table.read(as_of=instant, meta_columns=True), theirs, with_meta=True)
        if name in COPY_ON_WRITE:
            assert_same_rows(hudi_rs(path, instant), theirs, with_meta=True)
