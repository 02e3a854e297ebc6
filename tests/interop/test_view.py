"""Our file-system view, continued from a table's first write on, equals that of Apache Hudi's `FileSystemViewManager`.

Compared are the newest slices, those before or on instants, and the replaced groups, with and without the metadata table: by Apache
Hudi 1.2 on tables of version 9, by 1.0 on version 8. Rows equal a dict. `apache_views` says what differs, and why.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from hudi_ops import Table
from hudi_ops.storage.open import open_storage
from hudi_ops.testing.faults import FaultyStorage
from tests.bounds import bound
from tests.fault_plans import MoveBefore
from tests.interop.apache_hudi import HudiPeer
from tests.interop.apache_views import ask, our_slices, their_slices
from tests.interop.saved_tables import made, values
from tests.interop.viewed_tables import Kind, Terms, ViewedTable, observed
from tests.tables import by_key, versioned

Version = Literal[8, 9]

pytestmark = pytest.mark.timeout(bound(600, 600, 7_200))
KINDS: list[tuple[Kind, Version, bool]] = [
    ("cow", 9, True),
    ("mor", 9, False),
    ("ring", 9, True),
    ("mor", 8, True),
    ("cow", 8, False),
]
"""Type of table, its version, and whether it has a metadata table: in every second round the other way round."""


def peer_of(request: pytest.FixtureRequest, version: Version) -> HudiPeer:
    peer: HudiPeer = request.getfixturevalue("apache_hudi" if version == 9 else "apache_hudi_1_0")
    return peer


@pytest.mark.parametrize(("kind", "version", "metadata"), KINDS)
def test_our_view_equals_that_of_apache_hudi(
    tmp_path: Path, request: pytest.FixtureRequest, kind: Kind, version: Version, metadata: bool
) -> None:
    hudi = peer_of(request, version)
    for number in range(bound(1, 1, 20)):
        terms = Terms(kind, version, metadata != bool(number % 2), seed=number)
        viewed = ViewedTable(tmp_path / str(number), terms, hudi)
        try:
            viewed.play()
        except BaseException as error:
            error.add_note(str(viewed))
            raise
        print(viewed)
        assert viewed.synced > viewed.built, "the view is continued, not built anew"
        assert viewed.replaced > 0


@pytest.mark.parametrize("version", [9, 8])
def test_a_view_as_of_a_writer_that_overlaps_a_compaction_plan_has_its_log_file(
    tmp_path: Path, request: pytest.FixtureRequest, version: Version
) -> None:
    """Apache Hudi's has it only later: the log file lies upon the compaction, which was requested after the writer."""
    hudi = peer_of(request, version)
    table, path = made(tmp_path, "mor", metadata=False, version=version)
    planned: list[str | None] = []

    def plan() -> None:
        planned.append(table.compaction.plan(threshold=1).instant)

    begun = FaultyStorage(open_storage(str(path)), MoveBefore("put:part=", plan))
    writer = Table(replace(table.context, storage=begun)).ingest(versioned(0, 6, 9)).instant
    assert writer is not None
    assert planned[0] is not None
    assert writer < planned[0]
    assert table.compaction.run().instant == planned[0]

    view = observed(open_storage(str(path)))
    said = ask(hudi, path, view, [writer, planned[0]], metadata=False)
    assert their_slices(said["slices"]) == our_slices(view)
    as_of = {instant: their_slices(shown["slices"], instant) for instant, shown in said["before"].items()}
    assert as_of[planned[0]] == our_slices(view, planned[0]) == our_slices(view)
    ((group, ours),) = our_slices(view, writer).items()
    theirs = as_of[writer][group]
    assert (theirs.base, theirs.logs) == (ours.base, ours.logs[:-1])
    assert writer in ours.logs[-1]
    assert by_key(table, as_of=writer) == {f"k{n:02d}": 9 * n for n in range(6)}
    assert values(hudi.read(path, as_of=writer)) == {f"k{n:02d}": 3 * n for n in range(6)}
    assert values(hudi.read(path, as_of=planned[0])) == values(hudi.read(path)) == by_key(table)
