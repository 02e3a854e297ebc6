"""Ingestion ends a plan on a table that Apache Hudi writes to: it executes the plan before, amid and after, and no row is lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hudi_ops import Table
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.errors import Busy
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.names import State
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import HudiPeer
from tests.interop.conftest import HudiRsReader
from tests.interop.saved_tables import values
from tests.services.cancel.rewriting import plan_rewrite
from tests.tables import VERSIONED, by_key, versioned

OPTIONS = {"hoodie.datasource.write.table.type": "COPY_ON_WRITE", "hoodie.index.type": "BLOOM"}


def timeline_of(table: Table) -> Timeline:
    return load_timeline(table.context.storage, load_config(table.context.storage))


def execute(peer: HudiPeer, path: Path) -> None:
    peer.sql(f"call run_clustering(path => '{path}', op => 'execute')")


def opened(path: Path) -> Table:
    return Table.open(str(path), conflicts=ConflictSettings(retries=0))


@pytest.mark.rotate(shares=4)
@pytest.mark.parametrize(("metadata", "version"), [(True, 9), (False, 8), (False, 9), (True, 8)])
def test_apache_hudi_executes_a_plan_before_amid_and_after_its_cancel(
    tmp_path: Path, hudi_rs: HudiRsReader, request: pytest.FixtureRequest, metadata: bool, version: int
) -> None:
    peer: HudiPeer = request.getfixturevalue("apache_hudi" if version == 9 else "apache_hudi_1_0")
    path = tmp_path / "table"
    Table.create(
        str(path), name="shared", record_key=["id"], schema=VERSIONED, partition_by=["part"], ordering="ts",
        index="bloom", metadata=metadata, version=version, clean={"automatic": False}, archive={"automatic": False},
    )  # fmt: skip
    count = 0

    def ours() -> Table:
        nonlocal count
        count += 1
        (table := opened(path)).ingest(versioned(0, 6, count))
        return table

    def check() -> None:
        model = {f"k{n:02d}": n * count for n in range(6)}
        assert by_key(opened(path)) == values(peer.read(path)) == values(hudi_rs(path)) == model

    ours()
    count += 1
    peer.write(path, versioned(0, 6, count), options={**OPTIONS, "hoodie.metadata.enable": str(metadata).lower()})
    check()

    before = plan_rewrite(opened(path))
    execute(peer, path)
    table = ours()
    assert timeline_of(table).find(before).is_completed
    check()

    after = plan_rewrite(opened(path))
    table = ours()
    assert timeline_of(table).find(after) is None
    execute(peer, path)
    assert [one.time for one in timeline_of(table).aborted] == [after]
    check()

    amid = plan_rewrite(table := opened(path))
    put = timeline_of(table).path(f"{amid}.clustering.requested")
    storage = table.context.storage
    body, delete = storage.get(put), storage.delete_all

    def executes_first(paths: Sequence[str], *, ordered: bool = False) -> None:
        if put in paths:
            execute(peer, path)
        delete(paths, ordered=ordered)

    storage.delete_all = executes_first
    count += 1
    with pytest.raises(Busy, match="another program began to execute this clustering"):
        table.ingest(versioned(0, 6, count))
    storage.delete_all = delete
    assert storage.get(put) == body
    assert timeline_of(table).find(amid).is_completed
    count -= 1
    check()
    ours()
    check()

    asked = plan_rewrite(table := opened(path))
    assert table.cancel(asked, "asked for").state == "aborted"
    assert State.SWEPT in timeline_of(table).aborted[-1].states
    execute(peer, path)
    check()
    ours()
    count += 1
    peer.write(path, versioned(0, 6, count), options={**OPTIONS, "hoodie.metadata.enable": str(metadata).lower()})
    check()
    findings = verify_table(opened(path).context.storage, deep=True, index=True).findings
    assert [one for one in findings if one.severity == "error" or one.invariant.startswith("aborted")] == []
