"""Changes of tables that Apache Hudi wrote equal its own, and the `hudi` package's: between completion times.

Its answers are recorded, so that no test here starts Java: `tests/interop/answers.py`. Where a reader does less than we do, that is
named here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.errors import Unsupported
from tests.interop.answers import (
    LONG_AGO,
    RESIZED,
    Answers,
    archived_completions,
    changes,
    intervals,
    intervals_between_all,
)
from tests.interop.compare import assert_same_rows, found_or_refused
from tests.interop.conftest import changes_by_hudi_rs
from tests.interop.expected import CLEANED, COPY_ON_WRITE, MERGE_ON_READ

pytestmark = pytest.mark.quick

HudiFixtures = Callable[[str], Path]
ARCHIVED = "v9_cow_clean_savepoint_rollback_archive"


@pytest.mark.parametrize("name", [name for name in COPY_ON_WRITE + MERGE_ON_READ if name not in {ARCHIVED, RESIZED}])
def test_changes_equal_apache_hudi(name: str, answers: Answers, hudi_fixtures: HudiFixtures) -> None:
    path = hudi_fixtures(name)
    table = Table.open(str(path))
    # From before a clean up to an earlier end, Apache Hudi reads the newest snapshot and loses what changed after that end.
    pairs = [(begin, end) for begin, end in intervals(path) if name not in CLEANED or end is None or begin != LONG_AGO]
    compared, most = 0, 0
    for begin, end in pairs:
        found = found_or_refused(table, begin, end)
        if isinstance(found, str):
            assert name in CLEANED
            assert "cleaned away" in found
            continue
        assert_same_rows(found, answers(name, changes(begin, end)), with_meta=True)
        compared += 1
        most = max(most, found.num_rows)
    assert compared >= len(pairs) // 2
    assert most > 0


@pytest.mark.parametrize("name", [name for name in COPY_ON_WRITE if name not in {ARCHIVED, *CLEANED}])
def test_changes_of_copy_on_write_equal_the_hudi_package(name: str, hudi_fixtures: HudiFixtures) -> None:
    path = hudi_fixtures(name)
    table = Table.open(str(path))
    for begin, end in intervals(path):
        found = table.changes(begin, end, meta_columns=True).to_arrow()
        assert_same_rows(found, changes_by_hudi_rs(path, begin, end), with_meta=True)


@pytest.mark.full("asks for every pair of completion times")
@pytest.mark.parametrize("name", [name for name in MERGE_ON_READ if name not in CLEANED])
def test_changes_of_merge_on_read_equal_the_hudi_package(name: str, hudi_fixtures: HudiFixtures) -> None:
    path = hudi_fixtures(name)
    table = Table.open(str(path))
    if not table.config.populate_meta_fields:
        with pytest.raises(Unsupported, match="which write each row is from"):
            table.changes(meta_columns=True)
        return
    for begin, end in intervals_between_all(path):
        found, theirs = table.changes(begin, end, meta_columns=True).to_arrow(), changes_by_hudi_rs(path, begin, end)
        if name == RESIZED:
            # Up to an end before the resize, the `hudi` package takes the same rows from the groups that it made.
            of_files = ["_hoodie_file_name", "_hoodie_commit_seqno"]
            found, theirs = found.drop_columns(of_files), theirs.drop_columns(of_files)
        assert_same_rows(found, theirs, with_meta=True)


def test_archived_writes_and_cleaned_files(answers: Answers, hudi_fixtures: HudiFixtures) -> None:
    """Up to now all is equal. Up to an earlier end, Apache Hudi reads the newest snapshot and loses what changed after that end."""
    path = hudi_fixtures(ARCHIVED)
    table = Table.open(str(path))
    archived = archived_completions(path)
    outcomes = {"equal": 0, "cleaned": 0, "archived": 0}
    for begin, end in [*intervals(path), (archived[0], None), (archived[-1], None)]:
        found, theirs = found_or_refused(table, begin, end), answers(ARCHIVED, changes(begin, end))
        if isinstance(found, str):
            assert "cleaned away" in found
            assert end is not None
            outcomes["cleaned"] += 1
        elif end is None or not any(begin < one <= end for one in archived):
            assert_same_rows(found, theirs, with_meta=True)
            outcomes["equal"] += 1
        else:
            assert states(theirs) <= states(found)
            outcomes["archived"] += 1
    assert min(outcomes.values()) > 0
    # The `hudi` package does not read the archived timeline, and says nothing about it.
    assert changes_by_hudi_rs(path, LONG_AGO, None).num_rows < table.changes(meta_columns=True).count_rows()


def states(found: pa.Table) -> set[tuple[str, str]]:
    """Which rows, and of which writes."""
    return set(zip(found["_hoodie_record_key"].to_pylist(), found["_hoodie_commit_time"].to_pylist(), strict=True))
