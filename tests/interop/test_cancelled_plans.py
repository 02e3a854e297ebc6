"""Cancelled plans beside Apache Hudi: it reads, writes, cleans and archives on a table with aborted plans; so do we after it.

Records of aborted plans are on the timeline, then in their own history. Apache Hudi's archiver passes those on the timeline.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hudi_ops import Table
from hudi_ops.context import Owner
from hudi_ops.storage.open import open_storage
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from tests.bounds import bound
from tests.fault_plans import DiesBefore
from tests.interop.apache_hudi import HudiPeer
from tests.interop.conftest import HudiRsReader
from tests.interop.saved_tables import values
from tests.tables import VERSIONED, by_key, past_expiry, versioned

SERVICES = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.timeline.compaction.batch.size": "2",
    "hoodie.metadata.compact.max.delta.commits": "2",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
}
ROUNDS = bound(1, 3, 20)


def dies_amid(table: Table, path: Path) -> None:
    """Let an executor write its base file and die before it decides; its process is gone."""
    dying = FaultyStorage(open_storage(str(path)), DiesBefore("put:.hoodie/.commit_log/payload"))
    gone = replace(Owner.of_this_process(), started="1")
    with pytest.raises(Crash):
        Table(replace(table.context, storage=dying, owner=gone)).compaction.execute()


@pytest.mark.rotate(shares=4)
@pytest.mark.parametrize(("metadata", "version"), [(True, 9), (False, 8), (False, 9), (True, 8)])
def test_apache_hudi_goes_on_beside_aborted_plans(
    tmp_path: Path, hudi_rs: HudiRsReader, request: pytest.FixtureRequest, metadata: bool, version: int
) -> None:
    apache_hudi: HudiPeer = request.getfixturevalue("apache_hudi" if version == 9 else "apache_hudi_1_0")
    path = tmp_path / "table"
    table = Table.create(
        str(path), name="cancelled", record_key=["id"], schema=VERSIONED, partition_by=["part"], ordering="ts",
        table_type="mor", buckets=1, metadata=metadata, version=version,
        clean={"automatic": False}, archive={"automatic": False},
    )  # fmt: skip
    options = {**SERVICES, "hoodie.metadata.enable": str(metadata).lower()}
    count = 0
    for _ in range(3):
        count += 1
        table.ingest(versioned(0, 6, count))
    aborted = []
    for number in range(ROUNDS):
        planned = table.compaction.plan(cancel="cancellable").instant
        assert planned is not None
        if number % 2 == 0:
            dies_amid(table, path)
        done = table.cancel(planned, f"round {number}")
        assert (done.state, done.files > 0) == ("aborted", number % 2 == 0)
        aborted.append(planned)
        model = {f"k{n:02d}": n * count for n in range(6)}
        assert by_key(table) == values(apache_hudi.read(path)) == values(hudi_rs(path)) == model
        assert not {one["time"] for one in apache_hudi.timeline(path)["instants"]} & {*aborted}
        count += 1
        apache_hudi.write(path, versioned(0, 6, count), buckets=1, options=options)
        table = Table.open(str(path))
        count += 1
        table.ingest(versioned(0, 6, count))
    model = {f"k{n:02d}": n * count for n in range(6)}
    assert by_key(table) == values(apache_hudi.read(path)) == values(hudi_rs(path)) == model
    storage = table.context.storage
    assert [one.time for one in load_timeline(storage, load_config(storage)).aborted] == aborted
    assert_sound(table)
    # Apache Hudi archives past the records, which stay; our archive moves them, and Apache Hudi goes on.
    count += 1
    apache_hudi.write(path, versioned(0, 6, count), buckets=1, options=options)
    model = {f"k{n:02d}": n * count for n in range(6)}
    timeline = load_timeline(storage, load_config(storage))
    assert timeline.start > aborted[-1]
    assert [one.time for one in timeline.aborted] == aborted
    theirs = apache_hudi.timeline(path)["archived"]
    assert theirs > 0
    assert not {one["time"] for one in apache_hudi.timeline(path)["instants"]} & {*aborted}
    table = Table.open(str(path))
    Table(replace(table.context, clock=past_expiry())).recover()
    done = table.archive.run(keep_min=2, keep_max=2)
    assert done.aborted == len(aborted)
    assert load_timeline(storage, load_config(storage)).aborted == ()
    assert by_key(table) == values(apache_hudi.read(path)) == values(hudi_rs(path)) == model
    count += 1
    apache_hudi.write(path, versioned(0, 6, count), buckets=1, options=options)
    model = {f"k{n:02d}": n * count for n in range(6)}
    assert apache_hudi.timeline(path)["archived"] > theirs
    table = Table.open(str(path))
    assert by_key(table) == values(apache_hudi.read(path)) == values(hudi_rs(path)) == model
    assert [(one.instant, one.reason) for one in table.plans(aborted=True)] == [
        (instant, f"round {number}") for number, instant in enumerate(aborted)
    ]
    assert table.cancel(aborted[0]).reason == "round 0"
    assert_sound(table)


def assert_sound(table: Table) -> None:
    """Nothing is damaged, and no record of an aborted plan is in doubt."""
    findings = verify_table(table.context.storage, deep=True, index=True).findings
    assert [one for one in findings if one.severity == "error" or one.invariant.startswith("aborted")] == []
