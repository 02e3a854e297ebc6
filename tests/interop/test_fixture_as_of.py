"""Our reader against tables that Apache Hudi wrote: now, and as of every instant whose files no clean has removed.

Every fixture is either read equal or named, with the reason, in the one list of those that need log files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_ops import Table
from hudi_ops.errors import Unsupported
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows
from tests.interop.expected import COPY_ON_WRITE, MERGE_ON_READ, NEEDS_LOG_FILES, load_expected, readable_instants

HudiFixtures = Callable[[str], Path]


@pytest.mark.parametrize("name", [name for name in COPY_ON_WRITE + MERGE_ON_READ if name not in NEEDS_LOG_FILES])
def test_the_fixture_reads_as_promised(name: str, hudi_fixtures: HudiFixtures) -> None:
    table = Table.open(str(hudi_fixtures(name)))
    assert_same_rows(table.read(), load_expected(name))


@pytest.mark.parametrize("name", NEEDS_LOG_FILES)
def test_a_fixture_with_rows_in_log_files_is_refused(name: str, hudi_fixtures: HudiFixtures) -> None:
    with pytest.raises(Unsupported, match="log files"):
        Table.open(str(hudi_fixtures(name))).read()


def test_every_fixture_is_read_or_has_its_reason(hudi_fixture_names: list[str]) -> None:
    assert {*COPY_ON_WRITE, *MERGE_ON_READ} == set(hudi_fixture_names)
    assert NEEDS_LOG_FILES.keys() <= set(MERGE_ON_READ)


@pytest.mark.parametrize("name", COPY_ON_WRITE)
def test_as_of_every_readable_instant_equals_apache_hudi(
    name: str, apache_hudi: HudiPeer, hudi_fixtures: HudiFixtures
) -> None:
    path = hudi_fixtures(name)
    table = Table.open(str(path))
    instants = readable_instants(path)
    assert instants
    for instant in instants:
        assert_same_rows(table.read(as_of=instant), apache_hudi.read(path, instant))
