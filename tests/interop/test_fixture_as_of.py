"""Our reader against tables that Apache Hudi wrote: now, and as of every instant whose files no clean has removed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_ops import Table
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows
from tests.interop.expected import COPY_ON_WRITE, load_expected, readable_instants

HudiFixtures = Callable[[str], Path]


@pytest.mark.parametrize("name", COPY_ON_WRITE)
def test_the_fixture_reads_as_promised(name: str, hudi_fixtures: HudiFixtures) -> None:
    table = Table.open(str(hudi_fixtures(name)))
    assert_same_rows(table.read(), load_expected(name))


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
